package e2e_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// answerAll answers every question with yes until its context ends, and then hands over its answers by question.
func (s *server) answerAll(ctx context.Context) <-chan map[string]*supervisorv1.ApprovalAnswer {
	s.t.Helper()
	changes, err := s.approvals.WatchApprovals(ctx, &supervisorv1.WatchApprovalsRequest{})
	if err != nil {
		s.t.Fatal(err)
	}
	if m, err := changes.Recv(); err != nil || m.GetCaughtUp() == nil {
		s.t.Fatalf("watching questions began with %v, %v", m, err)
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
			resp, err := s.approvals.AnswerApproval(s.ctx, yes(q, "tester")) // the turn may end before this does, and ctx with it
			if err != nil {
				s.t.Errorf("answer %v: %v", q, err)
				return
			}
			given[q.GetId()] = resp.GetAnswer()
		}
	}()
	return done
}

// yes is the answer that lets an agent go on.
func yes(q *supervisorv1.Approval, who string) *supervisorv1.AnswerApprovalRequest {
	req := &supervisorv1.AnswerApprovalRequest{Id: q.GetId(), AnsweredBy: who}
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

// answerOf is the detail that says how a question ended.
func answerOf(err error) *supervisorv1.ApprovalAnswer {
	for _, d := range status.Convert(err).Details() {
		if a, ok := d.(*supervisorv1.ApprovalAnswer); ok {
			return a
		}
	}
	return nil
}

// ended waits until a watcher of questions learns how one ended.
func ended(t *testing.T, changes interface {
	Recv() (*supervisorv1.WatchApprovalsResponse, error)
}, id string) *supervisorv1.ApprovalAnswer {
	t.Helper()
	for {
		m, err := changes.Recv()
		if err != nil {
			t.Fatalf("the end of the question %s was not told: %v", id, err)
		}
		if a := m.GetAnswered(); a.GetId() == id {
			return a
		}
	}
}

func TestOfTwoWhoAnswerOneWinsAndBothLearn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	agent := s.start(p.demo())
	session := s.open(agent.GetId()).GetSessionId()
	changes, err := s.approvals.WatchApprovals(s.ctx, &supervisorv1.WatchApprovalsRequest{SessionId: session})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := changes.Recv(); err != nil { // what waits now: from here on the end of each question is told
		t.Fatal(err)
	}
	for range 10 {
		turn := s.prompt(session, "ask")
		q := turn.question()
		list, err := s.approvals.ListApprovals(s.ctx, &supervisorv1.ListApprovalsRequest{})
		if err != nil || len(list.GetApprovals()) != 1 || list.GetApprovals()[0].GetId() != q.GetId() {
			t.Fatalf("the questions are %v (%v), want %s", list, err, q.GetId())
		}
		answers := map[string]string{"ada": "allow", "bob": "reject"}
		var (
			wg     sync.WaitGroup
			mu     sync.Mutex
			won    []string
			learnt []*supervisorv1.ApprovalAnswer
		)
		for who, option := range answers {
			wg.Go(func() {
				resp, err := s.approvals.AnswerApproval(s.ctx, &supervisorv1.AnswerApprovalRequest{
					Id: q.GetId(), AnsweredBy: who, Answer: &supervisorv1.AnswerApprovalRequest_OptionId{OptionId: option},
				})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won, learnt = append(won, who), append(learnt, resp.GetAnswer())
				} else {
					learnt = append(learnt, answerOf(err))
					if status.Code(err) != codes.FailedPrecondition {
						t.Errorf("%s was refused with %v, want FAILED_PRECONDITION", who, err)
					}
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%q won, want one", won)
		}
		winner, option := won[0], answers[won[0]]
		told := ended(t, changes, q.GetId())
		for _, a := range append(learnt, told) {
			if a.GetAnsweredBy() != winner || a.GetOptionId() != option {
				t.Errorf("one learnt %v, want that %s chose %s", a, winner, option)
			}
		}
		turn.stopped("end_turn")
		if want := "ask ok: " + option; turn.said() != want {
			t.Errorf("the agent said %q, want %q", turn.said(), want)
		}
	}
	s.finish()
}

func TestAnAnswerThatAQuestionDoesNotOfferLeavesItOpen(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	session := s.open(s.start(p.demo()).GetId()).GetSessionId()
	changes, err := s.approvals.WatchApprovals(s.ctx, &supervisorv1.WatchApprovalsRequest{}) // somebody is there
	if err != nil {
		t.Fatal(err)
	}
	if _, err := changes.Recv(); err != nil {
		t.Fatal(err)
	}
	turn := s.prompt(session, "ask")
	q := turn.question()
	answer := func(id string, option string) error {
		_, err := s.approvals.AnswerApproval(s.ctx, &supervisorv1.AnswerApprovalRequest{Id: id, Answer: &supervisorv1.AnswerApprovalRequest_OptionId{OptionId: option}})
		return err
	}
	if err := answer(q.GetId(), "perhaps"); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an option that there is not was refused with %v, want INVALID_ARGUMENT", err)
	}
	if err := answer("nobody-1/7", "allow"); status.Code(err) != codes.NotFound {
		t.Errorf("a question that there is not was refused with %v, want NOT_FOUND", err)
	}
	if err := answer(q.GetId(), "reject"); err != nil {
		t.Error(err)
	}
	turn.stopped("end_turn")
	expectContains(t, "the agent's message", turn.said(), "ask ok: reject")
	s.finish()
}

func TestAQuestionIsWithdrawnWithItsTurn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	session := s.open(s.start(p.demo()).GetId()).GetSessionId()
	changes, err := s.approvals.WatchApprovals(s.ctx, &supervisorv1.WatchApprovalsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := changes.Recv(); err != nil {
		t.Fatal(err)
	}
	turn := s.prompt(session, "ask")
	q := turn.question()
	if resp, err := s.sessions.CancelPrompt(s.ctx, &supervisorv1.CancelPromptRequest{SessionId: session}); err != nil || !resp.GetTurnActive() {
		t.Fatalf("cancelled: %v, %v", resp, err)
	}
	turn.stopped("cancelled")
	if a := ended(t, changes, q.GetId()); a.GetOutcome() != "cancelled" && a.GetOutcome() != "withdrawn" {
		t.Errorf("the question ended with %v", a)
	}
	if list, err := s.approvals.ListApprovals(s.ctx, &supervisorv1.ListApprovalsRequest{}); err != nil || len(list.GetApprovals()) > 0 {
		t.Errorf("after the turn there wait %v (%v)", list, err)
	}
	s.finish()
}

func TestAQuestionThatNobodyAnswersEndsWithTheAgentDenied(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, p.config(t, "permission: {timeout_seconds: 1}\n"))
	session := s.open(s.start(p.demo()).GetId()).GetSessionId()
	turn := s.prompt(session, "ask")
	answered := turn.until("the answer", func(e *supervisorv1.Event) bool { return e.GetQuestionAnswered() != nil }).GetQuestionAnswered()
	if answered.GetAnsweredBy() != "nobody" {
		t.Errorf("the question was answered by %v, want nobody", answered)
	}
	turn.stopped("end_turn")
	if strings.Contains(turn.said(), "ok: allow") {
		t.Errorf("without anybody the agent was told %q", turn.said())
	}
	s.finish()
}

