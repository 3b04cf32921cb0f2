package e2e_test

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
)

func TestASessionOfServeIsHeldFromTheCommandLine(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	expectContains(t, "without an agent", p.acphost(t, 1, "sessions", "new", "demoagent"), "demoagent")
	p.acphost(t, 0, "agents", "start", "--name", "demoagent", "--", program("demoagent"))
	id := strings.TrimSpace(p.acphost(t, 0, "sessions", "new", "demoagent"))
	if id == "" || strings.ContainsAny(id, " \n") {
		t.Fatalf("the session is %q", id)
	}
	expectContains(t, "a prompt", p.acphost(t, 0, "sessions", "prompt", id[:len(id)-2], "repeat hello"), "hello")
	expectContains(t, "a prompt as JSON", p.acphost(t, 0, "sessions", "prompt", id, "repeat hello", "--json"), `"turnStarted"`, `"turnEnded"`, "hello")
	expectContains(t, "a refusal", p.acphost(t, 3, "sessions", "prompt", id, "refuse"), "refus")
	expectContains(t, "no turn", p.acphost(t, 0, "sessions", "cancel", id), "no turn is under way")
	expectContains(t, "an unknown session", p.acphost(t, 1, "sessions", "prompt", "nothing", "x"), "sessions new")
	expectContains(t, "completion", p.acphost(t, 0, "__complete", "sessions", "prompt", ""), id)

	t.Run("a turn goes on without its caller, and is cancelled", func(t *testing.T) {
		p.acphost(t, 0, "sessions", "prompt", id, "sleep", "--detach")
		expectContains(t, "another prompt", p.acphost(t, 1, "sessions", "prompt", id, "repeat x"), "turn")
		expectContains(t, "cancel", p.acphost(t, 0, "sessions", "cancel", id), "asked to end its turn")
		testkit.Eventually(t, "the turn is over", func() bool { return strings.Contains(p.acphost(t, 0, "sessions", "cancel", id), "no turn") })
	})
	t.Run("a question waits for its answer", func(t *testing.T) {
		x := p.terminal(t, []string{program("acphost"), "sessions", "prompt", id, "ask f.txt"})
		now := x.shows("acphost approvals answer demoagent-1/")
		word := now[strings.Index(now, "demoagent-1/"):]
		handle, rest, _ := strings.Cut(word, " ")
		option, _, _ := strings.Cut(strings.TrimPrefix(rest, "{"), "|")
		p.acphost(t, 0, "approvals", "answer", handle, option)
		if got := x.exits(); got != 0 {
			t.Errorf("the exit status is %d", got)
		}
	})
	t.Run("Ctrl-C cancels the turn", func(t *testing.T) {
		x := p.terminal(t, []string{program("acphost"), "sessions", "prompt", id, "slow 1000 50"})
		x.shows("piece 3")
		x.keys("C-c")
		x.shows("cancelled")
		if got := x.exits(); got != 6 {
			t.Errorf("the exit status is %d, want 6", got)
		}
	})
	s.finish()
}
