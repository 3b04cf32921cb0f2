package server

import (
	"context"
	"os"
	"path/filepath"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/sdk/handler"

	"github.com/acphost/acphost/services/permd/internal/layers"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

// Configure takes acphost.permission.v1.Settings, reads the rule files that they name, and puts them in force; called
// again, it reads them anew, so that what has loosened counts too. A file that cannot be used is INVALID_ARGUMENT with
// every mistake in it, and what was in force stays. It is what handler.Handler.Configure asks for.
func (s *Server) Configure(ctx context.Context, req *pluginv1.ConfigureRequest) ([]string, error) {
	settings := &permissionv1.Settings{}
	if err := handler.DecodeSettings(req.GetSettings(), settings); err != nil {
		return nil, err
	}
	around := surroundings(req.GetHost().GetProtectedPaths())
	files, err := layers.Load(settings, around, s.log)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "settings: %v", err)
	}
	notes := files.Notes()
	if !req.GetValidateOnly() {
		s.files.Store(files)
		for _, note := range notes {
			s.log.InfoContext(ctx, "policy in force", "note", note)
		}
	}
	return notes, nil
}

// surroundings are those of the user that permd runs as.
func surroundings(protected []string) policy.Surroundings {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // a rule that needs it says so
	}
	return policy.Surroundings{Home: home, Protected: protected, Real: filepath.EvalSymlinks}
}
