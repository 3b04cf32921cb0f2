package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"

	"github.com/acphost/acphost/services/termd/internal/command"
	"github.com/acphost/acphost/services/termd/internal/terminal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newServer(t *testing.T) *Server {
	t.Helper()
	s := New(slog.New(slog.DiscardHandler), false)
	s.Register(grpc.NewServer())
	t.Cleanup(s.Close)
	return s
}

func configure(t *testing.T, s *Server, settings map[string]any, host *pluginv1.Host) error {
	t.Helper()
	values, err := structpb.NewStruct(settings)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Configure(t.Context(), &pluginv1.ConfigureRequest{Settings: values, Host: host})
	return err
}

// run runs a line to its end in a fresh folder.
func run(t *testing.T, s *Server, line string) string {
	t.Helper()
	resp, err := s.Run(t.Context(), &terminalv1.RunRequest{Context: callContext(t), Command: line})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetOutput()
}

func callContext(t *testing.T) *acpv1.CallContext {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &acpv1.CallContext{Scope: strings.Repeat("a", 32), Roots: []*acpv1.Root{{Path: dir}}}
}

func TestSettings_RejectInvalid(t *testing.T) {
	s := newServer(t)
	for _, tt := range []struct {
		settings map[string]any
		named    string
	}{
		{map[string]any{"max_terminals_per_session": 4097}, "max_terminals_per_session"},
		{map[string]any{"maxTerminalsPerSession": 5000}, "max_terminals_per_session"},
		{map[string]any{"max_output_bytes_per_terminal": 4095}, "max_output_bytes_per_terminal"},
		{map[string]any{"max_output_bytes_per_terminal": 62914561}, "max_output_bytes_per_terminal"},
		{map[string]any{"max_output_bytes_total": 1048575}, "max_output_bytes_total"},
		{map[string]any{"kill_grace_ms": 60001}, "kill_grace_ms"},
		{map[string]any{"env_deny": []any{"A", "B=C"}}, "env_deny[1]"},
		{map[string]any{"env_deny": []any{""}}, "env_deny[0]"},
		{map[string]any{"env_deny": []any{"A"}, "env_deny_nothing": true}, "env_deny_nothing"},
		{map[string]any{"env_allow": []any{"A", ""}}, "env_allow[1]"},
		{map[string]any{"env_allow": []any{"A"}, "env_deny_nothing": true}, "env_allow"},
		{map[string]any{"no_landlock": "yes"}, "no_landlock"},
		{map[string]any{"nope": 1}, "nope"},
	} {
		err := configure(t, s, tt.settings, nil)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(status.Convert(err).Message(), tt.named) {
			t.Errorf("%v: got %v, want INVALID_ARGUMENT that names %s", tt.settings, err, tt.named)
		}
	}
	if err := configure(t, s, nil, &pluginv1.Host{ProtectedPaths: []string{"relative"}}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a relative protected path: got %v", err)
	}
}

func TestTerminal_InheritsEnvironmentOfHost(t *testing.T) {
	host := &pluginv1.Host{Environment: []string{
		"PATH=/usr/bin:/bin", "PLAIN=1", "MY_TOKEN=t", "PLUGIN_X=p", "ACPHOST_LOG=debug", "SPECIAL=s",
	}}
	const show = `echo "${PLAIN-no} ${MY_TOKEN-no} ${PLUGIN_X-no} ${ACPHOST_LOG-no} ${SPECIAL-no} ${HOME-no}"`
	s := newServer(t)
	for _, tt := range []struct {
		settings map[string]any
		want     string
	}{
		{nil, "1 no no no s no\n"},
		{map[string]any{"env_deny": []any{"SPE*"}}, "1 t no no no no\n"},
		{map[string]any{"env_allow": []any{"MY_TOKEN"}}, "1 t no no s no\n"},
		{map[string]any{"env_deny_nothing": true}, "1 t no no s no\n"},
	} {
		if err := configure(t, s, tt.settings, host); err != nil {
			t.Fatal(err)
		}
		if got := run(t, s, show); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.settings, got, tt.want)
		}
	}
}

