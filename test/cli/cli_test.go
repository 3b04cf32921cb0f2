package cli_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

func TestPs_ListsRunningSupervisor(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, []string{"--agent-name", "shown"})
	mine := func() string {
		status, out, stderr := p.Cli(t, "ps")
		if status != 0 {
			t.Fatalf("acphost ps: %d: %s", status, stderr)
		}
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, strconv.Itoa(s.PID())+" ") {
				return line
			}
		}
		return ""
	}
	if line := mine(); !strings.Contains(line, "shown") || !strings.Contains(line, "running") || !strings.Contains(line, p.Home) {
		t.Errorf("acphost ps shows %q", line)
	}
	s.Finish()
	if line := mine(); line != "" {
		t.Errorf("acphost ps still shows %q", line)
	}
	// A hidden supervisor has no socket.
	hidden := p.Fixture(t, []string{"--no-admin"})
	s = hidden
	if line := mine(); line != "" {
		t.Errorf("acphost ps shows %q", line)
	}
	hidden.Finish()
}

func TestPs_OmitsKilledSupervisor(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)
	socket := s.Socket()
	if err := s.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.ExpectExit()
	if _, out, _ := p.Cli(t, "ps"); strings.Contains(out, socket) && !strings.Contains(out, "not answering") {
		t.Errorf("acphost ps lists a supervisor that is dead:\n%s", out)
	}
	// The next one is not in its way.
	again := p.Fixture(t, nil)
	again.Socket()
	again.Finish()
}

func TestConfig_ShowAndCheck(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	if status, out, stderr := p.Cli(t, "config", "check"); status != 0 || !strings.Contains(out, "ok") {
		t.Errorf("without a file: %d, %q, %q", status, out, stderr)
	}
	p.File(t, "../.config/acphost/config.yaml", "handlers: {mine: {command: [./mine], env: {TOKEN: hush}}}\nagent: {name: me}\n")
	status, out, stderr := p.Cli(t, "config", "show")
	if status != 0 || strings.Contains(out, "hush") {
		t.Errorf("acphost config show: %d, %q", status, stderr)
	}
	e2e.ExpectContains(t, "the configuration", out, "name: me", p.Home+"/.config/acphost/mine", "max_message_bytes: 104857600", "permd")
	p.File(t, "../.config/acphost/config.yaml", "agent: {name: [me]}\nlimit: {}\n")
	status, out, _ = p.Cli(t, "config", "check")
	if status != 1 {
		t.Errorf("acphost config check: %d", status)
	}
	file := p.Home + "/.config/acphost/config.yaml"
	e2e.ExpectContains(t, "the check", out, file+":1:15: ", file+":2:1: ", "limits")
	// A mistake there prevents the start.
	if status, _, stderr := p.Cli(t, "run", "--", "cat"); status != 1 || !strings.Contains(stderr, file+":2:1: ") {
		t.Errorf("acphost run: %d, %q", status, stderr)
	}
	if status, _, stderr := p.Cli(t, "run"); status != 2 || !strings.Contains(stderr, "command is missing") {
		t.Errorf("acphost run without a command: %d, %q", status, stderr)
	}
}
