package e2e_test

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// daemon finds the process of one of the supervisor's programs.
func (h *host) daemon(name string) int {
	h.t.Helper()
	found := 0
	if !testkit.Poll(func() bool {
		for _, pid := range h.family() {
			if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && filepath.Base(exe) == name {
				found = pid
				return true
			}
		}
		return false
	}) {
		h.t.Fatalf("%s does not run:\n%s", name, wire.Describe(h.family()))
	}
	return found
}

// guard finds the supervisor's guard of its agent.
func (h *host) guard() int {
	h.t.Helper()
	for _, pid := range h.family() {
		if strings.Contains(wire.Describe([]int{pid}), "acphost guard") {
			return pid
		}
	}
	h.t.Fatalf("there is no guard:\n%s", wire.Describe(h.family()))
	return 0
}

// signal sends a signal. A process that shall stop has done so when it returns.
func (h *host) signal(pid int, sig syscall.Signal) {
	h.t.Helper()
	if sig == syscall.SIGSTOP {
		testkit.Freeze(h.t, pid)
		return
	}
	if err := syscall.Kill(pid, sig); err != nil {
		h.t.Fatalf("%v to %d: %v", sig, pid, err)
	}
}

// expectRefusals takes an answer to each of the agent's requests, which must be an error of the handler's.
func (s *scene) expectRefusals(handler string, ids []string) {
	s.t.Helper()
	open := slices.Clone(ids)
	for range ids {
		m := s.agent.Next()
		i := slices.Index(open, string(m.ID))
		if i < 0 {
			s.t.Fatalf("an answer under an id that is not open, or was answered: %.300s", m.Raw)
		}
		open = slices.Delete(open, i, i+1)
		if m.Error == nil || m.Error.Code != -32603 {
			s.t.Fatalf("a request was answered with %s, want -32603", m.Raw)
		}
		if !strings.Contains(string(m.Error.Data), `"handler":"`+handler+`"`) {
			s.t.Errorf("an error does not say whose it is: %s", m.Raw)
		}
	}
}

func TestAHandlerThatIsKilledAnswersEachRequestOnceAndComesBack(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "a.txt", "a\n")
	s := p.scene(t, nil)
	fsd := s.daemon("fsd")
	// Stopped first, so that what is sent is in flight when it dies.
	s.signal(fsd, syscall.SIGSTOP)
	var ids []string
	for range 20 {
		ids = append(ids, s.read("a.txt").ID())
	}
	for range 20 {
		ids = append(ids, s.write("b.txt", "b\n").ID())
	}
	s.signal(fsd, syscall.SIGKILL)
	s.expectRefusals("fs", ids)
	// It is started anew, and works.
	if !testkit.Poll(func() bool {
		m := s.read("a.txt").Answer()
		return m.Error == nil
	}) {
		t.Errorf("fsd did not come back")
	}
	if again := s.daemon("fsd"); again == fsd {
		t.Errorf("fsd has the pid that was killed")
	}
	if _, err := os.Stat(p.path("b.txt")); err == nil {
		t.Errorf("a write that was answered with an error was done")
	}
	s.expectQuiet()
	s.finish()
}

func TestAHandlersDeathIsToldInWordsThatSayWhatHappened(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "a.txt", "a\n")
	s := p.scene(t, nil)
	fsd := s.daemon("fsd")
	s.signal(fsd, syscall.SIGSTOP)
	call := s.read("a.txt")
	s.signal(fsd, syscall.SIGKILL)
	if e := call.Refused(-32603); !strings.Contains(e.Message, "handler fs") || strings.Contains(e.Message, p.home) {
		t.Errorf("the agent was told %q", e.Message)
	}
	s.finish()
}

func TestAHandlerThatIsStoppedIsReplaced(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "a.txt", "a\n")
	s := p.scene(t, nil)
	fsd := s.daemon("fsd")
	s.signal(fsd, syscall.SIGSTOP)
	call := s.read("a.txt")
	call.Refused(-32603) // two missed looks at its health, then it is killed
	if !testkit.Poll(func() bool { return s.read("a.txt").Answer().Error == nil }) {
		t.Errorf("fsd did not come back")
	}
	s.finish()
}

