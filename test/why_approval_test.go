package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
)

// whyApproval is the action that "policy why --approval" explains, and its verdict.
func (p *place) whyApproval(t *testing.T, flags []string, id string) (*permissionv1.Action, string, string) {
	t.Helper()
	status, out, errs := p.cli(t, append([]string{"policy", "why", "--json", "--approval", id}, flags...)...)
	if status != 0 {
		t.Fatalf("policy why --approval %s: exit %d\n%s%s", id, status, out, errs)
	}
	var said struct {
		Action   json.RawMessage
		Decision struct{ Verdict, Rule string }
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	a := &permissionv1.Action{}
	if err := protojson.Unmarshal(said.Action, a); err != nil {
		t.Fatalf("%v: %s", err, said.Action)
	}
	return a, said.Decision.Verdict + " " + said.Decision.Rule, errs
}

// waiting is the id of the only question that waits.
func (s *scene) waiting(t *testing.T, p *place) string {
	t.Helper()
	list, err := p.dial(t, s.PID()).approvals.ListApprovals(t.Context(), &supervisorv1.ListApprovalsRequest{})
	if err != nil || len(list.GetApprovals()) != 1 {
		t.Fatalf("%v questions wait, %v", list.GetApprovals(), err)
	}
	return list.GetApprovals()[0].GetId()
}

func TestWhyAQuestionWasAskedIsSaidFromTheRecord(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	flags := p.policy(t, gateRules, "")
	s := p.scene(t, flags)
	s.agent.Notify("session/update", params("update", map[string]any{"sessionUpdate": "current_mode_update", "currentModeId": "careful"}))
	s.Expect("session/update")
	// What the agent reported before counts as it did: the question itself names no command.
	s.agent.Notify("session/update", params("update", map[string]any{"sessionUpdate": "tool_call", "toolCallId": "x", "title": "push",
		"kind": "execute", "rawInput": map[string]any{"command": "git push origin main && ls"}}))
	s.Expect("session/update")
	asked := s.ask(map[string]any{"toolCallId": "x"}, options)
	q := s.Expect("session/request_permission")
	id := s.waiting(t, p)
	open, verdict, notes := p.whyApproval(t, flags, id)
	expectContains(t, "what is said of an open question", notes, "made of the recorded frames")
	if verdict != "VERDICT_ASK pushing" || open.GetCommand().GetText() != "git push origin main && ls" || open.GetMode() != "careful" || open.GetDoor() != permissionv1.Door_DOOR_REQUEST {
		t.Errorf("%s, of %v", verdict, open)
	}
	s.Reply(q, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "no"}})
	chosen(t, asked)
	answered, verdict, notes := p.whyApproval(t, flags, id)
	expectContains(t, "what is said of an answered question", notes, "as it was judged then, from the audit")
	if verdict != "VERDICT_ASK pushing" {
		t.Errorf("the answered question's verdict is %s", verdict)
	}
	if !proto.Equal(open, answered) {
		t.Errorf("the open question was about\n%v\nand the answered one about\n%v", open, answered)
	}

	// acphost's own question, about a call.
	write := s.write("new.txt", "text")
	own := s.asked()
	id = s.waiting(t, p)
	a, verdict, _ := p.whyApproval(t, flags, id)
	if a.GetKind() != "fs.write" || a.GetDoor() != permissionv1.Door_DOOR_CALL || len(a.GetPaths()) != 1 || a.GetPaths()[0].GetPath() != s.path("new.txt") {
		t.Errorf("the question about a call is about %v (%s)", a, verdict)
	}
	s.choose(own, "allow_once")
	write.Result(nil)

	// The record lacks secrets, and that is said.
	asked = s.ask(command("curl -H 'Authorization: Bearer ghp_0123456789abcdefghijABCDEFGHIJ012345' x"), options)
	q = s.Expect("session/request_permission")
	secret := s.waiting(t, p)
	shows := func(a *permissionv1.Action) {
		if text := a.GetCommand().GetText(); strings.Contains(text, "ghp_") || !strings.Contains(text, "curl") {
			t.Errorf("of a command with a secret, this is shown: %s", text)
		}
	}
	a, _, _ = p.whyApproval(t, flags, secret)
	shows(a)
	s.Reply(q, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "no"}})
	chosen(t, asked)
	a, _, notes = p.whyApproval(t, flags, secret)
	shows(a)
	expectContains(t, "what is said of a question with a secret", notes, "may have been judged otherwise")
	s.finish()

	// The session has ended; the handle alone is enough.
	a, _, notes = p.whyApproval(t, flags, client.Handle(id))
	expectContains(t, "what is said of an ended session", notes, "from the audit")
	if a.GetKind() != "fs.write" {
		t.Errorf("after the end, it is about %v", a)
	}
	for _, d := range p.decisions(t) {
		if a, _, _ := p.whyApproval(t, flags, d.ID); a.GetKind() != d.Action.Kind {
			t.Errorf("decision %s is about %v, want %s", d.ID, a, d.Action.Kind)
		}
	}
	if status, _, errs := p.cli(t, "policy", "why", "--approval", "no-such"); status == 0 || !strings.Contains(errs, "no question and no decision") {
		t.Errorf("of an unknown decision, exit %d and %s", status, errs)
	}
	if status, _, errs := p.cli(t, "policy", "why", "--approval", "agent/99"); status == 0 || !strings.Contains(errs, "no question agent/99") {
		t.Errorf("of an unknown question, exit %d and %s", status, errs)
	}
	if status, _, errs := p.cli(t, "policy", "why", "--approval", id, "--command", "ls"); status == 0 || !strings.Contains(errs, "expected one of") {
		t.Errorf("of two questions at once, exit %d and %s", status, errs)
	}
}

func TestWhyTheLastActionWasDeniedIsSaidFromTheAudit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	why := []string{"policy", "why", "--denied", "--policy", "workspace"}
	if status, out, errs := p.cli(t, why...); status == 0 || !strings.Contains(errs, "nothing was denied") {
		t.Errorf("before anything was denied: exit %d\n%s%s", status, out, errs)
	}
	p.file(t, ".env", "TOKEN=1\n")
	p.file(t, "a.txt", "a\n")
	for _, prompt := range []string{"/read " + p.path("a.txt"), "/read " + p.path(".env"), "/read " + p.path("a.txt")} {
		if status, out, errs := p.cli(t, "prompt", "--policy", "workspace", prompt, "--", program("demoagent")); status != 0 {
			t.Fatalf("%s: exit %d\n%s%s", prompt, status, out, errs)
		}
	}
	status, out, errs := p.cli(t, why...)
	if status != 0 || !strings.HasPrefix(out, "deny  rule secrets") || !strings.Contains(out, p.path(".env")) || !strings.Contains(errs, "it was denied by rule secrets") {
		t.Errorf("exit %d\n%s%s", status, out, errs)
	}
	if status, _, errs := p.cli(t, "policy", "why", "--denied", "--on", "fs.read"); status != 2 || !strings.Contains(errs, "the action says them itself") {
		t.Errorf("with a kind: exit %d\n%s", status, errs)
	}
}
