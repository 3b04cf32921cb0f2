package cli_test

import (
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// stubbornCommand is a terminal's command line that only KILL ends, with a child in its own session.
const stubbornCommand = `trap "" TERM HUP; setsid sleep 1000 & while :; do sleep 1000; done`

func TestStoppedProcesses_AreKilled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		stop func(s *e2e.Fixture) []int
	}{
		{"the agent", func(s *e2e.Fixture) []int { return []int{s.Agent.Pid} }},
		{"the guard", func(s *e2e.Fixture) []int { return []int{s.Guard()} }},
		{"the guard and the agent", func(s *e2e.Fixture) []int { return []int{s.Guard(), s.Agent.Pid} }},
		{"the terminal daemon", func(s *e2e.Fixture) []int { return []int{s.Daemon("termd")} }},
		{"the daemons, the guard and the agent", func(s *e2e.Fixture) []int {
			return []int{s.Daemon("fsd"), s.Daemon("permd"), s.Daemon("termd"), s.Guard(), s.Agent.Pid}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			s := p.FixtureWith(t, `{}`, p.Config(t, "agent: {stop_grace_ms: 200}\n"), []string{"stubborn", "family"})
			s.Agent.Request("terminal/create", e2e.Params("command", stubbornCommand), nil)
			for _, pid := range c.stop(s) {
				s.Signal(pid, syscall.SIGSTOP)
			}
			s.Finish()
		})
	}
}

func TestSupervisorKilled_KillsStoppedProcesses(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.FixtureWith(t, `{}`, p.Config(t, "agent: {stop_grace_ms: 200}\n"), []string{"stubborn", "family"})
	s.Agent.Request("terminal/create", e2e.Params("command", stubbornCommand), nil)
	family := s.Family()
	s.Signal(s.Agent.Pid, syscall.SIGSTOP)
	s.Signal(s.PID(), syscall.SIGKILL)
	s.ExpectExit()
	p.ExpectNobody(t, family)
}

func TestTermdKilled_KillsItsCommands(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)
	termd := s.Daemon("termd")
	s.Agent.Request("terminal/create", e2e.Params("command", stubbornCommand), nil)
	commands, err := proc.Descendants(termd)
	if err != nil || len(commands) < 2 {
		t.Fatalf("the terminal's processes are\n%s (%v)", wire.Describe(commands), err)
	}
	s.Signal(termd, syscall.SIGKILL)
	if !testkit.Poll(func() bool {
		alive, err := proc.Descendants(os.Getpid())
		return err == nil && !slices.ContainsFunc(commands, func(pid int) bool { return slices.Contains(alive, pid) })
	}) {
		t.Errorf("commands outlive the daemon that ran them:\n%s", wire.Describe(commands))
	}
	s.Finish()
}
