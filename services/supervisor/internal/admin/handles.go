package admin

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/certs"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
)

// mayAnswer reports whether a caller may answer questions. Other callers get a question's handle instead of its id: the
// handle identifies the question but cannot answer it.
func mayAnswer(ctx context.Context) bool { return identityOf(ctx).may(certs.Approver) == nil }

// withoutID returns a copy of a question with its handle in place of its id. The original is shared with other callers.
func withoutID(a *supervisorv1.Approval) *supervisorv1.Approval {
	a = proto.CloneOf(a)
	a.Id = event.Handle(a.GetId())
	return a
}

func changeWithoutID(change *supervisorv1.WatchApprovalsResponse) *supervisorv1.WatchApprovalsResponse {
	switch c := change.GetChange().(type) {
	case *supervisorv1.WatchApprovalsResponse_Asked:
		return &supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_Asked{Asked: withoutID(c.Asked)}}
	case *supervisorv1.WatchApprovalsResponse_Answered:
		answer := proto.CloneOf(c.Answered)
		answer.Id = event.Handle(answer.GetId())
		return &supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_Answered{Answered: answer}}
	}
	return change
}

// withIDs returns a function that replaces the handle in an event by the id of the question, if the caller may answer
// and the question is known. Events contain handles, since all callers get them, also from the record. approvals may be
// nil.
func withIDs(ctx context.Context, approvals Approvals) func(*supervisorv1.Event) *supervisorv1.Event {
	if approvals == nil || !mayAnswer(ctx) {
		return func(e *supervisorv1.Event) *supervisorv1.Event { return e }
	}
	return func(e *supervisorv1.Event) *supervisorv1.Event {
		asked, answered := e.GetQuestionAsked(), e.GetQuestionAnswered()
		id := ""
		switch {
		case asked != nil:
			id = approvals.ID(asked.GetId())
		case answered != nil:
			id = approvals.ID(answered.GetId())
		}
		if id == "" {
			return e
		}
		e = proto.CloneOf(e)
		if asked != nil {
			e.GetQuestionAsked().Id = id
		} else {
			e.GetQuestionAnswered().Id = id
		}
		return e
	}
}

// stepWithID returns a login step with the question's id in place of its handle: a caller that logs an agent in may
// answer. approvals may be nil.
func stepWithID(step *supervisorv1.AuthenticateResponse, approvals Approvals) *supervisorv1.AuthenticateResponse {
	if approvals == nil || step.GetQuestion() == nil {
		return step
	}
	id := approvals.ID(step.GetQuestion().GetId())
	if id == "" {
		return step
	}
	step = proto.CloneOf(step)
	step.GetQuestion().Id = id
	return step
}
