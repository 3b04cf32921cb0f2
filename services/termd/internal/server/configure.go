package server

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/proc"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/sdk/handler"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/services/termd/internal/command"
	"github.com/acphost/acphost/services/termd/internal/terminal"
)

// Configure applies acphost.terminal.v1.Settings, the environment that terminals inherit (default: this process's own)
// and the protected paths. It implements handler.Handler.Configure.
func (s *Server) Configure(_ context.Context, req *pluginv1.ConfigureRequest) ([]string, error) {
	settings := &terminalv1.Settings{}
	if err := handler.DecodeSettings(req.GetSettings(), settings); err != nil {
		return nil, err
	}
	limits, filter, err := settingsOf(settings)
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
	s.startOnce.Do(s.start)
	s.terminals.SetLimits(limits)
	s.config.Store(&command.Config{
		Environ:   command.Inherit(environ, filter),
		Protected: req.GetHost().GetProtectedPaths(),
	})
	return notesOf(limits.Confinement), nil
}

// notesOf returns one sentence for each restriction of commands that the settings remove.
func notesOf(c proc.Confinement) (notes []string) {
	if c.NoLandlock {
		notes = append(notes, "commands run outside of a Landlock domain (no_landlock): they can signal and trace processes of this user")
	}
	if c.NoSeccomp {
		notes = append(notes, "commands run without a seccomp filter (no_seccomp): they can set limits of processes of this user, and write into them")
	}
	if len(c.Keep) > 0 {
		notes = append(notes, fmt.Sprintf("commands keep capabilities: %v", c.Keep))
	}
	return notes
}

// settingsOf checks the limits in the contract and applies its defaults.
func settingsOf(s *terminalv1.Settings) (limits terminal.Limits, filter command.Filter, err error) {
	invalid := func(format string, args ...any) (terminal.Limits, command.Filter, error) {
		return terminal.Limits{}, command.Filter{}, status.Errorf(codes.InvalidArgument, "settings: "+format, args...)
	}
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
			return invalid("%s: %d is not from %d to %d", b.name, b.value, b.low, b.high)
		}
	}
	filter = command.Filter{Deny: s.GetEnvDeny(), Allow: s.GetEnvAllow(), KeepAll: s.GetEnvDenyNothing()}
	for _, list := range []struct {
		name     string
		patterns []string
	}{{"env_deny", filter.Deny}, {"env_allow", filter.Allow}} {
		for i, name := range list.patterns {
			if name == "" || strings.ContainsAny(name, "=\x00") {
				return invalid("%s[%d]: %q is no name of a variable", list.name, i, name)
			}
		}
		if filter.KeepAll && len(list.patterns) > 0 {
			return invalid("env_deny_nothing: %s selects the inherited variables: give one of the two", list.name)
		}
	}
	limits = terminal.DefaultLimits()
	limits.PerScope = int(cmp.Or(s.GetMaxTerminalsPerSession(), uint32(limits.PerScope)))
	limits.Output = int(cmp.Or(s.GetMaxOutputBytesPerTerminal(), uint64(limits.Output)))
	limits.Total = int64(cmp.Or(s.GetMaxOutputBytesTotal(), uint64(limits.Total)))
	limits.RunTime = time.Duration(s.GetMaxWallSeconds()) * time.Second
	if ms := s.GetKillGraceMs(); ms > 0 {
		limits.Grace = time.Duration(ms) * time.Millisecond
	}
	keep, err := proc.ParseCapabilities(s.GetCapabilities())
	if err != nil {
		return invalid("capabilities: %v", err)
	}
	limits.Confinement = proc.Confinement{NoLandlock: s.GetNoLandlock(), NoSeccomp: s.GetNoSeccomp(), Keep: keep}
	return limits, filter, nil
}
