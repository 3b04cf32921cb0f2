package server

import (
	"context"

	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/sdk/handler"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/services/fsd/internal/files"
)

// Configure applies acphost.fs.v1.Settings and the protected paths. It implements handler.Handler.Configure.
func (s *Server) Configure(_ context.Context, req *pluginv1.ConfigureRequest) ([]string, error) {
	settings := &fsv1.Settings{}
	if err := handler.DecodeSettings(req.GetSettings(), settings); err != nil {
		return nil, err
	}
	size := settings.GetMaxContentBytes()
	if size != 0 && (size < files.MinMaxContent || size > files.MaxMaxContent) {
		return nil, status.Errorf(codes.InvalidArgument, "settings: max_content_bytes: %d is not from %d to %d",
			size, files.MinMaxContent, files.MaxMaxContent)
	}
	c := files.Config{MaxContent: int64(size), Protected: req.GetHost().GetProtectedPaths(), AsSent: settings.GetAsSent()}
	if err := s.disk.Configure(c, req.GetValidateOnly()); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "host: protected_paths: %v", err)
	}
	return nil, nil
}
