package handlers_test

import (
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

func TestHandler_KilledAnswersRequestsOnceAndRestarts(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "a\n")
	s := p.Fixture(t, nil)
	fsd := s.Daemon("fsd")
	// Stopped first, so that what is sent is in flight when it dies.
	s.Signal(fsd, syscall.SIGSTOP)
	var ids []string
	for range 20 {
		ids = append(ids, s.Read("a.txt").ID())
	}
	for range 20 {
		ids = append(ids, s.WriteFile("b.txt", "b\n").ID())
	}
	s.Signal(fsd, syscall.SIGKILL)
	expectRefusals(s, "fs", ids)
	// It is started anew, and works.
	if !testkit.Poll(func() bool {
		m := s.Read("a.txt").Answer()
		return m.Error == nil
	}) {
		t.Errorf("fsd did not come back")
	}
	if again := s.Daemon("fsd"); again == fsd {
		t.Errorf("fsd has the pid that was killed")
	}
	if _, err := os.Stat(p.Path("b.txt")); err == nil {
		t.Errorf("a write that was answered with an error was done")
	}
	s.ExpectQuiet()
	s.Finish()
}

func TestHandler_DeathIsReportedWithReason(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "a\n")
	s := p.Fixture(t, nil)
	fsd := s.Daemon("fsd")
	s.Signal(fsd, syscall.SIGSTOP)
	call := s.Read("a.txt")
	s.Signal(fsd, syscall.SIGKILL)
	if e := call.Refused(-32603); !strings.Contains(e.Message, "handler fs") || strings.Contains(e.Message, p.Home) {
		t.Errorf("the agent received %q", e.Message)
	}
	s.Finish()
}

func TestHandler_FrozenIsReplaced(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "a\n")
	s := p.Fixture(t, nil)
	fsd := s.Daemon("fsd")
	s.Signal(fsd, syscall.SIGSTOP)
	call := s.Read("a.txt")
	call.Refused(-32603) // a health check without an answer for 20 s, then it is killed
	if !testkit.Poll(func() bool { return s.Read("a.txt").Answer().Error == nil }) {
		t.Errorf("fsd did not come back")
	}
	s.Finish()
}

func TestHandler_FrozenDoesNotDelayShutdown(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)
	for _, name := range []string{"fsd", "permd", "termd"} {
		s.Signal(s.Daemon(name), syscall.SIGSTOP)
	}
	s.Finish()
}

func TestHandler_RepeatedCrashesStopRestarts(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "a\n")
	s := p.Fixture(t, nil)
	failed, last := "", 0
	if !testkit.Poll(func() bool {
		m := s.Read("a.txt").Answer()
		if m.Error != nil {
			failed = m.Error.Message
			return strings.Contains(failed, "will not be started again")
		}
		if fsd := s.Daemon("fsd"); fsd != last {
			s.Signal(fsd, syscall.SIGKILL)
			last = fsd
		}
		return false
	}) {
		t.Errorf("fsd was not given up; the last error was %q", failed)
	}
	// The rest of the link is as before.
	s.ExpectQuiet()
	s.Finish()
}

func TestSupervisor_KilledLeavesNoProcess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		kill func(s *e2e.Fixture) []int
	}{
		{"the supervisor itself", func(s *e2e.Fixture) []int { return []int{s.PID()} }},
		{"the agent first", func(s *e2e.Fixture) []int { return []int{s.Agent.Pid, s.PID()} }},
		{"the daemons first", func(s *e2e.Fixture) []int {
			return []int{s.Daemon("fsd"), s.Daemon("termd"), s.Daemon("permd"), s.PID()}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			s := p.FixtureWith(t, `{}`, nil, []string{"stubborn", "family"})
			if create := s.Agent.Send("terminal/create", map[string]any{"sessionId": "s1", "command": `trap "" TERM HUP; setsid sleep 1000 & sleep 1000; sleep 1000`}).Answer(); create.Error != nil {
				t.Errorf("no terminal: %v", create.Error)
			}
			family := s.Family()
			if len(family) < 7 { // the daemons, the guard, the agent and its two children
				t.Errorf("the supervisor's family is\n%s", wire.Describe(family))
			}
			for _, pid := range c.kill(s) {
				s.Signal(pid, syscall.SIGKILL)
			}
			s.ExpectExit()
			p.ExpectNobody(t, family)
		})
	}
}

func TestSupervisor_ShutdownLeavesNoProcess(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(proc.SignalName(sig), func(t *testing.T) {
			t.Parallel()
			if signal.Ignored(sig) {
				t.Skipf("%v is ignored here, as under nohup, and so it is in what is started from here", sig)
			}
			p := e2e.NewPlace(t)
			s := p.FixtureWith(t, `{}`, p.Config(t, "agent: {stop_grace_ms: 200}\n"), []string{"stubborn", "family"})
			family := s.Family()
			s.Signal(s.PID(), sig)
			s.ExpectExit()
			p.ExpectNobody(t, family)
		})
	}
}

func TestSupervisor_EditorLossEndsStubbornAgent(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.FixtureWith(t, `{}`, p.Config(t, "agent: {stop_grace_ms: 200}\n"), []string{"stubborn", "family"})
	if status := s.Finish(); status != 128+9 {
		t.Errorf("the exit status is %d, want 137: only KILL ends this agent", status)
	}
}

func TestGuard_KilledEndsAgent(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.FixtureWith(t, `{}`, p.Config(t, "agent: {stop_grace_ms: 200}\n"), []string{"stubborn", "family"})
	prompt := s.Send("session/prompt", map[string]any{"sessionId": "s1", "prompt": []any{}})
	s.Agent.Expect("session/prompt")
	family := s.Family()
	s.Signal(s.Guard(), syscall.SIGKILL)
	if e := prompt.Refused(-32603); !strings.Contains(e.Message, "session/prompt") {
		t.Errorf("the turn was refused with %q", e.Message)
	}
	if status := s.ExpectExit(); status == 0 {
		t.Errorf("the exit status is 0, though the agent was lost")
	}
	p.ExpectNobody(t, family)
}

// expectRefusals receives a response to each of the agent's requests, which must be an error of the handler.
func expectRefusals(s *e2e.Fixture, handler string, ids []string) {
	s.T.Helper()
	open := slices.Clone(ids)
	for range ids {
		m := s.Agent.Next()
		i := slices.Index(open, string(m.ID))
		if i < 0 {
			s.T.Fatalf("an answer under an id that is not open, or was answered: %.300s", m.Raw)
		}
		open = slices.Delete(open, i, i+1)
		if m.Error == nil || m.Error.Code != -32603 {
			s.T.Fatalf("a request was answered with %s, want -32603", m.Raw)
		}
		if !strings.Contains(string(m.Error.Data), `"handler":"`+handler+`"`) {
			s.T.Errorf("an error does not state whose it is: %s", m.Raw)
		}
	}
}
