package handler

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
)

func TestHandlerSwap_ResolvesPathsInWorkingDirectory(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	digest := strings.Repeat("a", 64)
	settings := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(settings, []byte("paths: [/srv]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	srv, err := structpb.NewStruct(map[string]any{"paths": []any{"/srv"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		want *supervisorv1.SwapHandlerRequest
	}{
		{"a program that is here", []string{"permission", "--", "./my-permd", "-x", "--force"},
			&supervisorv1.SwapHandlerRequest{Name: "permission", Command: []string{filepath.Join(here, "my-permd"), "-x", "--force"}}},
		{"one of acphost's own", []string{"permission", "--force", "--no-tls", "--sha256", digest, "--", "permd"},
			&supervisorv1.SwapHandlerRequest{Name: "permission", Command: []string{"permd"}, Force: true, NoTls: true, Sha256: digest}},
		{"a sidecar", []string{"fs", "--address", "unix:///run/fsd.sock"},
			&supervisorv1.SwapHandlerRequest{Name: "fs", Address: "unix:///run/fsd.sock"}},
		{"a sidecar of a user, and its settings", []string{"fs", "--address", "unix:///run/fsd.sock", "--uid", "0", "--settings", settings},
			&supervisorv1.SwapHandlerRequest{Name: "fs", Address: "unix:///run/fsd.sock", Uid: proto.Uint32(0), Settings: srv}},
		{"a sidecar with a secret that is here", []string{"fs", "--address", "unix:///run/fsd.sock", "--secret-file", "secret", "--agent-may-call"},
			&supervisorv1.SwapHandlerRequest{Name: "fs", Address: "unix:///run/fsd.sock", SecretFile: filepath.Join(here, "secret"), AgentMayCall: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctl := &commandtest.Control{}
			env := commandtest.ServeHandlers(t, ctl, 4711)
			status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, New, append([]string{"handler", "swap", "--pid", "4711"}, c.args...)...)
			if status != 0 || !proto.Equal(ctl.Swapped, c.want) {
				t.Errorf("status %d, asked for %v, want %v: %s", status, ctl.Swapped, c.want, stderr)
			}
			if want := "permission: ready, permd\\u{1b} 2, process 99\n  two rules\n  3 calls were not answered"; !strings.HasPrefix(stdout, want) {
				t.Errorf("printed %q, want %q", stdout, want)
			}
		})
	}
}

func TestHandlerSwap_UsageErrors(t *testing.T) {
	ctl := &commandtest.Control{}
	env := commandtest.ServeHandlers(t, ctl, 4711)
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "one handler's name"},
		{[]string{"permission"}, "either a command"},
		{[]string{"permission", "./x"}, `put "--" before the command`},
		{[]string{"permission", "--address", "unix:///x", "--", "./x"}, "either a command"},
		{[]string{"permission", "--", "my-permd"}, "write ./my-permd"},
		{[]string{"--", "./x"}, "one handler's name"},
	} {
		status, _, stderr := (&commandtest.Call{Env: env}).Run(t, New, append([]string{"handler", "swap", "--pid", "4711"}, c.args...)...)
		if status != command.StatusUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: status %d, %q; want %q", c.args, status, stderr, c.want)
		}
	}
	status, _, stderr := (&commandtest.Call{Env: env}).Run(t, New, "handler", "swap", "permission", "--pid", "4711", "--sha256", "short", "--", "./x")
	if status != command.StatusFailed || !strings.Contains(stderr, "64 hexadecimal") || strings.Contains(stderr, "rpc error") {
		t.Errorf("an invalid digest: status %d, %q", status, stderr)
	}
	if ctl.Swapped != nil {
		t.Errorf("%v was ordered", ctl.Swapped)
	}
}

func TestHandlerRestart_NeedsOneSupervisor(t *testing.T) {
	ctl := &commandtest.Control{}
	env := commandtest.ServeHandlers(t, ctl, 4711, 4712)
	status, _, stderr := (&commandtest.Call{Env: env}).Run(t, New, "handler", "restart", "fs")
	if status != command.StatusFailed || !strings.Contains(stderr, "--pid 4711") || !strings.Contains(stderr, "--pid 4712") {
		t.Errorf("of several: status %d, %q; want both to choose from", status, stderr)
	}
	if status, _, stderr = (&commandtest.Call{Env: env}).Run(t, New, "handler", "restart", "fs", "--pid", "4712", "--force"); status != 0 ||
		ctl.Restarted.GetName() != "fs" || !ctl.Restarted.GetForce() {
		t.Errorf("the one that is chosen: status %d, %q, %v", status, stderr, ctl.Restarted)
	}
	if status, _, stderr = (&commandtest.Call{Env: env}).Run(t, New, "handler", "restart", "fs", "--pid", "4713"); status != command.StatusFailed ||
		!strings.Contains(stderr, "no supervisor runs as process 4713") {
		t.Errorf("one that is not there: status %d, %q", status, stderr)
	}
}

func TestHandlerList_PrintsTableAndJSON(t *testing.T) {
	env := commandtest.ServeHandlers(t, &commandtest.Control{}, 4711)
	status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, New, "handler", "list", "--pid", "4711")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if status != 0 || len(lines) != 2 || !slices.Equal(strings.Fields(lines[1])[:6], []string{"4711", "permission", "ready", "permd\\u{1b}", "2", "99"}) {
		t.Errorf("status %d, %q, %s", status, stdout, stderr)
	}
	status, stdout, _ = (&commandtest.Call{Env: env}).Run(t, New, "handler", "list", "--pid", "4711", "--json")
	list, err := testkit.JSONLines[map[string]any]([]byte(stdout))
	if err != nil || status != 0 || len(list) != 1 || list[0]["name"] != "permission" ||
		list[0]["supervisor"] != 4711.0 || list[0]["state"] != "ready" {
		t.Errorf("status %d, %v, %s", status, err, stdout)
	}
}
