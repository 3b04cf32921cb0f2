package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// Boxed starts a daemon as a sidecar in its own mount namespace, which has the system, the daemon's own folder and
// mounts: pairs of a folder here and its path there. It has no other folder of the client.
func (p *Place) Boxed(t testing.TB, name string, mounts ...string) (s *Sidecar, address string) {
	t.Helper()
	secret := p.Secret(t)
	return p.boxedKnownBy(t, name, []string{"--secret-file", secret}, mounts...)
}

func (p *Place) boxedKnownBy(t testing.TB, name string, flags []string, mounts ...string) (s *Sidecar, address string) {
	t.Helper()
	box := []string{
		"--die-with-parent", "--unshare-pid", "--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc",
		"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", bin, "/daemons", "--bind", p.Home, p.Home,
	}
	for _, dir := range []string{"/bin", "/lib", "/lib64"} {
		if to, err := os.Readlink(dir); err == nil {
			box = append(box, "--symlink", to, dir)
		} else if _, err := os.Stat(dir); err == nil {
			box = append(box, "--ro-bind", dir, dir)
		}
	}
	for i := 0; i < len(mounts); i += 2 {
		box = append(box, "--bind", mounts[i], mounts[i+1])
	}
	if out, err := wire.Command(t, "bwrap", append(slices.Clone(box), "true")...).CombinedOutput(); err != nil {
		t.Skipf("a mount namespace takes bubblewrap, and a system that lets it make one: %v %s", err, out)
	}
	address = "unix://" + filepath.Join(p.Home, "tmp", name+".sock")
	s = &Sidecar{T: t, Cmd: exec.Command("bwrap", append(box, append([]string{"/daemons/" + name, "--listen", address}, flags...)...)...)}
	s.Cmd.Env, s.Cmd.Stderr = p.Env(), &s.Log
	if err := s.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	if !testkit.Poll(func() bool { return testkit.Listens(strings.TrimPrefix(address, "unix://")) }) {
		t.Fatalf("%s does not listen: %s", name, s.Log.String())
	}
	return s, address
}
