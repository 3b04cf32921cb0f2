package e2e_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/wire"
)

// cli runs acphost and returns its exit status and what it printed.
func (p *place) cli(t testing.TB, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := wire.Command(t, program("acphost"), args...)
	cmd.Dir, cmd.Env = p.work, p.env()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			t.Fatal(err)
		}
		status = exit.ExitCode()
	}
	return status, out.String(), errs.String()
}

// shell runs a line as a person would, with tools in the PATH.
func (p *place) shell(t testing.TB, tools, line string, variables ...string) (string, error) {
	cmd := wire.Command(t, "sh", "-c", line)
	cmd.Dir, cmd.Env = p.work, append(p.env(variables...), "PATH="+tools+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestPsListsASupervisorForAsLongAsItRuns(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, []string{"--agent-name", "shown"})
	mine := func() string {
		status, out, stderr := p.cli(t, "ps")
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
	if line := mine(); !strings.Contains(line, "shown") || !strings.Contains(line, "running") || !strings.Contains(line, p.home) {
		t.Errorf("acphost ps shows %q", line)
	}
	s.finish()
	if line := mine(); line != "" {
		t.Errorf("acphost ps still shows %q", line)
	}
	// One that is not to be looked into has no socket.
	hidden := p.scene(t, []string{"--no-admin"})
	s = hidden
	if line := mine(); line != "" {
		t.Errorf("acphost ps shows %q", line)
	}
	hidden.finish()
}

func TestASupervisorThatWasKilledIsNotListed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, nil)
	socket := s.socket()
	if err := s.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.ExpectExit()
	if _, out, _ := p.cli(t, "ps"); strings.Contains(out, socket) && !strings.Contains(out, "not answering") {
		t.Errorf("acphost ps lists a supervisor that is dead:\n%s", out)
	}
	// The next one is not in its way.
	again := p.scene(t, nil)
	again.socket()
	again.finish()
}

func TestTheConfigurationInEffectIsShownAndChecked(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if status, out, stderr := p.cli(t, "config", "check"); status != 0 || !strings.Contains(out, "ok") {
		t.Errorf("without a file: %d, %q, %q", status, out, stderr)
	}
	p.file(t, "../.config/acphost/config.yaml", "handlers: {mine: {command: [./mine], env: {TOKEN: hush}}}\nagent: {name: me}\n")
	status, out, stderr := p.cli(t, "config", "show")
	if status != 0 || strings.Contains(out, "hush") {
		t.Errorf("acphost config show: %d, %q", status, stderr)
	}
	expectContains(t, "the configuration", out, "name: me", p.home+"/.config/acphost/mine", "max_message_bytes: 104857600", "permd")
	p.file(t, "../.config/acphost/config.yaml", "agent: {name: [me]}\nlimit: {}\n")
	status, out, _ = p.cli(t, "config", "check")
	if status != 1 {
		t.Errorf("acphost config check: %d", status)
	}
	file := p.home + "/.config/acphost/config.yaml"
	expectContains(t, "the check", out, file+":1:15: ", file+":2:1: ", "limits")
	// What is wrong there starts nothing.
	if status, _, stderr := p.cli(t, "run", "--", "cat"); status != 1 || !strings.Contains(stderr, file+":2:1: ") {
		t.Errorf("acphost run: %d, %q", status, stderr)
	}
	if status, _, stderr := p.cli(t, "run"); status != 2 || !strings.Contains(stderr, "command is missing") {
		t.Errorf("acphost run without a command: %d, %q", status, stderr)
	}
}
