package cli_test

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
)

func TestSessions_DriveServeSession(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	e2e.ExpectContains(t, "without an agent", p.Acphost(t, 1, "sessions", "new", "demoagent"), "demoagent")
	p.Acphost(t, 0, "agents", "start", "--name", "demoagent", "--", e2e.Program("demoagent"))
	id := strings.TrimSpace(p.Acphost(t, 0, "sessions", "new", "demoagent"))
	if id == "" || strings.ContainsAny(id, " \n") {
		t.Fatalf("the session is %q", id)
	}
	e2e.ExpectContains(t, "a prompt", p.Acphost(t, 0, "sessions", "prompt", id[:len(id)-2], "repeat hello"), "hello")
	e2e.ExpectContains(t, "a prompt as JSON", p.Acphost(t, 0, "sessions", "prompt", id, "repeat hello", "--json"), `"turnStarted"`, `"turnEnded"`, "hello")
	e2e.ExpectContains(t, "a refusal", p.Acphost(t, 3, "sessions", "prompt", id, "refuse"), "refus")
	e2e.ExpectContains(t, "no turn", p.Acphost(t, 0, "sessions", "cancel", id), "no turn is under way")
	e2e.ExpectContains(t, "an unknown session", p.Acphost(t, 1, "sessions", "prompt", "nothing", "x"), "sessions new")
	e2e.ExpectContains(t, "completion", p.Acphost(t, 0, "__complete", "sessions", "prompt", ""), id)

	t.Run("a turn continues without its caller, and is cancelled", func(t *testing.T) {
		p.Acphost(t, 0, "sessions", "prompt", id, "sleep", "--detach")
		e2e.ExpectContains(t, "another prompt", p.Acphost(t, 1, "sessions", "prompt", id, "repeat x"), "turn")
		e2e.ExpectContains(t, "cancel", p.Acphost(t, 0, "sessions", "cancel", id), "asked to end its turn")
		testkit.Eventually(t, "the turn is over", func() bool { return strings.Contains(p.Acphost(t, 0, "sessions", "cancel", id), "no turn") })
	})
	t.Run("a question waits for its answer", func(t *testing.T) {
		x := p.Terminal(t, []string{e2e.Program("acphost"), "sessions", "prompt", id, "ask f.txt"})
		now := x.Shows("acphost approvals answer ")
		_, word, _ := strings.Cut(now, "acphost approvals answer ")
		prefix, rest, _ := strings.Cut(word, " ")
		option, _, _ := strings.Cut(strings.TrimPrefix(rest, "{"), "|")
		if len(prefix) != 8 {
			t.Errorf("the command to answer with names the question %q, want 8 characters", prefix)
		}
		p.Acphost(t, 0, "approvals", "answer", prefix, option)
		if got := x.Exits(); got != 0 {
			t.Errorf("the exit status is %d", got)
		}
	})
	t.Run("Ctrl-C cancels the turn", func(t *testing.T) {
		x := p.Terminal(t, []string{e2e.Program("acphost"), "sessions", "prompt", id, "slow 1000 50"})
		x.Shows("piece 3")
		x.Keys("C-c")
		x.Shows("cancelled")
		if got := x.Exits(); got != 6 {
			t.Errorf("the exit status is %d, want 6", got)
		}
	})
	s.Finish()
}