func TestAStoppedHandlerDoesNotKeepTheSupervisor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, nil)
	for _, name := range []string{"fsd", "permd", "termd"} {
		s.signal(s.daemon(name), syscall.SIGSTOP)
	}
	s.finish()
}

func TestAHandlerThatDiesAgainAndAgainIsGivenUpAndSaysSo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "a.txt", "a\n")
	s := p.scene(t, nil)
	failed, last := "", 0
	if !testkit.Poll(func() bool {
		m := s.read("a.txt").Answer()
		if m.Error != nil {
			failed = m.Error.Message
			return strings.Contains(failed, "will not be started again")
		}
		if fsd := s.daemon("fsd"); fsd != last {
			s.signal(fsd, syscall.SIGKILL)
			last = fsd
		}
		return false
	}) {
		t.Errorf("fsd was not given up; the last error was %q", failed)
	}
	// The rest of the link is as before.
	s.expectQuiet()
	s.finish()
}

func TestNothingOutlivesASupervisorThatIsKilled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		kill func(s *scene) []int
	}{
		{"the supervisor itself", func(s *scene) []int { return []int{s.PID()} }},
		{"the agent first", func(s *scene) []int { return []int{s.agent.pid, s.PID()} }},
		{"the daemons first", func(s *scene) []int { return []int{s.daemon("fsd"), s.daemon("termd"), s.daemon("permd"), s.PID()} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			s := p.sceneWith(t, `{}`, nil, []string{"stubborn", "family"})
			if create := s.agent.Send("terminal/create", map[string]any{"sessionId": "s1", "command": `trap "" TERM HUP; setsid sleep 1000 & sleep 1000; sleep 1000`}).Answer(); create.Error != nil {
				t.Errorf("no terminal: %v", create.Error)
			}
			family := s.family()
			if len(family) < 7 { // the daemons, the guard, the agent and its two children
				t.Errorf("the supervisor's family is\n%s", wire.Describe(family))
			}
			for _, pid := range c.kill(s) {
				s.signal(pid, syscall.SIGKILL)
			}
			s.ExpectExit()
			p.expectNobody(t, family)
		})
	}
}

func TestASupervisorThatIsToldToEndTakesAllAlong(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(proc.SignalName(sig), func(t *testing.T) {
			t.Parallel()
			if signal.Ignored(sig) {
				t.Skipf("%v is ignored here, as under nohup, and so it is in what is started from here", sig)
			}
			p := newPlace(t)
			s := p.sceneWith(t, `{}`, p.config(t, "agent: {stop_grace_ms: 200}\n"), []string{"stubborn", "family"})
			family := s.family()
			s.signal(s.PID(), sig)
			s.ExpectExit()
			p.expectNobody(t, family)
		})
	}
}

func TestAnEditorThatGoesAwayTakesAStubbornAgentAlong(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.sceneWith(t, `{}`, p.config(t, "agent: {stop_grace_ms: 200}\n"), []string{"stubborn", "family"})
	if status := s.finish(); status != 128+9 {
		t.Errorf("the exit status is %d, want 137: only KILL ends this agent", status)
	}
}

func TestAGuardThatIsKilledEndsTheAgent(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.sceneWith(t, `{}`, p.config(t, "agent: {stop_grace_ms: 200}\n"), []string{"stubborn", "family"})
	prompt := s.Send("session/prompt", map[string]any{"sessionId": "s1", "prompt": []any{}})
	s.agent.Expect("session/prompt")
	family := s.family()
	s.signal(s.guard(), syscall.SIGKILL)
	if e := prompt.Refused(-32603); !strings.Contains(e.Message, "session/prompt") {
		t.Errorf("the turn was refused with %q", e.Message)
	}
	if status := s.ExpectExit(); status == 0 {
		t.Errorf("the exit status is 0, though the agent was lost")
	}
	p.expectNobody(t, family)
}
