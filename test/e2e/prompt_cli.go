package e2e

import (
	"syscall"
	"testing"

	"github.com/acphost/acphost/test/wire"
)

// DemoCommand is "acphost prompt" with the demo agent.
func DemoCommand(words string, flags ...string) []string {
	return append(append([]string{"prompt"}, flags...), words, "--", Program("demoagent"))
}

// Send sends a signal to a process.
func Send(t *testing.T, p *wire.Process, sig syscall.Signal) {
	t.Helper()
	if err := p.Cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}
