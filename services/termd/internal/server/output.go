package server

import (
	"context"

	"github.com/acphost/acphost/internal/proc"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"

	"github.com/acphost/acphost/services/termd/internal/terminal"
)

// Output answers terminal/output.
func (s *Server) Output(_ context.Context, req *terminalv1.OutputRequest) (*terminalv1.OutputResponse, error) {
	t, err := s.find(req)
	if err != nil {
		return nil, err
	}
	out := t.Output()
	return &terminalv1.OutputResponse{Output: out.Text, Truncated: out.Truncated, ExitStatus: exitStatus(out.Exit)}, nil
}

// terminalRequest is the common interface of requests that name a terminal.
type terminalRequest interface {
	GetContext() *acpv1.CallContext
	GetTerminalId() string
}

// find returns the terminal that a request names, if it belongs to the caller's scope and was not released.
func (s *Server) find(req terminalRequest) (*terminal.Terminal, error) {
	scope, err := scopeOf(req.GetContext())
	if err != nil {
		return nil, err
	}
	t, err := s.terminals.Get(scope, req.GetTerminalId())
	if err != nil {
		return nil, statusOfID(err, req.GetTerminalId())
	}
	return t, nil
}

// exitStatus sets exactly one of code and signal. It returns nil while the command runs.
func exitStatus(e *proc.ExitStatus) *terminalv1.ExitStatus {
	if e == nil {
		return nil
	}
	code, signal := exitFields(*e)
	return &terminalv1.ExitStatus{ExitCode: code, Signal: signal}
}

func exitFields(e proc.ExitStatus) (code *uint32, signal *string) {
	if e.Signal != "" {
		return nil, &e.Signal
	}
	c := uint32(e.Code)
	return &c, nil
}
