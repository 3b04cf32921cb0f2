package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/acphost/acphost/sdk/proc"
	"github.com/acphost/acphost/test/wire"
)

// sidecar is a daemon that runs by itself.
type sidecar struct {
	cmd  *exec.Cmd
	log  bytes.Buffer
	once sync.Once
	t    testing.TB
}

// sidecar starts a daemon as a sidecar that takes calls of this user.
func (p *place) sidecar(t testing.TB, name string) (s *sidecar, address string) {
	t.Helper()
	address = "unix://" + filepath.Join(p.home, "tmp", name+".sock")
	s = &sidecar{t: t, cmd: exec.Command(program(name), "--listen", address, "--allow-uid", fmt.Sprint(os.Getuid()))}
	s.cmd.Env, s.cmd.Stderr = p.env(), &s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	if !eventually(func() bool { _, err := os.Stat(strings.TrimPrefix(address, "unix://")); return err == nil }) {
		t.Fatalf("%s does not listen", name)
	}
	return s, address
}

func (s *sidecar) kill() {
	s.once.Do(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		if s.t.Failed() {
			s.t.Logf("standard error of %s:\n%s", s.cmd.Path, s.log.String())
		}
	})
}

func TestDaemonsServeAsSidecarsToo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	daemons, sockets := newPlace(t), map[string]string{}
	running := map[string]*sidecar{}
	for _, name := range []string{"fsd", "termd", "permd"} {
		running[name], sockets[name] = daemons.sidecar(t, name)
	}
	p.file(t, "a.txt", "a\n")
	flags := p.config(t, fmt.Sprintf("handlers: {fs: {address: %q}, terminal: {address: %q}, permission: {address: %q}}\n", sockets["fsd"], sockets["termd"], sockets["permd"]))
	s := p.sceneWith(t, showsTerminals, flags, nil)
	if got := content(s.read("a.txt")); got != "a\n" {
		t.Errorf("the agent read %q", got)
	}
	s.write("b.txt", "b\n").Result(nil)
	var ran struct {
		Output   string
		ExitCode int
	}
	s.agent.Request("terminal/run", params("command", "cat b.txt; exit 3"), &ran)
	if ran.Output != "b\n" || ran.ExitCode != 3 {
		t.Errorf("the command gave %+v", ran)
	}
	// One that dies is missed at once, and found again when it is back.
	running["fsd"].kill()
	if e := s.read("a.txt").Refused(-32603); !strings.Contains(e.Message, "fs") {
		t.Errorf("the agent was told %q", e.Message)
	}
	daemons.sidecar(t, "fsd")
	if !eventually(func() bool { return s.read("a.txt").Answer().Error == nil }) {
		t.Error("the sidecar was not found again")
	}
	// Two supervisors share them, and none sees the other's terminals.
	q := newPlace(t)
	other := q.scene(t, flags)
	var made struct{ TerminalID string }
	s.agent.Request("terminal/create", params("command", "sleep", "args", []string{"1000"}), &made)
	other.agent.Send("terminal/output", params("terminalId", made.TerminalID)).Refused(-32002)
	var terminals struct{ Terminals []struct{ TerminalID string } }
	if other.state("ListTerminals", &terminals); len(terminals.Terminals) != 0 {
		t.Errorf("the other supervisor lists %+v", terminals)
	}
	other.finish()
	// The terminals of a supervisor that is killed go with it, though their daemon stays.
	if err := s.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.ExpectExit()
	if !eventually(func() bool {
		left, err := proc.Descendants(running["termd"].cmd.Process.Pid)
		return errors.Is(err, proc.ErrUnsupported) || err == nil && !strings.Contains(wire.Describe(left), "sleep 1000")
	}) {
		t.Error("a terminal outlived its supervisor")
	}
}

func TestASidecarThatAnyoneMightCallDoesNotStart(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, args := range [][]string{
		{"--listen", "unix://" + filepath.Join(p.home, "tmp", "x.sock")},
		{"--listen", "tcp://127.0.0.1:0"},
		{"--listen", "tcp://127.0.0.1:0", "--allow-uid", "0"},
	} {
		out, err := exec.Command(program("fsd"), args...).CombinedOutput()
		if err == nil {
			t.Errorf("fsd %q ended well", args)
		}
		if !strings.Contains(string(out), "--tls-cert") {
			t.Errorf("fsd %q says %q", args, out)
		}
	}
}
