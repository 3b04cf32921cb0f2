package server

import (
	"context"

	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

// WaitForExit answers terminal/wait_for_exit.
func (s *Server) WaitForExit(ctx context.Context, req *terminalv1.WaitForExitRequest) (*terminalv1.WaitForExitResponse, error) {
	t, err := s.find(req)
	if err != nil {
		return nil, err
	}
	exit, err := t.Wait(ctx)
	if err != nil {
		return nil, statusOf(err)
	}
	code, signal := exitFields(exit)
	return &terminalv1.WaitForExitResponse{ExitCode: code, Signal: signal}, nil
}
