package server

import (
	"context"

	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
)

// Resolve returns the target of a path. Agents cannot call it.
func (s *Server) Resolve(ctx context.Context, req *fsv1.ResolveRequest) (*fsv1.ResolveResponse, error) {
	bounds, err := boundsOf(req.GetContext())
	if err != nil {
		return nil, err
	}
	at, err := s.disk.Resolve(ctx, bounds, req.GetPath())
	if err != nil {
		return nil, s.statusError(ctx, "Resolve", err)
	}
	return &fsv1.ResolveResponse{
		Path:        at.Path,
		Exists:      at.Exists,
		InsideRoots: at.Inside,
		Root:        at.Root,
		ReadOnly:    at.ReadOnly,
		Protected:   at.Protected,
	}, nil
}
