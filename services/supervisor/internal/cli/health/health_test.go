package health

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
)

func TestHealth_ReportsServing(t *testing.T) {
	env := commandtest.Play(t, &commandtest.Supervisor{PID: 11})
	status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, New, "health")
	if status != 0 || stderr != "" || !strings.HasPrefix(stdout, "serving at "+env["XDG_RUNTIME_DIR"]) || strings.Count(stdout, "\n") != 1 {
		t.Errorf("status %d, %q: %s", status, stdout, stderr)
	}
	socket := strings.TrimSpace(strings.TrimPrefix(stdout, "serving at "))
	if status, stdout, stderr := (&commandtest.Call{}).Run(t, New, "health", "--socket", socket); status != 0 || stdout != "serving at "+socket+"\n" {
		t.Errorf("by its socket: status %d, %q: %s", status, stdout, stderr)
	}
	address, keys := commandtest.PlayTLS(t, &commandtest.Supervisor{PID: 12})
	if status, stdout, stderr := (&commandtest.Call{}).Run(t, New, "health", "--address", address, "--tls-dir", filepath.Join(keys, "viewer")); status != 0 || stdout != "serving at "+address+"\n" {
		t.Errorf("over TCP: status %d, %q: %s", status, stdout, stderr)
	}
}

func TestHealth_FailsWithoutSupervisor(t *testing.T) {
	two := commandtest.Play(t, &commandtest.Supervisor{PID: 11}, &commandtest.Supervisor{PID: 12})
	address, keys := commandtest.PlayTLS(t, &commandtest.Supervisor{PID: 13})
	for _, c := range []struct {
		name   string
		env    map[string]string
		args   []string
		status int
		want   string
	}{
		{"nobody", commandtest.Play(t), nil, 1, "no supervisor is running"},
		{"two", two, nil, 1, "--pid (11, 12)"},
		{"another", two, []string{"--pid", "14"}, 1, "no supervisor runs as process 14"},
		{"no socket", nil, []string{"--socket", "/nowhere/x.sock"}, 1, "no supervisor serves at /nowhere/x.sock"},
		{"no keys", nil, []string{"--address", address}, 2, "--address needs --tls-dir"},
		{"the server's keys", nil, []string{"--address", address, "--tls-dir", keys}, 1, "client.crt"},
		{"keys for nothing", nil, []string{"--tls-dir", keys}, 2, "--tls-dir is for --address"},
		{"two at once", nil, []string{"--address", address, "--tls-dir", keys, "--pid", "1"}, 2, "only one of them may be set"},
		{"no address", nil, []string{"--address", "x", "--tls-dir", filepath.Join(keys, "viewer")}, 1, "expected HOST:PORT"},
	} {
		if status, stdout, stderr := (&commandtest.Call{Env: c.env}).Run(t, New, append([]string{"health"}, c.args...)...); status != c.status || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, %q, %q; want %d and %q", c.name, status, stdout, stderr, c.status, c.want)
		}
	}
}
