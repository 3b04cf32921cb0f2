package policy_test

import (
	"strconv"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

func TestApprovals_FormAnswerIsValidated(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	req := p.Demo()
	req.Attended = true // else it may not put forms
	session := s.Open(s.Start(req).GetId()).GetSessionId()
	turn := s.Prompt(session, "elicit")
	q := turn.Question()
	for content, want := range map[string]string{
		`{}`:                             `the field "target" is required: expected one of "debug", "release"`,
		`{"target":"fast"}`:              `the field "target" does not fit`,
		`{"target":"debug","jobs":"2"}`:  `the field "jobs" does not fit: expected a whole number of at least 1 and at most 8`,
		`{"target":"debug","clean":"y"}`: `the field "clean" does not fit: expected true or false`,
	} {
		_, err := s.Approvals.AnswerApproval(s.Ctx, &supervisorv1.AnswerApprovalRequest{Id: q.GetId(), Answer: &supervisorv1.AnswerApprovalRequest_Accept{Accept: content}})
		if status.Code(err) != codes.InvalidArgument {
			t.Fatalf("%s: got %v, want INVALID_ARGUMENT", content, err)
		}
		e2e.ExpectContains(t, "the refusal", err.Error(), want)
		code, _, stderr := p.Cli(t, "approvals", "answer", "--pid", strconv.Itoa(s.PID()), q.GetId(), "--accept", content)
		if code != 1 {
			t.Fatalf("acphost approvals answer --accept %s has the status %d, want 1", content, code)
		}
		e2e.ExpectContains(t, "the refusal", stderr, want)
	}
	if code, _, stderr := p.Cli(t, "approvals", "answer", "--pid", strconv.Itoa(s.PID()), q.GetId(), "--accept", `{"target":"release","jobs":3}`); code != 0 {
		t.Fatalf("a valid answer is rejected, with the status %d: %s", code, stderr)
	}
	turn.Stopped("end_turn")
	e2e.ExpectContains(t, "the agent's message", turn.Said(), `elicit ok: accept`, `"target":"release"`)
	s.Finish()
}
