package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/test/e2e"
)

func TestWhy_QuestionFromRecord(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	flags := p.Policy(t, e2e.GateRules, "")
	s := p.Fixture(t, flags)
	s.Agent.Notify("session/update", e2e.Params("update", map[string]any{"sessionUpdate": "current_mode_update", "currentModeId": "careful"}))
	s.Expect("session/update")
	// Earlier reports of the agent are used: the question itself names no command.
	s.Agent.Notify("session/update", e2e.Params("update", map[string]any{"sessionUpdate": "tool_call", "toolCallId": "x", "title": "push",
		"kind": "execute", "rawInput": map[string]any{"command": "git push origin main && ls"}}))
	s.Expect("session/update")
	asked := s.Ask(map[string]any{"toolCallId": "x"}, e2e.Options)
	q := s.Expect("session/request_permission")
	id := waitingQuestion(t, s, p)
	open, verdict, notes := whyApproval(t, p, flags, id)
	e2e.ExpectContains(t, "the output for an open question", notes, "made of the recorded frames")
	if verdict != "VERDICT_ASK pushing" || open.GetCommand().GetText() != "git push origin main && ls" || open.GetMode() != "careful" || open.GetDoor() != permissionv1.Door_DOOR_REQUEST {
		t.Errorf("%s, of %v", verdict, open)
	}
	s.Reply(q, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "no"}})
	e2e.Chosen(t, asked)
	answered, verdict, notes := whyApproval(t, p, flags, id)
	e2e.ExpectContains(t, "the output for an answered question", notes, "as it was judged then, from the audit")
	if verdict != "VERDICT_ASK pushing" {
		t.Errorf("the answered question's verdict is %s", verdict)
	}
	if !proto.Equal(open, answered) {
		t.Errorf("the open question was about\n%v\nand the answered one about\n%v", open, answered)
	}

	// acphost's own question, about a call.
	write := s.WriteFile("new.txt", "text")
	own := s.Asked()
	id = waitingQuestion(t, s, p)
	a, verdict, _ := whyApproval(t, p, flags, id)
	if a.GetKind() != "fs.write" || a.GetDoor() != permissionv1.Door_DOOR_CALL || len(a.GetPaths()) != 1 || a.GetPaths()[0].GetPath() != s.Path("new.txt") {
		t.Errorf("the question about a call is about %v (%s)", a, verdict)
	}
	s.Choose(own, "allow_once")
	write.Result(nil)

	// The record does not contain secrets, and reports that.
	asked = s.Ask(e2e.Command("curl -H 'Authorization: Bearer ghp_0123456789abcdefghijABCDEFGHIJ012345' x"), e2e.Options)
	q = s.Expect("session/request_permission")
	secret := waitingQuestion(t, s, p)
	shows := func(a *permissionv1.Action) {
		if text := a.GetCommand().GetText(); strings.Contains(text, "ghp_") || !strings.Contains(text, "curl") {
			t.Errorf("of a command with a secret, this is shown: %s", text)
		}
	}
	a, _, _ = whyApproval(t, p, flags, secret)
	shows(a)
	s.Reply(q, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "no"}})
	e2e.Chosen(t, asked)
	a, _, notes = whyApproval(t, p, flags, secret)
	shows(a)
	e2e.ExpectContains(t, "the output for a question with a secret", notes, "may have been judged otherwise")
	s.Finish()

	// The session has ended; the handle alone is enough.
	a, _, notes = whyApproval(t, p, flags, client.Handle(id))
	e2e.ExpectContains(t, "the output for an ended session", notes, "from the audit")
	if a.GetKind() != "fs.write" {
		t.Errorf("after the end, it is about %v", a)
	}
	for _, d := range p.Decisions(t) {
		if a, _, _ := whyApproval(t, p, flags, d.ID); a.GetKind() != d.Action.Kind {
			t.Errorf("decision %s is about %v, want %s", d.ID, a, d.Action.Kind)
		}
	}
	if status, _, errs := p.Cli(t, "policy", "why", "--approval", "no-such"); status == 0 || !strings.Contains(errs, "no question and no decision") {
		t.Errorf("of an unknown decision, exit %d and %s", status, errs)
	}
	if status, _, errs := p.Cli(t, "policy", "why", "--approval", "agent/99"); status == 0 || !strings.Contains(errs, "no question agent/99") {
		t.Errorf("of an unknown question, exit %d and %s", status, errs)
	}
	if status, _, errs := p.Cli(t, "policy", "why", "--approval", id, "--command", "ls"); status == 0 || !strings.Contains(errs, "expected one of") {
		t.Errorf("of two questions at once, exit %d and %s", status, errs)
	}
}

func TestWhy_LastDenialFromAudit(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	why := []string{"policy", "why", "--denied", "--policy", "workspace"}
	if status, out, errs := p.Cli(t, why...); status == 0 || !strings.Contains(errs, "nothing was denied") {
		t.Errorf("before anything was denied: exit %d\n%s%s", status, out, errs)
	}
	p.File(t, ".env", "TOKEN=1\n")
	p.File(t, "a.txt", "a\n")
	for _, prompt := range []string{"/read " + p.Path("a.txt"), "/read " + p.Path(".env"), "/read " + p.Path("a.txt")} {
		if status, out, errs := p.Cli(t, "prompt", "--policy", "workspace", prompt, "--", e2e.Program("demoagent")); status != 0 {
			t.Fatalf("%s: exit %d\n%s%s", prompt, status, out, errs)
		}
	}
	status, out, errs := p.Cli(t, why...)
	if status != 0 || !strings.HasPrefix(out, "deny  rule secrets") || !strings.Contains(out, p.Path(".env")) || !strings.Contains(errs, "it was denied by rule secrets") {
		t.Errorf("exit %d\n%s%s", status, out, errs)
	}
	if status, _, errs := p.Cli(t, "policy", "why", "--denied", "--on", "fs.read"); status != 2 || !strings.Contains(errs, "the action says them itself") {
		t.Errorf("with a kind: exit %d\n%s", status, errs)
	}
}

// whyApproval is the action that "policy why --approval" explains, and its verdict.
func whyApproval(t *testing.T, p *e2e.Place, flags []string, id string) (*permissionv1.Action, string, string) {
	t.Helper()
	status, out, errs := p.Cli(t, append([]string{"policy", "why", "--json", "--approval", id}, flags...)...)
	if status != 0 {
		t.Fatalf("policy why --approval %s: exit %d\n%s%s", id, status, out, errs)
	}
	var why struct {
		Action   json.RawMessage
		Decision struct{ Verdict, Rule string }
	}
	if err := json.Unmarshal([]byte(out), &why); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	a := &permissionv1.Action{}
	if err := protojson.Unmarshal(why.Action, a); err != nil {
		t.Fatalf("%v: %s", err, why.Action)
	}
	return a, why.Decision.Verdict + " " + why.Decision.Rule, errs
}

// waitingQuestion is the id of the only question that waits.
func waitingQuestion(t *testing.T, s *e2e.Fixture, p *e2e.Place) string {
	t.Helper()
	list, err := p.Dial(t, s.PID()).Approvals.ListApprovals(t.Context(), &supervisorv1.ListApprovalsRequest{})
	if err != nil || len(list.GetApprovals()) != 1 {
		t.Fatalf("%v questions wait, %v", list.GetApprovals(), err)
	}
	return list.GetApprovals()[0].GetId()
}
