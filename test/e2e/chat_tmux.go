package e2e

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// Chat holds a chat with the demo agent, in a terminal.
func (p *Place) Chat(t testing.TB, flags ...string) *Terminal {
	t.Helper()
	command := append([]string{Program("acphost"), "chat"}, flags...)
	x := p.Terminal(t, append(command, "--", Program("demoagent")), "DEMOAGENT_STATE="+filepath.Join(p.Home, "kept"))
	x.Shows("Demo agent 1.0.0", "❯", "Ask · Maxi")
	return x
}

// Says types a line and sends it.
func (x *Terminal) Says(text string) {
	x.t.Helper()
	x.Types(text)
	x.Shows("❯ " + text)
	x.Keys("Enter")
}

// JobShell is a shell with job control, in a terminal.
func (p *Place) JobShell(t testing.TB) *Terminal {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skipf("there is no shell with job control: %v", err)
	}
	x := p.Terminal(t, []string{"bash", "--noprofile", "--norc", "-i"},
		"PS1=ready> ", "HISTFILE=", "DEMOAGENT_STATE="+filepath.Join(p.Home, "kept"), "ACPHOST="+Program("acphost"), "AGENT="+Program("demoagent"))
	x.Shows("ready>")
	return x
}

// Runs has a shell run a line.
func (x *Terminal) Runs(line string) {
	x.t.Helper()
	x.Types(line)
	x.Keys("Enter")
}

// Sane expects a terminal as a shell wants it: the shell itself sees to that while it reads a line, and no longer when it
// runs a command.
func (x *Terminal) Sane() {
	x.t.Helper()
	x.Runs(`clear; stty -a | tr ' ;' '\n\n' | grep -x -e '-*icanon' -e '-*isig' -e '-*echo' | tr '\n' ' '; echo :`)
	x.Shows("isig icanon echo :")
}

// CodeFor waits until a chat asks for a code for something, and types it.
func (x *Terminal) CodeFor(what string) {
	x.t.Helper()
	x.Types(regexp.MustCompile(`type ([a-z]+) to ` + regexp.QuoteMeta(what)).FindStringSubmatch(x.Shows(" to " + what))[1])
}
