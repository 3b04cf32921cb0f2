package server

import (
	"context"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
)

// ListDirectory answers fs/list_directory.
func (s *Server) ListDirectory(ctx context.Context, req *fsv1.ListDirectoryRequest) (*fsv1.ListDirectoryResponse, error) {
	bounds, err := boundsOf(req.GetContext())
	if err != nil {
		return nil, err
	}
	list, err := s.disk.List(ctx, bounds, req.GetPath(), req.GetLimit())
	if err != nil {
		return nil, s.statusError(ctx, "ListDirectory", err)
	}
	resp := &fsv1.ListDirectoryResponse{
		Entries:   make([]*fsv1.DirectoryEntry, 0, len(list.Entries)),
		Truncated: list.Truncated,
		Result:    &acpv1.CallResult{ResolvedPath: list.Path},
	}
	for _, e := range list.Entries {
		resp.Entries = append(resp.Entries, &fsv1.DirectoryEntry{
			Name: e.Name,
			Type: string(e.Type),
			Size: uint64(e.Size),
		})
	}
	return resp, nil
}
