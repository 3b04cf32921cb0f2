package ps

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
)

func TestPs_FindsConfiguredSocket(t *testing.T) {
	dir, own, other := testkit.ShortDir(t), testkit.ShortDir(t), testkit.ShortDir(t)
	env := map[string]string{"XDG_RUNTIME_DIR": dir, "TMPDIR": dir}
	lookup := func(name string) string { return env[name] }
	path := filepath.Join(own, "mine.sock")
	server, err := admin.Start(admin.Options{State: commandtest.State{}, Env: lookup, Socket: path})
	if err != nil {
		t.Fatal(err)
	}
	list := func(env map[string]string) string {
		t.Helper()
		status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, New, "ps")
		if status != 0 {
			t.Fatalf("status %d: %s", status, stderr)
		}
		return stdout + stderr
	}
	if out := list(env); strings.Count(out, path) != 1 {
		t.Errorf("it is not listed once:\n%s", out)
	}
	if out := list(map[string]string{"XDG_RUNTIME_DIR": other, "TMPDIR": other}); !strings.Contains(out, "--all") {
		t.Errorf("with another runtime folder:\n%s", out)
	}
	server.Stop()
	if left, err := filepath.Glob(filepath.Join(dir, "acphost", "*")); err != nil || len(left) > 0 {
		t.Errorf("left in the runtime folder: %q, %v", left, err)
	}
	// A killed supervisor leaves its link, which the next listing removes.
	if err := os.Symlink(filepath.Join(own, "gone.sock"), filepath.Join(dir, "acphost", "1-x.sock")); err != nil {
		t.Fatal(err)
	}
	list(env)
	if left, err := filepath.Glob(filepath.Join(dir, "acphost", "*")); err != nil || len(left) > 0 {
		t.Errorf("after a look there is left: %q, %v", left, err)
	}
}

func TestPs_ListsSupervisors(t *testing.T) {
	dir := testkit.ShortDir(t)
	env := map[string]string{"XDG_RUNTIME_DIR": dir, "TMPDIR": dir}
	lookup := func(name string) string { return env[name] }
	server, err := admin.Start(admin.Options{State: commandtest.State{}, Env: lookup})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()

	status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, New, "ps")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	row := slices.IndexFunc(strings.Split(stdout, "\n"), func(line string) bool { return strings.HasSuffix(line, server.Path()) })
	if row < 1 || !strings.HasPrefix(stdout, "PID") {
		t.Fatalf("no header, or no row for %s:\n%s", server.Path(), stdout)
	}
	line := strings.Split(stdout, "\n")[row]
	if got := strings.Fields(line); got[0] != "4711" || got[1] != "gem" || got[2] != "ini" || got[3] != "running" {
		t.Errorf("the row is %q", line)
	}

	status, stdout, stderr = (&commandtest.Call{Env: env}).Run(t, New, "ps", "--json")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	list, err := testkit.JSONLines[map[string]any]([]byte(stdout))
	if err != nil {
		t.Fatalf("%v:\n%s", err, stdout)
	}
	if i := slices.IndexFunc(list, func(s map[string]any) bool { return s["socket"] == server.Path() }); i < 0 || list[i]["pid"] != 4711.0 || list[i]["mode"] != "observe" {
		t.Errorf("the list is %v", list)
	}
}
