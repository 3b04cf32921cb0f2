package e2e_test

import (
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// stubbornCommand is a terminal's command line that only KILL ends, with a child in a session of its own.
const stubbornCommand = `trap "" TERM HUP; setsid sleep 1000 & while :; do sleep 1000; done`

func TestProcessesThatAreStoppedAreEndedAllTheSame(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		stop func(s *scene) []int
	}{
		{"the agent", func(s *scene) []int { return []int{s.agent.pid} }},
		{"the guard", func(s *scene) []int { return []int{s.guard()} }},
		{"the guard and the agent", func(s *scene) []int { return []int{s.guard(), s.agent.pid} }},
		{"the terminal daemon", func(s *scene) []int { return []int{s.daemon("termd")} }},
		{"the daemons, the guard and the agent", func(s *scene) []int {
			return []int{s.daemon("fsd"), s.daemon("permd"), s.daemon("termd"), s.guard(), s.agent.pid}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			s := p.sceneWith(t, `{}`, p.config(t, "agent: {stop_grace_ms: 200}\n"), []string{"stubborn", "family"})
			s.agent.Request("terminal/create", params("command", stubbornCommand), nil)
			for _, pid := range c.stop(s) {
				s.signal(pid, syscall.SIGSTOP)
			}
			s.finish()
		})
	}
}

func TestAStoppedFamilyOfAKilledSupervisorIsEnded(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.sceneWith(t, `{}`, p.config(t, "agent: {stop_grace_ms: 200}\n"), []string{"stubborn", "family"})
	s.agent.Request("terminal/create", params("command", stubbornCommand), nil)
	family := s.family()
	s.signal(s.agent.pid, syscall.SIGSTOP)
	s.signal(s.PID(), syscall.SIGKILL)
	s.ExpectExit()
	p.expectNobody(t, family)
}

func TestAKilledTerminalDaemonTakesItsCommandsAlong(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, nil)
	termd := s.daemon("termd")
	s.agent.Request("terminal/create", params("command", stubbornCommand), nil)
	commands, err := proc.Descendants(termd)
	if err != nil || len(commands) < 2 {
		t.Fatalf("the terminal's processes are\n%s (%v)", wire.Describe(commands), err)
	}
	s.signal(termd, syscall.SIGKILL)
	if !testkit.Poll(func() bool {
		alive, err := proc.Descendants(os.Getpid())
		return err == nil && !slices.ContainsFunc(commands, func(pid int) bool { return slices.Contains(alive, pid) })
	}) {
		t.Errorf("commands outlive the daemon that ran them:\n%s", wire.Describe(commands))
	}
	s.finish()
}
