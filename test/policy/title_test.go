package policy_test

import (
	"os"
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// The title of a permission request is the agent's. Here it names the reading of a file, and the request is about a
// command that removes another one.
func TestQuestion_AnswerHoldsForCommandAndNotForTitle(t *testing.T) {
	t.Parallel()
	type answerer func(*testing.T, *e2e.Place, *e2e.Fixture, wire.Message, *supervisorv1.Approval)
	program := func(surface supervisorv1.Surface) answerer {
		return func(t *testing.T, p *e2e.Place, s *e2e.Fixture, _ wire.Message, q *supervisorv1.Approval) {
			t.Helper()
			yes := &supervisorv1.AnswerApprovalRequest_OptionId{OptionId: "yes"}
			req := &supervisorv1.AnswerApprovalRequest{Id: q.GetId(), Answer: yes, Surface: surface}
			if _, err := p.Dial(t, s.PID()).Approvals.AnswerApproval(wire.Context(t), req); err != nil {
				t.Fatal(e2e.Explain(err))
			}
		}
	}
	for name, c := range map[string]struct {
		answer answerer
		shows  bool // the surface shows the command
	}{
		"editor": {func(_ *testing.T, _ *e2e.Place, s *e2e.Fixture, asked wire.Message, _ *supervisorv1.Approval) {
			s.Reply(asked, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
		}, false},
		"attached editor":       {program(supervisorv1.Surface_SURFACE_AGENT_WORDS), false},
		"other program":         {program(supervisorv1.Surface_SURFACE_UNSPECIFIED), false},
		"chat, prompt, console": {program(supervisorv1.Surface_SURFACE_INPUT), true},
		"approvals": {func(t *testing.T, p *e2e.Place, _ *e2e.Fixture, _ wire.Message, q *supervisorv1.Approval) {
			t.Helper()
			list := p.Acphost(t, 0, "approvals", "list")
			e2e.ExpectContains(t, "the list", list, "The agent asks (execute): Read a.txt\n    Asked because: no rule of the policy allows this command\n    $ rm -rf b\n")
			prefix, _, _ := strings.Cut(list, " ")
			p.Acphost(t, 0, "approvals", "answer", prefix, "yes")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			p.File(t, "a.txt", "a\n")
			p.File(t, "b/keep", "keep\n")
			const rules = "version: 1\nrules: [{id: pushing, effect: ask, command: [\"git push\"]}]\n"
			s := p.Fixture(t, p.Policy(t, rules, ""))
			call := e2e.Command("rm -rf b")
			call["title"] = "Read a.txt"
			call["locations"] = []any{map[string]any{"path": p.Path("a.txt")}}
			asked := s.Ask(call, e2e.Options)
			shown := s.Expect("session/request_permission")
			approvals := p.Dial(t, s.PID()).Approvals
			list, err := approvals.ListApprovals(wire.Context(t), &supervisorv1.ListApprovalsRequest{})
			if err != nil || len(list.GetApprovals()) != 1 {
				t.Fatalf("questions: %v, %v", list, err)
			}
			c.answer(t, p, s, shown, list.GetApprovals()[0])
			if got := e2e.Chosen(t, asked); got != "yes" {
				t.Fatalf("the agent got %q, want yes", got)
			}
			reject := func(call *wire.Call) {
				t.Helper()
				q := s.Asked()
				s.Choose(q, "reject_once")
				call.Refused(-32603)
				s.Status(q, "failed")
			}
			reject(s.Read("a.txt"))
			removes := func() *wire.Call { return s.Agent.Send("terminal/run", e2e.Params("command", "rm -rf b")) }
			if c.shows {
				removes().Result(nil)
			}
			if _, err := os.Stat(p.Path("b/keep")); (err == nil) == c.shows {
				t.Errorf("the command has run: %v, want %v", err != nil, c.shows)
			}
			reject(removes()) // not shown, or allowed once
			s.Finish()
		})
	}
}
