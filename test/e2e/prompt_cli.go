package e2e

import (
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/test/wire"
)

// DemoCommand is "acphost prompt" with the demo agent.
func DemoCommand(words string, flags ...string) []string {
	return append(append([]string{"prompt"}, flags...), words, "--", Program("demoagent"))
}

// Prompting starts "acphost prompt" and waits until the agent has said something.
func (p *Place) Prompting(t *testing.T, words, says string) (*wire.Process, []int) {
	t.Helper()
	proc := wire.Start(t, wire.Options{Name: "caller", Command: append([]string{Program("acphost")}, DemoCommand(words, "--json")...), Dir: p.Work, Env: p.Env()})
	proc.ExpectWhere("the agent's words", func(m wire.Message) bool { return strings.Contains(string(m.Raw), says) })
	return proc, FamilyOf(t, proc.PID())
}

// FamilyOf is every process below one.
func FamilyOf(t *testing.T, pid int) []int {
	t.Helper()
	pids, err := proc.Descendants(pid)
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

// Send sends a signal to a process.
func Send(t *testing.T, p *wire.Process, sig syscall.Signal) {
	t.Helper()
	if err := p.Cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}