func TestConfigure_ValidateOnlyChangesNothing(t *testing.T) {
	s := newServer(t)
	values, _ := structpb.NewStruct(map[string]any{"max_output_bytes_per_terminal": 4096})
	_, err := s.Configure(t.Context(), &pluginv1.ConfigureRequest{
		Settings: values, Host: &pluginv1.Host{Environment: []string{"ONLY=this"}}, ValidateOnly: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := run(t, s, `echo "${ONLY-no}"; yes | head -n 10000`); !strings.HasPrefix(got, "no\n") || len(got) < 20000 {
		t.Errorf("got %d bytes: %.20q", len(got), got)
	}
}

func TestLimits_FromSettings(t *testing.T) {
	s := newServer(t)
	if err := configure(t, s, map[string]any{"max_output_bytes_per_terminal": 4096, "max_terminals_per_session": 1}, nil); err != nil {
		t.Fatal(err)
	}
	if got := run(t, s, "yes | head -n 10000; echo end"); len(got) > 4096 || !strings.HasSuffix(got, "y\nend\n") {
		t.Errorf("got %d bytes", len(got))
	}
	c := callContext(t)
	if _, err := s.Create(t.Context(), &terminalv1.CreateRequest{Context: c, Command: "sleep 1000"}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Create(t.Context(), &terminalv1.CreateRequest{Context: c, Command: "true"})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v, want RESOURCE_EXHAUSTED", err)
	}
	s.ReleaseScope(c.GetScope())
	if _, err := s.Create(t.Context(), &terminalv1.CreateRequest{Context: c, Command: "true"}); err != nil {
		t.Errorf("after the scope's release: %v", err)
	}
}

func TestCreate_RejectsProtectedFolders(t *testing.T) {
	s := newServer(t)
	c := callContext(t)
	if err := configure(t, s, nil, &pluginv1.Host{ProtectedPaths: []string{c.GetRoots()[0].GetPath()}}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Create(t.Context(), &terminalv1.CreateRequest{Context: c, Command: "true"})
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("got %v, want PERMISSION_DENIED", err)
	}
}

func TestErrors_HaveCodes(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want codes.Code
	}{
		{command.ErrInvalid, codes.InvalidArgument},
		{command.ErrProtected, codes.PermissionDenied},
		{command.ErrCannotStart, codes.Internal},
		{command.ErrReplaced, codes.FailedPrecondition},
		{terminal.ErrTooMany, codes.ResourceExhausted},
		{terminal.ErrEnded, codes.FailedPrecondition},
		{terminal.ErrUnknown, codes.NotFound},
		{context.Canceled, codes.Canceled},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
		{errors.New("any other"), codes.Internal},
	} {
		if got := status.Code(statusOfID(fmt.Errorf("wrapped: %w", tt.err), "x")); got != tt.want {
			t.Errorf("%v: got %v, want %v", tt.err, got, tt.want)
		}
	}
}

func TestCalls_RequireScope(t *testing.T) {
	s := newServer(t)
	ctx := t.Context()
	_, create := s.Create(ctx, &terminalv1.CreateRequest{Command: "true"})
	_, output := s.Output(ctx, &terminalv1.OutputRequest{})
	_, wait := s.WaitForExit(ctx, &terminalv1.WaitForExitRequest{Context: &acpv1.CallContext{}})
	_, kill := s.Kill(ctx, &terminalv1.KillRequest{})
	_, release := s.Release(ctx, &terminalv1.ReleaseRequest{})
	_, run := s.Run(ctx, &terminalv1.RunRequest{Command: "true"})
	for name, err := range map[string]error{
		"Create": create, "Output": output, "WaitForExit": wait, "Kill": kill, "Release": release, "Run": run,
	} {
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: got %v, want INVALID_ARGUMENT", name, err)
		}
	}
}

func TestCreate_RejectsSwappedFolder(t *testing.T) {
	for name, swap := range map[string]func(dir string) error{
		"another folder in its place": func(dir string) error {
			return errors.Join(os.Rename(dir+"/judged", dir+"/gone"), os.Rename(dir+"/other", dir+"/judged"))
		},
		"a link in its place": func(dir string) error {
			return errors.Join(os.Rename(dir+"/judged", dir+"/gone"), os.Symlink("other", dir+"/judged"))
		},
		"a link that leads elsewhere": func(dir string) error {
			return errors.Join(os.Remove(dir+"/link"), os.Symlink("other", dir+"/link"))
		},
		"moved": func(dir string) error { return os.Rename(dir+"/judged", dir+"/gone") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			c := callContext(t)
			dir := c.GetRoots()[0].GetPath()
			cwd := dir + "/link"
			for _, err := range []error{os.Mkdir(dir+"/judged", 0o700), os.Mkdir(dir+"/other", 0o700), os.Symlink("judged", cwd)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			judged, err := s.ResolveCommand(t.Context(), &terminalv1.ResolveCommandRequest{Context: c, Command: "pwd -P", Cwd: &cwd})
			if err != nil {
				t.Fatal(err)
			}
			c.ResolvedCommand = judged.GetCommand()
			got, err := s.Run(t.Context(), &terminalv1.RunRequest{Context: c, Command: "pwd -P", Cwd: &cwd})
			if err != nil || got.GetOutput() != dir+"/judged\n" {
				t.Fatalf("where nothing was swapped: %q, %v", got.GetOutput(), err)
			}
			if err := swap(dir); err != nil {
				t.Fatal(err)
			}
			got, err = s.Run(t.Context(), &terminalv1.RunRequest{Context: c, Command: "pwd -P", Cwd: &cwd})
			if want := map[bool]codes.Code{true: codes.InvalidArgument, false: codes.FailedPrecondition}[name == "moved"]; status.Code(err) != want {
				t.Errorf("it ran in %q, %v; want %v", got.GetOutput(), err, want)
			}
		})
	}
}
