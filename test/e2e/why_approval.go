package e2e

import (
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// WhyApproval is the action that "policy why --approval" explains, and its verdict.
func (p *Place) WhyApproval(t *testing.T, flags []string, id string) (*permissionv1.Action, string, string) {
	t.Helper()
	status, out, errs := p.Cli(t, append([]string{"policy", "why", "--json", "--approval", id}, flags...)...)
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

// WaitingQuestion is the id of the only question that waits.
func (s *Scene) WaitingQuestion(t *testing.T, p *Place) string {
	t.Helper()
	list, err := p.Dial(t, s.PID()).Approvals.ListApprovals(t.Context(), &supervisorv1.ListApprovalsRequest{})
	if err != nil || len(list.GetApprovals()) != 1 {
		t.Fatalf("%v questions wait, %v", list.GetApprovals(), err)
	}
	return list.GetApprovals()[0].GetId()
}
