package adversary

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// forkBomb is a script that starts 150 processes, which wait.
const forkBomb = "i=0; while [ $i -lt 150 ]; do sleep 300 & i=$((i+1)); done; wait\n"

// TestLimits_EndForkBomb: more processes than sandbox.max_processes are ended, or not started. The agent in the other
// sandbox and acphost continue.
func TestLimits_EndForkBomb(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	p := wire.NewPlace(t)
	s := openFixtureAt(t, p, configured(
		"permission: {policy: workspace}\nsandbox: {mode: enforce, require: true, max_processes: 60}\n"))
	s.noPerson()
	s.prompt()
	out := s.sh(forkBomb)
	byCount, byGroup := strings.Contains(out, "more than 60 processes at the same time"), strings.Contains(out, "ork")
	if !byCount && !byGroup {
		t.Errorf("ATTACK SUCCEEDED: 150 processes run, and the command has written only %q", out)
	}
	if byCount {
		recorded(t, p, "more than 60 processes at the same time")
	}
	limits := wire.Status(t, s.sockets()[0]).GetAgent().GetSandbox().GetLimits()
	if byCount && limits != "count" || !byCount && limits != "cgroup" {
		t.Errorf("the status has the limits %q, and the command wrote %q", limits, out)
	}
	s.expectWork()
	s.finish()
}

// TestReview_NamesFilesAndProcesses: at the end of a turn, the user reads which processes its commands have left
// running, and which files that run later a checkout has changed.
func TestReview_NamesFilesAndProcesses(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	p := wire.NewPlace(t)
	p.File(t, "a.txt", "a\n")
	git(t, p, p.Work, "init", "-q", "-b", "main")
	git(t, p, p.Work, "add", "a.txt")
	git(t, p, p.Work, "commit", "-q", "-m", "first")
	git(t, p, p.Work, "checkout", "-q", "-b", "side")
	p.File(t, ".github/workflows/ci.yml", "on: push\n")
	git(t, p, p.Work, "add", ".github")
	git(t, p, p.Work, "commit", "-q", "-m", "second")
	git(t, p, p.Work, "checkout", "-q", "main")

	s := openFixtureAt(t, p, behindWalls)
	s.Handle("session/request_permission", func(wire.Message) (any, error) {
		t.Error("the checkout is asked about")
		return map[string]any{"outcome": map[string]any{"outcome": "cancelled"}}, nil
	})
	turn := s.Send("session/prompt", params("prompt", []any{map[string]any{"type": "text", "text": "go"}}))
	prompt := s.agent.Expect("session/prompt")
	s.File(t, "script", "git checkout -q side && sleep 300\n")
	s.agent.Request("terminal/create", params("command", "sh", "args", []string{"./script"}), nil)
	testkit.Eventually(t, "a process of the command that sleeps", func() bool { return sleeps(t, s.PID()) })
	if _, err := os.Stat(p.Path(".github/workflows/ci.yml")); err != nil {
		t.Fatal(err)
	}
	s.agent.Reply(prompt, map[string]any{"stopReason": "end_turn"})
	text := string(s.ExpectWhere("the notice", func(m wire.Message) bool {
		return strings.Contains(string(m.Params), "Check after this turn")
	}).Params)
	changed := "changed, and run later by other programs: " + p.Path(".github/workflows/ci.yml")
	for _, want := range []string{"still running: ", "sleep (process ", changed} {
		if !strings.Contains(text, want) {
			t.Errorf("got the notice %s, want %q in it", text, want)
		}
	}
	if strings.Contains(text, "a.txt") {
		t.Errorf("got the notice %s, want no ordinary file in it", text)
	}
	turn.Result(nil)
	recorded(t, p, "end of a turn: ")

	next := s.Send("session/prompt", params("prompt", []any{map[string]any{"type": "text", "text": "go"}}))
	s.agent.Reply(s.agent.Expect("session/prompt"), map[string]any{"stopReason": "end_turn"})
	next.Result(nil)
	for _, m := range s.Waiting() {
		if strings.Contains(string(m.Params), "Check after this turn") {
			t.Errorf("in the next turn: got the notice %s, want none", m.Raw)
		}
	}
	s.finish()
}

// sleeps reports whether a descendant of a process runs the program sleep.
func sleeps(t *testing.T, pid int) bool {
	t.Helper()
	below, err := proc.Descendants(pid)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(below, func(pid int) bool {
		file, err := proc.Executable(pid)
		return err == nil && filepath.Base(file) == "sleep"
	})
}

// recorded waits until the audit log contains a text.
func recorded(t *testing.T, p *wire.Place, text string) {
	t.Helper()
	testkit.Eventually(t, "a record with "+text, func() bool {
		data, err := os.ReadFile(filepath.Join(p.Home, ".local", "state", "acphost", "audit.jsonl"))
		return err == nil && strings.Contains(string(data), text)
	})
}
