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

// Configure applies acphost.permission.v1.Settings and loads their rule files. A repeated call reloads the files, so
// that looser rules apply too. If a file cannot be used, it returns INVALID_ARGUMENT with every mistake in the file,
// and the previous rules stay in force. After a restart, the kept rules are in force. It implements
// handler.Handler.Configure.
func (s *Server) Configure(ctx context.Context, req *pluginv1.ConfigureRequest) ([]string, error) {
	settings := &permissionv1.Settings{}
	if err := handler.DecodeSettings(req.GetSettings(), settings); err != nil {
		return nil, err
	}
	env := surroundings(req.GetHost().GetProtectedPaths())
	files, err := layers.Load(settings, req.GetKept(), env, s.log)
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

// surroundings returns the surroundings of the user that permd runs as.
func surroundings(protected []string) policy.Surroundings {
	return policy.Surroundings{Home: home(), Protected: protected, Real: filepath.EvalSymlinks}
}

// home returns the user's home directory: $HOME, else that of the system's user database, since a service may be
// started without an environment. Empty: it is unknown, and a rule that needs it reports that.
func home() string {
	if dir, err := os.UserHomeDir(); err == nil && filepath.IsAbs(dir) {
		return dir
	}
	if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir
	}
	return ""
}
