package server

import (
	"context"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

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
// every mistake in it, and what was in force stays. Started again, what it kept is in force. It is what handler.Handler.Configure asks for.
func (s *Server) Configure(ctx context.Context, req *pluginv1.ConfigureRequest) ([]string, error) {
	settings := &permissionv1.Settings{}
	if err := handler.DecodeSettings(req.GetSettings(), settings); err != nil {
		return nil, err
	}
	around := surroundings(req.GetHost().GetProtectedPaths())
	files, err := layers.Load(settings, req.GetKept(), around, s.log)
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
	return policy.Surroundings{Home: home(), Protected: protected, Real: filepath.EvalSymlinks}
}

// home is the user's home directory: $HOME, else what the system knows of the user, since a service may be started
// without any environment. Empty: neither says, and a rule that needs it says so.
func home() string {
	if dir, err := os.UserHomeDir(); err == nil && filepath.IsAbs(dir) {
		return dir
	}
	if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir
	}
	return ""
}
