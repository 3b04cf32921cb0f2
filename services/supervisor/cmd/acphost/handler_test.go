package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
)

func (shown) Grants() []*supervisorv1.Grant { return nil }

// control notes what it is told.
type control struct {
	swapped   *supervisorv1.SwapHandlerRequest
	restarted *supervisorv1.RestartHandlerRequest
}

var handlerNow = &supervisorv1.HandlerStatus{
	Name: "permission", State: supervisorv1.HandlerState_HANDLER_STATE_READY, Description: "permd\x1b 2", Pid: 99,
	Since: timestamppb.Now(), Notes: []string{"two rules"},
}

func (c *control) RestartHandler(_ context.Context, req *supervisorv1.RestartHandlerRequest) (*supervisorv1.RestartHandlerResponse, error) {
	c.restarted = req
	return &supervisorv1.RestartHandlerResponse{Handler: handlerNow}, nil
}

func (c *control) SwapHandler(_ context.Context, req *supervisorv1.SwapHandlerRequest) (*supervisorv1.SwapHandlerResponse, error) {
	c.swapped = req
	return &supervisorv1.SwapHandlerResponse{Handler: handlerNow, Forced: 3}, nil
}

func (*control) ReloadPolicy(context.Context, *supervisorv1.ReloadPolicyRequest) (*supervisorv1.ReloadPolicyResponse, error) {
	return &supervisorv1.ReloadPolicyResponse{Handlers: []*supervisorv1.HandlerStatus{handlerNow}}, nil
}

func (*control) RevokeGrants(context.Context, *supervisorv1.RevokeGrantsRequest) (*supervisorv1.RevokeGrantsResponse, error) {
	return &supervisorv1.RevokeGrantsResponse{}, nil
}

// running is a supervisor with handlers, and a pid of its own choice.
type running struct {
	shown
	pid int64
}

func (r running) Status() *supervisorv1.GetStatusResponse {
	s := r.shown.Status()
	s.Pid = r.pid
	return s
}

func (running) Handlers() []*supervisorv1.HandlerStatus {
	return []*supervisorv1.HandlerStatus{handlerNow}
}

// supervisors serves admin sockets in a folder of their own and returns the environment that finds them.
func supervisors(t *testing.T, c *control, pids ...int64) map[string]string {
	t.Helper()
	dir, err := os.MkdirTemp("", "acp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	env := map[string]string{"XDG_RUNTIME_DIR": dir, "TMPDIR": dir}
	for _, pid := range pids {
		server, err := admin.Start(admin.Options{
			State: running{pid: pid}, Control: c, Env: func(name string) string { return env[name] },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Stop)
	}
	return env
}

func TestASwapIsOrderedFromWhereThePersonIs(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	digest := strings.Repeat("a", 64)
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
	} {
		t.Run(c.name, func(t *testing.T) {
			ctl := &control{}
			env := supervisors(t, ctl, 4711)
			status, stdout, stderr := (&call{env: env}).run(t, append([]string{"handler", "swap", "--pid", "4711"}, c.args...)...)
			if status != 0 || !proto.Equal(ctl.swapped, c.want) {
				t.Errorf("status %d, asked for %v, want %v: %s", status, ctl.swapped, c.want, stderr)
			}
			if want := "permission: ready, permd? 2, process 99\n  two rules\n  3 calls were not answered"; !strings.HasPrefix(stdout, want) {
				t.Errorf("printed %q, want %q", stdout, want)
			}
		})
	}
}

func TestAWrongSwapIsNotOrdered(t *testing.T) {
	ctl := &control{}
	env := supervisors(t, ctl, 4711)
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
		status, _, stderr := (&call{env: env}).run(t, append([]string{"handler", "swap", "--pid", "4711"}, c.args...)...)
		if status != statusUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: status %d, %q; want %q", c.args, status, stderr, c.want)
		}
	}
	status, _, stderr := (&call{env: env}).run(t, "handler", "swap", "permission", "--pid", "4711", "--sha256", "short", "--", "./x")
	if status != statusFailed || !strings.Contains(stderr, "64 hexadecimal") || strings.Contains(stderr, "rpc error") {
		t.Errorf("a digest that is none: status %d, %q", status, stderr)
	}
	if ctl.swapped != nil {
		t.Errorf("%v was ordered", ctl.swapped)
	}
}

func TestOneSupervisorIsMeant(t *testing.T) {
	ctl := &control{}
	env := supervisors(t, ctl, 4711, 4712)
	status, _, stderr := (&call{env: env}).run(t, "handler", "restart", "fs")
	if status != statusFailed || !strings.Contains(stderr, "--pid 4711") || !strings.Contains(stderr, "--pid 4712") {
		t.Errorf("of several: status %d, %q; want both to choose from", status, stderr)
	}
	if status, _, stderr = (&call{env: env}).run(t, "handler", "restart", "fs", "--pid", "4712", "--force"); status != 0 ||
		ctl.restarted.GetName() != "fs" || !ctl.restarted.GetForce() {
		t.Errorf("the one that is chosen: status %d, %q, %v", status, stderr, ctl.restarted)
	}
	if status, _, stderr = (&call{env: env}).run(t, "handler", "restart", "fs", "--pid", "4713"); status != statusFailed ||
		!strings.Contains(stderr, "no supervisor runs as process 4713") {
		t.Errorf("one that is not there: status %d, %q", status, stderr)
	}
}

func TestPolicyReloadSaysWhatIsInEffect(t *testing.T) {
	env := supervisors(t, &control{}, 4711)
	a := &app{
		stdout: tempFile(t), stderr: tempFile(t), env: func(name string) string { return env[name] },
		programs: programs{sockets: testSockets},
	}
	cmd := a.policyReloadCommand()
	cmd.SetArgs([]string{"--pid", "4711"})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(a.stdout.Name())
	if err != nil || string(got) != "permission: ready, permd? 2, process 99\n  two rules\n" {
		t.Errorf("printed %q, %v", got, err)
	}
}

func tempFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestHandlersAreListed(t *testing.T) {
	env := supervisors(t, &control{}, 4711)
	status, stdout, stderr := (&call{env: env}).run(t, "handler", "list", "--pid", "4711")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if status != 0 || len(lines) != 2 || !slices.Equal(strings.Fields(lines[1])[:6], []string{"4711", "permission", "ready", "permd?", "2", "99"}) {
		t.Errorf("status %d, %q, %s", status, stdout, stderr)
	}
	status, stdout, _ = (&call{env: env}).run(t, "handler", "list", "--pid", "4711", "--json")
	var list []map[string]any
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || status != 0 || len(list) != 1 || list[0]["name"] != "permission" ||
		list[0]["supervisor"] != 4711.0 || list[0]["state"] != "ready" {
		t.Errorf("status %d, %v, %s", status, err, stdout)
	}
}
