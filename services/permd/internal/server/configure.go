package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/sdk/handler"

	"github.com/acphost/acphost/services/permd/internal/policy"
	"github.com/acphost/acphost/services/permd/internal/ready"
)

// Configure takes acphost.permission.v1.Settings, reads the rule file that they name, and puts it in force. A file that
// cannot be used is INVALID_ARGUMENT with every mistake in it, and the policy in force stays. It is what
// handler.Handler.Configure asks for.
func (s *Server) Configure(ctx context.Context, req *pluginv1.ConfigureRequest) ([]string, error) {
	settings := &permissionv1.Settings{}
	if err := handler.DecodeSettings(req.GetSettings(), settings); err != nil {
		return nil, err
	}
	// A layer that would not count must not look as if it did.
	for name, value := range map[string]string{
		"admin_policy": settings.GetAdminPolicy(), "workspace_policy": settings.GetWorkspacePolicy(), "trust": settings.GetTrust(),
	} {
		if value != "" {
			return nil, status.Errorf(codes.InvalidArgument, "settings: %s: not supported by this permd; leave it out", name)
		}
	}
	next, note, err := load(settings.GetPolicy(), req.GetHost().GetProtectedPaths())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "settings: policy: %v", err)
	}
	if !req.GetValidateOnly() {
		s.policy.Store(next)
		s.log.InfoContext(ctx, "policy in force", "file", settings.GetPolicy(), "rules", next.Rules())
	}
	return []string{note}, nil
}

func load(file string, protected []string) (p *policy.Policy, note string, err error) {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // a rule that needs it says so
	}
	around := policy.Surroundings{Home: home, Protected: protected, Real: filepath.EvalSymlinks}
	if file == "" {
		p, err = policy.None(around)
		return p, "no policy is set: every question is asked", err
	}
	if content, found := ready.Get(file); found {
		p, err = policy.Parse(file, content, around)
	} else {
		p, err = policy.Load(file, around)
	}
	if err != nil {
		return nil, "", err
	}
	return p, fmt.Sprintf("rules in force: %d, from %s", p.Rules(), file), nil
}
