package server

import (
	"context"

	"github.com/acphost/acphost/internal/textform"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"

	"github.com/acphost/acphost/services/fsd/internal/files"
)

// ReadTextFile answers fs/read_text_file.
func (s *Server) ReadTextFile(ctx context.Context, req *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
	bounds, err := boundsOf(req.GetContext())
	if err != nil {
		return nil, err
	}
	text, err := s.disk.Read(ctx, bounds, req.GetPath(), files.Range{First: req.GetLine(), Limit: req.Limit})
	if err != nil {
		return nil, s.statusError(ctx, "ReadTextFile", err)
	}
	result := &acpv1.CallResult{Digest: text.Digest, ResolvedPath: text.Path}
	if text.Kept != (textform.Form{}) {
		result.Kept = &acpv1.TextForm{Crlf: text.Kept.CRLF, ByteOrderMark: text.Kept.Mark}
	}
	return &fsv1.ReadTextFileResponse{Content: text.Content, Result: result}, nil
}
