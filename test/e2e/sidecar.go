package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
)

// Sidecar is a daemon that runs by itself.
type Sidecar struct {
	Cmd  *exec.Cmd
	Log  bytes.Buffer
	once sync.Once
	T    testing.TB
}

// Secret makes a file with the secret of a sidecar.
func (p *Place) Secret(t testing.TB) string {
	t.Helper()
	file := filepath.Join(p.Home, "secret")
	if err := os.WriteFile(file, []byte(strings.Repeat("k", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Sidecar starts a daemon as a sidecar of this user that knows its supervisors by the place's secret.
func (p *Place) Sidecar(t testing.TB, name string) (s *Sidecar, address string) {
	t.Helper()
	return p.SidecarKnownBy(t, name, "--secret-file", p.Secret(t))
}

// SidecarKnownBy is sidecar with the flags that determine how it authenticates its supervisors.
func (p *Place) SidecarKnownBy(t testing.TB, name string, flags ...string) (s *Sidecar, address string) {
	t.Helper()
	address = "unix://" + filepath.Join(p.Home, "tmp", name+".sock")
	s = &Sidecar{T: t, Cmd: exec.Command(Program(name), append([]string{"--listen", address}, flags...)...)}
	s.Cmd.Env, s.Cmd.Stderr = p.Env(), &s.Log
	if err := s.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	if !testkit.Poll(func() bool { return testkit.Listens(strings.TrimPrefix(address, "unix://")) }) {
		t.Fatalf("%s does not listen", name)
	}
	return s, address
}

// Kill kills the sidecar, if it still runs, and waits for its end.
func (s *Sidecar) Kill() {
	s.once.Do(func() {
		_ = s.Cmd.Process.Kill()
		_ = s.Cmd.Wait()
		if s.T.Failed() {
			s.T.Logf("standard error of %s:\n%s", s.Cmd.Path, s.Log.String())
		}
	})
}
