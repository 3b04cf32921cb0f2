package server

import (
	"context"

	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

// Run answers terminal/run. It always ends the command before it returns.
func (s *Server) Run(ctx context.Context, req *terminalv1.RunRequest) (*terminalv1.RunResponse, error) {
	t, err := s.create(req, req.OutputByteLimit)
	if err != nil {
		return nil, err
	}
	// An error means that the session has released the terminal meanwhile.
	defer func() { _ = s.terminals.Release(req.GetContext().GetScope(), t.ID()) }()
	exit, err := t.Wait(ctx)
	if err != nil {
		return nil, statusOf(err)
	}
	out := t.Output()
	code, signal := exitFields(exit)
	return &terminalv1.RunResponse{Output: out.Text, Truncated: out.Truncated, ExitCode: code, Signal: signal}, nil
}
