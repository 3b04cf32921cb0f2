package e2e_test

import (
	"strings"
	"testing"
)

func TestWhatAllAgentsDoIsOnOneScreen(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	x := p.terminal(t, []string{program("acphost"), "top"})
	x.shows("no supervisor is running", "q leaves")
	s := p.serve(t, nil)
	p.acphost(t, 0, "agents", "start", "--name", "demoagent", "--", program("demoagent"))
	x.shows("1 supervisor, 1 agent, 0 sessions", "demoagent-1", "running")
	session := func(prompt string) string {
		id := strings.TrimSpace(p.acphost(t, 0, "sessions", "new", "demoagent"))
		p.acphost(t, 0, "sessions", "prompt", id, prompt, "--detach")
		return id
	}
	asks := session("ask f.txt")
	x.shows("Questions that wait", "demoagent-1/", "asks")
	session("/run sleep 1000")
	x.shows("2 sessions", "Commands in terminals", "sleep 1000", "working")
	expectContains(t, "once", p.acphost(t, 0, "top"), "1 question", "sleep 1000")
	expectContains(t, "as JSON", p.acphost(t, 0, "top", "--json"), `"questions": [`, `"supervisors": `, asks) // other tests may have one in the folder that all share
	p.acphost(t, 0, "sessions", "cancel", asks)
	x.shows("0 questions", "cancelled")
	p.acphost(t, 0, "agents", "stop", "demoagent")
	x.shows("0 commands")
	x.keys("q")
	if status := x.exits(); status != 0 {
		t.Errorf("the exit status is %d", status)
	}
	if left := x.all(); strings.Contains(left, "demoagent-1") {
		t.Errorf("the screen was left behind:\n%s", left)
	}
	x.end()
	s.finish()
}
