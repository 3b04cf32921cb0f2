package server

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/sdk/handler"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/services/termd/internal/command"
	"github.com/acphost/acphost/services/termd/internal/terminal"
)

// Configure takes acphost.terminal.v1.Settings, the environment that terminals inherit (none: this process's own) and the
// paths that no agent may touch. It is what handler.Handler.Configure asks for.
func (s *Server) Configure(_ context.Context, req *pluginv1.ConfigureRequest) ([]string, error) {
	settings := &terminalv1.Settings{}
	if err := handler.DecodeSettings(req.GetSettings(), settings); err != nil {
		return nil, err
	}
	limits, deny, err := settingsOf(settings)
	if err != nil {
		return nil, err
	}
	for _, path := range req.GetHost().GetProtectedPaths() {
		if !filepath.IsAbs(path) {
			return nil, status.Errorf(codes.InvalidArgument, "host: protected_paths: %q is not an absolute path", path)
		}
	}
	if req.GetValidateOnly() {
		return nil, nil
	}
	environ := req.GetHost().GetEnvironment()
	if len(environ) == 0 {
		environ = os.Environ()
	}
	s.begin.Do(s.start)
	s.terminals.SetLimits(limits)
	s.surroundings.Store(&command.Surroundings{
		Environ:   command.Inherit(environ, deny),
		Protected: req.GetHost().GetProtectedPaths(),
	})
	return nil, nil
}

// settingsOf checks the bounds that the contract gives and fills in its defaults.
func settingsOf(s *terminalv1.Settings) (terminal.Limits, []string, error) {
	for _, b := range []struct {
		name             string
		value, low, high uint64
	}{
		{"max_terminals_per_session", uint64(s.GetMaxTerminalsPerSession()), 1, 4096},
		{"max_output_bytes_per_terminal", s.GetMaxOutputBytesPerTerminal(), 4096, 60 << 20},
		{"max_output_bytes_total", s.GetMaxOutputBytesTotal(), 1 << 20, 1 << 50},
		{"kill_grace_ms", uint64(s.GetKillGraceMs()), 1, 60_000},
	} {
		if b.value != 0 && (b.value < b.low || b.value > b.high) {
			return terminal.Limits{}, nil, status.Errorf(codes.InvalidArgument, "settings: %s: %d is not from %d to %d",
				b.name, b.value, b.low, b.high)
		}
	}
	deny := s.GetEnvDeny()
	for i, name := range deny {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return terminal.Limits{}, nil, status.Errorf(codes.InvalidArgument,
				"settings: env_deny[%d]: %q is no name of a variable", i, name)
		}
	}
	switch {
	case s.GetEnvDenyNothing() && len(deny) > 0:
		return terminal.Limits{}, nil, status.Error(codes.InvalidArgument,
			"settings: env_deny_nothing: env_deny says what to deny: give one of the two")
	case !s.GetEnvDenyNothing() && len(deny) == 0:
		deny = command.DefaultDeny()
	}
	limits := terminal.DefaultLimits()
	limits.PerScope = int(cmp.Or(s.GetMaxTerminalsPerSession(), uint32(limits.PerScope)))
	limits.Output = int(cmp.Or(s.GetMaxOutputBytesPerTerminal(), uint64(limits.Output)))
	limits.Total = int64(cmp.Or(s.GetMaxOutputBytesTotal(), uint64(limits.Total)))
	limits.Wall = time.Duration(s.GetMaxWallSeconds()) * time.Second
	if ms := s.GetKillGraceMs(); ms > 0 {
		limits.Grace = time.Duration(ms) * time.Millisecond
	}
	limits.NoLandlock = s.GetNoLandlock()
	return limits, deny, nil
}
