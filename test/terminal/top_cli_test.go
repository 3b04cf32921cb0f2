package terminal_test

import (
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

func TestTop_ShowsAllAgents(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	x := p.Terminal(t, []string{e2e.Program("acphost"), "top"})
	x.Shows("no supervisor is running", "q leaves")
	s := p.Serve(t, nil)
	p.Acphost(t, 0, "agents", "start", "--name", "demoagent", "--", e2e.Program("demoagent"))
	x.Shows("1 supervisor, 1 agent, 0 sessions", "demoagent-1", "running")
	session := func(prompt string) string {
		id := strings.TrimSpace(p.Acphost(t, 0, "sessions", "new", "demoagent"))
		p.Acphost(t, 0, "sessions", "prompt", id, prompt, "--detach")
		return id
	}
	asks := session("ask f.txt")
	x.Shows("Questions that wait", "asks")
	list, err := s.Approvals.ListApprovals(s.Ctx, &supervisorv1.ListApprovalsRequest{})
	if err != nil || len(list.GetApprovals()) != 1 {
		t.Fatalf("questions: %v, %v", list, err)
	}
	id := list.GetApprovals()[0].GetId()
	x.Shows(id[strings.LastIndexByte(id, '.')+1:][:8]) // the unique prefix that answers it
	session("/run sleep 1000")
	x.Shows("2 sessions", "Commands in terminals", "sleep 1000", "working")
	e2e.ExpectContains(t, "once", p.Acphost(t, 0, "top"), "1 question", "sleep 1000")
	e2e.ExpectContains(t, "as JSON", p.Acphost(t, 0, "top", "--json"), `"questions": [`, `"supervisors": `, asks) // other tests may have one in the folder that all share
	p.Acphost(t, 0, "sessions", "cancel", asks)
	x.Shows("0 questions", "cancelled")
	p.Acphost(t, 0, "agents", "stop", "demoagent")
	x.Shows("0 commands")
	x.Keys("q")
	if status := x.Exits(); status != 0 {
		t.Errorf("the exit status is %d", status)
	}
	if left := x.All(); strings.Contains(left, "demoagent-1") {
		t.Errorf("the screen was left behind:\n%s", left)
	}
	x.End()
	s.Finish()
}
