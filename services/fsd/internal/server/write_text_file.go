package server

import (
	"context"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
)

// WriteTextFile answers fs/write_text_file.
func (s *Server) WriteTextFile(ctx context.Context, req *fsv1.WriteTextFileRequest) (*fsv1.WriteTextFileResponse, error) {
	bounds, err := boundsOf(req.GetContext())
	if err != nil {
		return nil, err
	}
	done, err := s.disk.Write(ctx, bounds, req.GetPath(), req.GetContent(), req.GetContext().GetExpectedDigest())
	if err != nil {
		return nil, s.statusError(ctx, "WriteTextFile", err)
	}
	return &fsv1.WriteTextFileResponse{
		Result: &acpv1.CallResult{Digest: done.Digest, ResolvedPath: done.Path, Notes: done.Notes},
	}, nil
}
