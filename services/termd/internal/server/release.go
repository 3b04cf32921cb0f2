package server

import (
	"context"

	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

// Release answers terminal/release.
func (s *Server) Release(_ context.Context, req *terminalv1.ReleaseRequest) (*terminalv1.ReleaseResponse, error) {
	scope, err := scopeOf(req.GetContext())
	if err != nil {
		return nil, err
	}
	if err := s.terminals.Release(scope, req.GetTerminalId()); err != nil {
		return nil, statusOfID(err, req.GetTerminalId())
	}
	return &terminalv1.ReleaseResponse{}, nil
}
