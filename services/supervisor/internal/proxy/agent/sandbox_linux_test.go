package agent_test

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	_ "github.com/acphost/acphost/internal/sandbox/sandboxed" // this test binary is the sandbox, too
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
)

// all lets everything pass.
type all struct{}

func (all) Judge(context.Context, decisions.Asked) decisions.Answer {
	return decisions.Answer{Allowed: true}
}
func (all) Started(int, uint64)         {}
func (all) Refused(int, string, string) {}

func TestExit_ReportsKilledSandbox(t *testing.T) {
	if err := sandbox.Supported(); err != nil {
		t.Skip("there is no sandbox on this machine: ", err)
	}
	inside := func(s *agent.Spec) { s.Sandbox = &agent.Sandbox{Judge: all{}} }
	p := start(t, `echo ready; exec sleep 1000`, inside)
	say(t, p)
	if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil { // what the guard has started is the sandbox
		t.Fatal(err)
	}
	if exit := wait(t, p); exit.Signal != "SIGKILL" || !strings.Contains(exit.Error(), "or its sandbox") {
		t.Errorf("exit = %v", exit)
	}
	p = start(t, `trap '' TERM; echo ready; while :; do sleep 1000; done`, inside)
	say(t, p)
	if exit := stop(t, p); exit.Signal != "SIGKILL" || strings.Contains(exit.Error(), "sandbox") {
		t.Errorf("exit = %v; acphost has ended the agent", exit)
	}
	p = start(t, `echo ready; kill -KILL $$`)
	say(t, p)
	if exit := wait(t, p); exit.Signal != "SIGKILL" || strings.Contains(exit.Error(), "sandbox") {
		t.Errorf("exit = %v; there was no sandbox", exit)
	}
}
