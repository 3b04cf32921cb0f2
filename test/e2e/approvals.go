package e2e

import (
	"context"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// AnswerAll answers every question with yes until its context ends, and then hands over its answers by question.
func (s *Server) AnswerAll(ctx context.Context) <-chan map[string]*supervisorv1.ApprovalAnswer {
	s.T.Helper()
	changes, err := s.Approvals.WatchApprovals(ctx, &supervisorv1.WatchApprovalsRequest{})
	if err != nil {
		s.T.Fatal(err)
	}
	if m, err := changes.Recv(); err != nil || m.GetCaughtUp() == nil {
		s.T.Fatalf("watching questions began with %v, %v", m, err)
	}
	done := make(chan map[string]*supervisorv1.ApprovalAnswer, 1)
	go func() {
		given := map[string]*supervisorv1.ApprovalAnswer{}
		defer func() { done <- given }()
		for {
			m, err := changes.Recv()
			if err != nil {
				return
			}
			q := m.GetAsked()
			if q == nil {
				continue
			}
			resp, err := s.Approvals.AnswerApproval(s.Ctx, Yes(q, "tester")) // the turn may end before this does, and ctx with it
			if err != nil {
				s.T.Errorf("answer %v: %v", q, err)
				return
			}
			given[q.GetId()] = resp.GetAnswer()
		}
	}()
	return done
}

// Yes is the answer that lets an agent continue.
func Yes(q *supervisorv1.Approval, answeredBy string) *supervisorv1.AnswerApprovalRequest {
	req := &supervisorv1.AnswerApprovalRequest{Id: q.GetId(), AnsweredBy: answeredBy}
	switch {
	case q.GetPermission() != nil:
		req.Answer = &supervisorv1.AnswerApprovalRequest_OptionId{OptionId: "allow_once"} // by its kind
	case q.GetElicitation().GetMode() == "form":
		req.Answer = &supervisorv1.AnswerApprovalRequest_Accept{Accept: `{"target":"release","jobs":3}`}
	default:
		req.Answer = &supervisorv1.AnswerApprovalRequest_Accept{Accept: `{}`}
	}
	return req
}

// Ended waits until a watcher of questions learns how one ended.
func Ended(t *testing.T, changes interface {
	Recv() (*supervisorv1.WatchApprovalsResponse, error)
}, id string) *supervisorv1.ApprovalAnswer {
	t.Helper()
	for {
		m, err := changes.Recv()
		if err != nil {
			t.Fatalf("the end of the question %s was not sent: %v", id, err)
		}
		if a := m.GetAnswered(); a.GetId() == id {
			return a
		}
	}
}
