package gateway_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

// TestActivation_ServesPassedPort: a service manager opens the port, and starts acphost at the first connection.
func TestActivation_ServesPassedPort(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	keys := filepath.Join(p.Home, "keys")
	p.MakeKeys(t, keys)
	tls := p.Deploy(t, keys)
	away := filepath.Join(p.Home, "away")
	if err := os.Rename(keys, away); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	passed, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer passed.Close()
	begin := func(args ...string) (*exec.Cmd, *strings.Builder) {
		// The shell's process id is that of the program that it becomes.
		cmd := exec.Command("/bin/sh", append([]string{"-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@"`, e2e.Program("acphost"), "serve"}, args...)...)
		cmd.Dir, cmd.Env, cmd.ExtraFiles = p.Work, p.Env(), []*os.File{passed}
		errs := &strings.Builder{}
		cmd.Stderr = errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, errs
	}
	wrong, errs := begin()
	if err := wrong.Wait(); err == nil || !strings.Contains(errs.String(), "give --tls-dir, and no --listen") {
		t.Errorf("without keys: %v %s", err, errs)
	}
	cmd, errs := begin("--tls-dir", tls)
	c := dialTLS(t, l.Addr().String(), filepath.Join(away, "ca.crt"), filepath.Join(away, "viewer"))
	if !testkit.Poll(func() bool {
		_, err := c.Agents.ListAgents(t.Context(), &supervisorv1.ListAgentsRequest{})
		return err == nil
	}) {
		t.Error("no process serves the port")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, errs)
	}
	p.ExpectNobody(t, nil)
}
