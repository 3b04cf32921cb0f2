package server

import (
	"context"

	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

// Kill answers terminal/kill.
func (s *Server) Kill(ctx context.Context, req *terminalv1.KillRequest) (*terminalv1.KillResponse, error) {
	t, err := s.find(req)
	if err != nil {
		return nil, err
	}
	if err := t.Kill(ctx); err != nil {
		return nil, statusOf(err)
	}
	return &terminalv1.KillResponse{}, nil
}
