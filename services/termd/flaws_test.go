package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/sdk/conformance"
	"github.com/acphost/acphost/sdk/handler"
	"github.com/acphost/acphost/sdk/handlertest"

	"github.com/acphost/acphost/services/termd/internal/server"
)

// flawed is termd with one thing wrong.
type flawed struct {
	*server.Server
	create func(*terminalv1.CreateRequest)
	output func(*terminalv1.OutputResponse)
	wait   func(*terminalv1.WaitForExitResponse)
	err    func(error) error
	kill   bool // answers and does nothing
}

func (f flawed) Create(ctx context.Context, req *terminalv1.CreateRequest) (*terminalv1.CreateResponse, error) {
	if f.create != nil {
		f.create(req)
	}
	return f.Server.Create(ctx, req)
}

func (f flawed) Output(ctx context.Context, req *terminalv1.OutputRequest) (*terminalv1.OutputResponse, error) {
	resp, err := f.Server.Output(ctx, req)
	if f.output != nil && err == nil {
		f.output(resp)
	}
	return resp, err
}

func (f flawed) WaitForExit(ctx context.Context, req *terminalv1.WaitForExitRequest) (*terminalv1.WaitForExitResponse, error) {
	resp, err := f.Server.WaitForExit(ctx, req)
	if f.wait != nil && err == nil {
		f.wait(resp)
	}
	return resp, err
}

func (f flawed) Release(ctx context.Context, req *terminalv1.ReleaseRequest) (*terminalv1.ReleaseResponse, error) {
	resp, err := f.Server.Release(ctx, req)
	if f.err != nil {
		err = f.err(err)
	}
	return resp, err
}

func (f flawed) Kill(ctx context.Context, req *terminalv1.KillRequest) (*terminalv1.KillResponse, error) {
	if f.kill {
		return &terminalv1.KillResponse{}, nil
	}
	return f.Server.Kill(ctx, req)
}

// TestConformance_FindsFlaws: the conformance case for each flaw must fail.
func TestConformance_FindsFlaws(t *testing.T) {
	zero := uint32(0)
	for name, c := range map[string]struct {
		flaw   flawed
		caught string
	}{
		"line endings are the terminal's": {
			flawed{output: func(r *terminalv1.OutputResponse) { r.Output = strings.ReplaceAll(r.GetOutput(), "\n", "\r\n") }},
			"Output is plain text",
		},
		"the beginning is kept": {
			flawed{output: func(r *terminalv1.OutputResponse) {
				if r.GetTruncated() {
					r.Output = "0 äöü€🎉\n"[:min(len(r.GetOutput()), 14)]
				}
			}},
			"Output keeps the newest bytes and cuts at a character",
		},
		"truncation is not reported": {
			flawed{output: func(r *terminalv1.OutputResponse) { r.Truncated = false }},
			"Output keeps the newest bytes and cuts at a character",
		},
		"the last byte is lost": {
			flawed{output: func(r *terminalv1.OutputResponse) { r.Output = r.GetOutput()[:max(0, len(r.GetOutput())-1)] }},
			"no output of a short command is lost",
		},
		"a signal is reported with a code": {
			flawed{wait: func(r *terminalv1.WaitForExitResponse) { r.ExitCode = &zero }},
			"WaitForExit returns code and signal",
		},
		"the judged command is not the executed one": {
			flawed{create: func(r *terminalv1.CreateRequest) { r.Context.ResolvedCommand = nil }},
			"Create runs exactly the resolved command",
		},
		"cwd may be anywhere": {
			flawed{create: func(r *terminalv1.CreateRequest) { r.Context.Roots[0].Path = "/" }},
			"Create rejects a cwd outside of the roots",
		},
		"the environment is not set": {
			flawed{create: func(r *terminalv1.CreateRequest) { r.Env = nil }},
			"Create sets the requested environment",
		},
		"kill does nothing": {
			flawed{kill: true}, "Kill ends the whole tree and keeps the id",
		},
		"an unknown id has another wording": {
			flawed{err: func(err error) error {
				if status.Code(err) == codes.NotFound {
					return status.Error(codes.NotFound, "no such terminal")
				}
				return err
			}},
			"an unknown id is NOT_FOUND",
		},
		"release forgets": {
			flawed{err: func(err error) error { return status.Error(codes.NotFound, "Resource not found: x") }},
			"Release twice is no error",
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := slog.New(slog.DiscardHandler)
			c.flaw.Server = server.New(log, false)
			t.Cleanup(c.flaw.Server.Close)
			suite := conformance.Suite{Kind: conformance.KindTerminal, Conn: handlertest.Serve(t, handler.Handler{
				Name: "termd", Version: "test", Logger: log,
				Configure: c.flaw.Configure,
				Register: func(r grpc.ServiceRegistrar) {
					c.flaw.Server.Register(discard{}) // starts it
					terminalv1.RegisterTerminalServiceServer(r, c.flaw)
				},
			})}
			for _, one := range conformance.Cases(conformance.KindTerminal) {
				if one.Name != conformance.KindTerminal+"/"+c.caught {
					continue
				}
				if err := suite.RunCase(t.Context(), one); err == nil || errors.Is(err, conformance.ErrSkipped) {
					t.Errorf("%s: %v", one.Name, err)
				}
				return
			}
			t.Errorf("there is no case %q", c.caught)
		})
	}
}

// discard registers nothing.
type discard struct{}

func (discard) RegisterService(*grpc.ServiceDesc, any) {}
