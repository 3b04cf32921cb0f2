package policy_test

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
	"github.com/acphost/acphost/test/e2e"
)

// answerOf returns the detail that describes how a question ended.
func answerOf(err error) *supervisorv1.ApprovalAnswer {
	for _, d := range status.Convert(err).Details() {
		if a, ok := d.(*supervisorv1.ApprovalAnswer); ok {
			return a
		}
	}
	return nil
}

func TestApprovals_FirstOfTwoAnswersWins(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	agent := s.Start(p.Demo())
	session := s.Open(agent.GetId()).GetSessionId()
	changes, err := s.Approvals.WatchApprovals(s.Ctx, &supervisorv1.WatchApprovalsRequest{SessionId: session})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := changes.Recv(); err != nil { // the pending questions: from here on the end of each question is sent
		t.Fatal(err)
	}
	for range 10 {
		turn := s.Prompt(session, "ask")
		q := turn.Question()
		list, err := s.Approvals.ListApprovals(s.Ctx, &supervisorv1.ListApprovalsRequest{})
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
		for client, option := range answers {
			wg.Go(func() {
				resp, err := s.Approvals.AnswerApproval(s.Ctx, &supervisorv1.AnswerApprovalRequest{
					Id: q.GetId(), AnsweredBy: client, Answer: &supervisorv1.AnswerApprovalRequest_OptionId{OptionId: option},
				})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won, learnt = append(won, client), append(learnt, resp.GetAnswer())
				} else {
					learnt = append(learnt, answerOf(err))
					if status.Code(err) != codes.FailedPrecondition {
						t.Errorf("%s was refused with %v, want FAILED_PRECONDITION", client, err)
					}
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%q won, want one", won)
		}
		winner, option := won[0], answers[won[0]]
		answer := e2e.Ended(t, changes, q.GetId())
		for _, a := range append(learnt, answer) {
			if a.GetAnsweredBy() != winner || a.GetOptionId() != option {
				t.Errorf("a watcher received %v, want that %s chose %s", a, winner, option)
			}
		}
		turn.Stopped("end_turn")
		if want := "ask ok: " + option; turn.Said() != want {
			t.Errorf("the agent sent %q, want %q", turn.Said(), want)
		}
	}
	s.Finish()
}

func TestApprovals_InvalidAnswerKeepsQuestionOpen(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	session := s.Open(s.Start(p.Demo()).GetId()).GetSessionId()
	changes, err := s.Approvals.WatchApprovals(s.Ctx, &supervisorv1.WatchApprovalsRequest{}) // somebody is there
	if err != nil {
		t.Fatal(err)
	}
	if _, err := changes.Recv(); err != nil {
		t.Fatal(err)
	}
	turn := s.Prompt(session, "ask")
	q := turn.Question()
	answer := func(id string, option string) error {
		_, err := s.Approvals.AnswerApproval(s.Ctx, &supervisorv1.AnswerApprovalRequest{Id: id, Answer: &supervisorv1.AnswerApprovalRequest_OptionId{OptionId: option}})
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
	turn.Stopped("end_turn")
	e2e.ExpectContains(t, "the agent's message", turn.Said(), "ask ok: reject")
	s.Finish()
}

func TestApprovals_WithdrawnWithTurn(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	session := s.Open(s.Start(p.Demo()).GetId()).GetSessionId()
	changes, err := s.Approvals.WatchApprovals(s.Ctx, &supervisorv1.WatchApprovalsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := changes.Recv(); err != nil {
		t.Fatal(err)
	}
	turn := s.Prompt(session, "ask")
	q := turn.Question()
	if resp, err := s.Sessions.CancelPrompt(s.Ctx, &supervisorv1.CancelPromptRequest{SessionId: session}); err != nil || !resp.GetTurnActive() {
		t.Fatalf("cancelled: %v, %v", resp, err)
	}
	turn.Stopped("cancelled")
	if a := e2e.Ended(t, changes, q.GetId()); a.GetOutcome() != "cancelled" && a.GetOutcome() != "withdrawn" {
		t.Errorf("the question ended with %v", a)
	}
	if list, err := s.Approvals.ListApprovals(s.Ctx, &supervisorv1.ListApprovalsRequest{}); err != nil || len(list.GetApprovals()) > 0 {
		t.Errorf("after the turn there wait %v (%v)", list, err)
	}
	s.Finish()
}

func TestApprovals_TimeoutDenies(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, p.Config(t, "permission: {timeout_seconds: 1}\n"))
	session := s.Open(s.Start(p.Demo()).GetId()).GetSessionId()
	turn := s.Prompt(session, "ask")
	answered := turn.Until("the answer", func(e *supervisorv1.Event) bool { return e.GetQuestionAnswered() != nil }).GetQuestionAnswered()
	if answered.GetAnsweredBy() != "nobody" {
		t.Errorf("the question was answered by %v, want nobody as the answerer", answered)
	}
	turn.Stopped("end_turn")
	if strings.Contains(turn.Said(), "ok: allow") {
		t.Errorf("without an answerer the agent received %q", turn.Said())
	}
	s.Finish()
}

func TestApprovals_EditorAndProgramRace(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	sc := p.Fixture(t, nil)
	calls := p.Dial(t, sc.PID())
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout())
	defer cancel()
	changes, err := calls.Approvals.WatchApprovals(ctx, &supervisorv1.WatchApprovalsRequest{})
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

	// The program answers first: the editor is notified that it need not answer, and its later answer changes nothing.
	question := sc.Ask(e2e.Edit(p.Path("a")), e2e.Options)
	atEditor := sc.Expect("session/request_permission")
	q := asked()
	resp, err := calls.Approvals.AnswerApproval(ctx, &supervisorv1.AnswerApprovalRequest{Id: q.GetId(), Answer: &supervisorv1.AnswerApprovalRequest_OptionId{OptionId: "no"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := e2e.Chosen(t, question); got != "no" {
		t.Errorf("the agent received %q, want the program's answer", got)
	}
	var withdrawn struct{ RequestID any }
	sc.Expect("$/cancel_request").Decode(t, &withdrawn)
	if !e2e.EqualJSON(t, withdrawn.RequestID, atEditor.ID) {
		t.Errorf("the editor was notified that %v is over, want %s", withdrawn.RequestID, atEditor.ID)
	}
	sc.Reply(atEditor, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
	if a := e2e.Ended(t, changes, q.GetId()); a.GetAnsweredBy() != resp.GetAnswer().GetAnsweredBy() || a.GetOptionId() != "no" || a.GetAnsweredBy() == "front" {
		t.Errorf("watchers learnt %v, want %v", a, resp.GetAnswer())
	}

	// The editor is first.
	question = sc.Ask(e2e.Edit(p.Path("b")), e2e.Options)
	atEditor = sc.Expect("session/request_permission")
	q = asked()
	sc.Reply(atEditor, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
	if got := e2e.Chosen(t, question); got != "yes" {
		t.Errorf("the agent received %q, want what the editor sent", got)
	}
	if a := e2e.Ended(t, changes, q.GetId()); a.GetAnsweredBy() != "front" || a.GetOptionId() != "yes" {
		t.Errorf("watchers learnt %v, want that the editor sent yes", a)
	}
	_, err = calls.Approvals.AnswerApproval(ctx, &supervisorv1.AnswerApprovalRequest{Id: q.GetId(), Answer: &supervisorv1.AnswerApprovalRequest_OptionId{OptionId: "no"}})
	if status.Code(err) != codes.FailedPrecondition || answerOf(err).GetAnsweredBy() != "front" {
		t.Errorf("the program was refused with %v and %v, want FAILED_PRECONDITION and the editor's answer", err, answerOf(err))
	}

	// Both answer at once: whichever is first, the agent receives one answer.
	for range 20 {
		question = sc.Ask(e2e.Edit(p.Path("c")), e2e.Options)
		atEditor = sc.Expect("session/request_permission")
		q = asked()
		result := make(chan error, 1)
		go func() {
			_, err := calls.Approvals.AnswerApproval(ctx, &supervisorv1.AnswerApprovalRequest{Id: q.GetId(), Answer: &supervisorv1.AnswerApprovalRequest_OptionId{OptionId: "no"}})
			result <- err
		}()
		sc.Reply(atEditor, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
		got, a, err := e2e.Chosen(t, question), e2e.Ended(t, changes, q.GetId()), <-result
		if a.GetOptionId() != got || (err == nil) != (got == "no") || (a.GetAnsweredBy() == "front") != (got == "yes") {
			t.Errorf("the agent received %q, watchers learnt %v, and the program got %v", got, a, err)
		}
	}
	// The agent receives no second answer.
	for _, m := range sc.Agent.Waiting() {
		if m.Method == "" {
			t.Errorf("the agent got a second answer: %s", m.Raw)
		}
	}
	sc.Finish()
}

func TestApprovals_ReadOnlyWatcherDoesNotKeepQuestion(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, p.Config(t, "permission: {timeout_seconds: 1}\n"))
	session := s.Open(s.Start(p.Demo()).GetId()).GetSessionId()
	looking, leave := context.WithCancel(s.Ctx)
	changes, err := s.Approvals.WatchApprovals(looking, &supervisorv1.WatchApprovalsRequest{OnlyLook: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := changes.Recv(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	s.Prompt(session, "ask").Stopped("end_turn")
	if took := time.Since(begun); took > testkit.Timeout() {
		t.Errorf("the question waited %s", took)
	}
	leave()
	if _, err := changes.Recv(); err != nil && !errors.Is(err, context.Canceled) && status.Code(err) != codes.Canceled {
		// Earlier events may still arrive; an end of another kind is wrong.
		t.Errorf("the watching ended with %v", err)
	}
	s.Finish()
}
