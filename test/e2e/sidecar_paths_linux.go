package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// Boxed starts a daemon as a sidecar in a mount namespace of its own, which has the system, the daemon's own folder and what
// mounts say: pairs of a folder here and its path there. It is in no other folder of the client's.
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
	if !testkit.Poll(func() bool { _, err := os.Stat(strings.TrimPrefix(address, "unix://")); return err == nil }) {
		t.Fatalf("%s does not listen: %s", name, s.Log.String())
	}
	return s, address
}

// Entry is a sidecar in the configuration. The agent runs as the same user in these tests, so that it could read the secret.
func (p *Place) Entry(t testing.TB, address, more string) string {
	t.Helper()
	return fmt.Sprintf("{address: %q, secret_file: %q, agent_may_call: true%s}", address, p.Secret(t), more)
}

// Mapped has files and commands served by sidecars that see the workspace as /workspace, under the ready-made policy "workspace".
func (p *Place) Mapped(t testing.TB, mounts ...string) []string {
	t.Helper()
	daemons := NewPlace(t)
	maps := fmt.Sprintf(", paths: [{here: %q, there: /workspace}]", p.Work)
	mounts = append([]string{p.Work, "/workspace"}, mounts...)
	_, fsd := daemons.Boxed(t, "fsd", mounts...)
	_, termd := daemons.Boxed(t, "termd", mounts...)
	return p.Config(t, fmt.Sprintf("handlers: {fs: %s, terminal: %s}\npermission: {policy: workspace}\n",
		daemons.Entry(t, fsd, maps), daemons.Entry(t, termd, maps)))
}

// AnswerOrRefuse waits for an answer, and refuses what acphost asks the user meanwhile.
func (s *Scene) AnswerOrRefuse(call *wire.Call) wire.Message {
	s.T.Helper()
	s.Handle("session/request_permission", func(wire.Message) (any, error) {
		return map[string]any{"outcome": map[string]any{"outcome": "cancelled"}}, nil
	})
	return call.Answer()
}
