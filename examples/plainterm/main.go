// Command plainterm answers an agent's terminal/* requests: it runs commands whose output is read through pipes. It is
// a template for handlers of terminals. It implements the whole service except Run, which is not in ACP: commands.go
// determines the command, terminal.go runs it, and this file has the RPCs.
//
// A command is not confined: it has the same rights as this process, and a process of it that leaves the process group
// outlives it. acphost's termd runs commands on pseudo-terminals, in a Landlock domain, behind a seccomp filter and
// without capabilities, and finds all of their processes. To confine commands in another way (a container, a virtual
// machine), change terminals.start.
package main

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/sdk/handler"
	"github.com/acphost/acphost/sdk/programs"
)

type service struct {
	terminalv1.UnimplementedTerminalServiceServer
	settings  handler.Settings[struct{}]
	terminals terminals
}

func newHandler() handler.Handler {
	s := &service{}
	return handler.Handler{
		Name: "plainterm", Version: "1.0.0", Configure: s.settings.Configure,
		Register: func(r grpc.ServiceRegistrar) { terminalv1.RegisterTerminalServiceServer(r, s) },
		Release:  s.terminals.releaseScope,
		Close:    func() { s.terminals.releaseScope("") },
	}
}

func main() { handler.Main(newHandler()) }

// protected are the paths in which no command may run.
func (s *service) protected() []string { return s.settings.Host().GetProtectedPaths() }

// ResolveCommand returns the program that would run. The supervisor calls it before it decides about a command; agents
// cannot call it.
func (s *service) ResolveCommand(_ context.Context, r *terminalv1.ResolveCommandRequest) (*terminalv1.ResolveCommandResponse, error) {
	c, err := commandOf(r, s.protected())
	if err != nil {
		return nil, err
	}
	resolver := programs.Resolver{Environ: c.env, Quiet: true}
	for _, root := range r.GetContext().GetRoots() {
		resolver.Roots = append(resolver.Roots, root.GetPath())
	}
	return &terminalv1.ResolveCommandResponse{
		Command: &acpv1.ResolvedCommand{Argv: c.argv, Shell: c.shell, Program: c.program, Missing: c.program == ""},
		Cwd:     c.dir, Program: c.program, Found: resolver.Look(r.GetSimpleCommands()),
	}, nil
}

// Create answers terminal/create.
func (s *service) Create(_ context.Context, r *terminalv1.CreateRequest) (*terminalv1.CreateResponse, error) {
	c, err := commandOf(r, s.protected())
	if err != nil {
		return nil, err
	}
	limit := uint64(1 << 20)
	if r.OutputByteLimit != nil {
		limit = min(r.GetOutputByteLimit(), 10<<20)
	}
	t, err := s.terminals.start(r.GetContext().GetScope(), c, int(limit))
	if err != nil {
		return nil, err
	}
	return &terminalv1.CreateResponse{TerminalId: t.info.GetTerminalId()}, nil
}

// Output answers terminal/output.
func (s *service) Output(_ context.Context, r *terminalv1.OutputRequest) (*terminalv1.OutputResponse, error) {
	t, err := s.terminals.find(r.GetContext().GetScope(), r.GetTerminalId(), false)
	if err != nil {
		return nil, err
	}
	return t.output(), nil
}

// WaitForExit answers terminal/wait_for_exit.
func (s *service) WaitForExit(ctx context.Context, r *terminalv1.WaitForExitRequest) (*terminalv1.WaitForExitResponse, error) {
	t, err := s.terminals.find(r.GetContext().GetScope(), r.GetTerminalId(), false)
	if err != nil {
		return nil, err
	}
	select {
	case <-t.done:
		exit := t.exit()
		return &terminalv1.WaitForExitResponse{ExitCode: exit.ExitCode, Signal: exit.Signal}, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// Kill answers terminal/kill.
func (s *service) Kill(_ context.Context, r *terminalv1.KillRequest) (*terminalv1.KillResponse, error) {
	t, err := s.terminals.find(r.GetContext().GetScope(), r.GetTerminalId(), false)
	if err != nil {
		return nil, err
	}
	t.kill(killGrace)
	return &terminalv1.KillResponse{}, nil
}

// Release answers terminal/release.
func (s *service) Release(_ context.Context, r *terminalv1.ReleaseRequest) (*terminalv1.ReleaseResponse, error) {
	t, err := s.terminals.find(r.GetContext().GetScope(), r.GetTerminalId(), true)
	if err != nil {
		return nil, err
	}
	t.release()
	return &terminalv1.ReleaseResponse{}, nil
}

// List lists terminals, for people who watch them.
func (s *service) List(_ context.Context, r *terminalv1.ListRequest) (*terminalv1.ListResponse, error) {
	return &terminalv1.ListResponse{Terminals: s.terminals.list(r.GetScope())}, nil
}

// Watch streams a terminal's output, for people who watch it.
func (s *service) Watch(r *terminalv1.WatchRequest, stream grpc.ServerStreamingServer[terminalv1.WatchResponse]) error {
	t, err := s.terminals.find(r.GetScope(), r.GetTerminalId(), true)
	if err != nil {
		return err
	}
	for at := uint64(0); ; {
		piece, dropped, news, exit := t.from(at)
		at += dropped + uint64(len(piece))
		next := &terminalv1.WatchResponse{}
		switch {
		case dropped > 0:
			next.Event = &terminalv1.WatchResponse_DroppedBytes{DroppedBytes: dropped}
		case len(piece) > 0:
			next.Event = &terminalv1.WatchResponse_Data{Data: piece}
		case exit != nil:
			return stream.Send(&terminalv1.WatchResponse{Event: &terminalv1.WatchResponse_Exit{Exit: exit}})
		default:
			select {
			case <-news:
				continue
			case <-stream.Context().Done():
				return status.FromContextError(stream.Context().Err()).Err()
			}
		}
		if err := stream.Send(next); err != nil {
			return status.Errorf(codes.Unavailable, "the watcher is gone: %v", err)
		}
	}
}