func TestTheEditorAndAProgramRaceForAnAnswer(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	sc := p.scene(t, nil)
	calls := p.dial(t, sc.PID())
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout())
	defer cancel()
	changes, err := calls.approvals.WatchApprovals(ctx, &supervisorv1.WatchApprovalsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := changes.Recv(); err != nil || m.GetCaughtUp() == nil {
		t.Fatalf("watching questions began with %v, %v", m, err)
	}
	asked := func() *supervisorv1.Approval {
		for {
			m, err := changes.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if q := m.GetAsked(); q != nil {
				return q
			}
		}
	}

	// The program is first: the editor learns that it need not answer, and what it says all the same changes nothing.
	question := sc.ask(edit(p.path("a")), options)
	atEditor := sc.Expect("session/request_permission")
	q := asked()
	resp, err := calls.approvals.AnswerApproval(ctx, &supervisorv1.AnswerApprovalRequest{Id: q.GetId(), Answer: &supervisorv1.AnswerApprovalRequest_OptionId{OptionId: "no"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := chosen(t, question); got != "no" {
		t.Errorf("the agent was told %q, want what the program said", got)
	}
	var withdrawn struct{ RequestID any }
	sc.Expect("$/cancel_request").Decode(t, &withdrawn)
	if !equalJSON(t, withdrawn.RequestID, atEditor.ID) {
		t.Errorf("the editor was told that %v is over, want %s", withdrawn.RequestID, atEditor.ID)
	}
	sc.Reply(atEditor, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
	if a := ended(t, changes, q.GetId()); a.GetAnsweredBy() != resp.GetAnswer().GetAnsweredBy() || a.GetOptionId() != "no" || a.GetAnsweredBy() == "front" {
		t.Errorf("watchers learnt %v, want %v", a, resp.GetAnswer())
	}

	// The editor is first.
	question = sc.ask(edit(p.path("b")), options)
	atEditor = sc.Expect("session/request_permission")
	q = asked()
	sc.Reply(atEditor, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
	if got := chosen(t, question); got != "yes" {
		t.Errorf("the agent was told %q, want what the editor said", got)
	}
	if a := ended(t, changes, q.GetId()); a.GetAnsweredBy() != "front" || a.GetOptionId() != "yes" {
		t.Errorf("watchers learnt %v, want that the editor said yes", a)
	}
	_, err = calls.approvals.AnswerApproval(ctx, &supervisorv1.AnswerApprovalRequest{Id: q.GetId(), Answer: &supervisorv1.AnswerApprovalRequest_OptionId{OptionId: "no"}})
	if status.Code(err) != codes.FailedPrecondition || answerOf(err).GetAnsweredBy() != "front" {
		t.Errorf("the program was refused with %v and %v, want FAILED_PRECONDITION and the editor's answer", err, answerOf(err))
	}

	// Both at once: whoever it is, the agent is told once.
	for range 20 {
		question = sc.ask(edit(p.path("c")), options)
		atEditor = sc.Expect("session/request_permission")
		q = asked()
		result := make(chan error, 1)
		go func() {
			_, err := calls.approvals.AnswerApproval(ctx, &supervisorv1.AnswerApprovalRequest{Id: q.GetId(), Answer: &supervisorv1.AnswerApprovalRequest_OptionId{OptionId: "no"}})
			result <- err
		}()
		sc.Reply(atEditor, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
		got, a, err := chosen(t, question), ended(t, changes, q.GetId()), <-result
		if a.GetOptionId() != got || (err == nil) != (got == "no") || (a.GetAnsweredBy() == "front") != (got == "yes") {
			t.Errorf("the agent was told %q, watchers learnt %v, and the program got %v", got, a, err)
		}
	}
	// Whoever has left: nobody is written to behind an answer.
	for _, m := range sc.agent.Waiting() {
		if m.Method == "" {
			t.Errorf("the agent got a second answer: %s", m.Raw)
		}
	}
	sc.finish()
}

func TestAWatcherThatOnlyLooksDoesNotKeepAQuestionOpen(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, p.config(t, "permission: {timeout_seconds: 1}\n"))
	session := s.open(s.start(p.demo()).GetId()).GetSessionId()
	looking, leave := context.WithCancel(s.ctx)
	changes, err := s.approvals.WatchApprovals(looking, &supervisorv1.WatchApprovalsRequest{OnlyLook: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := changes.Recv(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	s.prompt(session, "ask").stopped("end_turn")
	if took := time.Since(begun); took > testkit.Timeout() {
		t.Errorf("the question waited %s", took)
	}
	leave()
	if _, err := changes.Recv(); err != nil && !errors.Is(err, context.Canceled) && status.Code(err) != codes.Canceled {
		// What was told before may still come; an end of another kind is wrong.
		t.Errorf("the watching ended with %v", err)
	}
	s.finish()
}
