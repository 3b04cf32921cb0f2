package server

import (
	"context"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

// ResolveCommand says what would run, before anything is decided about it.
func (s *Server) ResolveCommand(
	_ context.Context, req *terminalv1.ResolveCommandRequest,
) (*terminalv1.ResolveCommandResponse, error) {
	plan, err := s.plan(req)
	if err != nil {
		return nil, err
	}
	return &terminalv1.ResolveCommandResponse{
		Command: &acpv1.ResolvedCommand{Argv: plan.Args, Shell: plan.Shell},
		Cwd:     plan.RealCwd,
		Program: plan.Program,
	}, nil
}
