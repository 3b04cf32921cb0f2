package client

import (
	"context"
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Choose answers a permission question: with the id of an option, or a kind (allow_once, allow_always, reject_once,
// reject_always) that the question offers once.
func Choose(option string) *supervisorv1.AnswerApprovalRequest {
	return &supervisorv1.AnswerApprovalRequest{Answer: &supervisorv1.AnswerApprovalRequest_OptionId{OptionId: option}}
}

// Accept answers what an agent wants to know: with a form's content, a JSON object; "{}" for a page that was opened.
func Accept(content string) *supervisorv1.AnswerApprovalRequest {
	return &supervisorv1.AnswerApprovalRequest{Answer: &supervisorv1.AnswerApprovalRequest_Accept{Accept: content}}
}

// Decline answers what an agent wants to know: the user does not want to say.
func Decline() *supervisorv1.AnswerApprovalRequest {
	return &supervisorv1.AnswerApprovalRequest{Answer: &supervisorv1.AnswerApprovalRequest_Decline{Decline: true}}
}

// Undecided answers any question: the user does not decide.
func Undecided() *supervisorv1.AnswerApprovalRequest {
	return &supervisorv1.AnswerApprovalRequest{Answer: &supervisorv1.AnswerApprovalRequest_Cancel{Cancel: true}}
}

// Answer answers the question with an id, which it has in Approval and in events. by says who answers, a word that others
// see. What the answer says of the surface that the person has read is passed on. Whoever answers first counts: if somebody was faster, the error is an *Error whose Answer says how the question
// ended.
func (c *Client) Answer(ctx context.Context, id, by string, answer *supervisorv1.AnswerApprovalRequest) (*supervisorv1.ApprovalAnswer, error) {
	r, err := c.Approvals.AnswerApproval(ctx, &supervisorv1.AnswerApprovalRequest{Id: id, AnsweredBy: by, Answer: answer.GetAnswer(), Surface: answer.GetSurface()})
	return r.GetAnswer(), err
}

// HowEnded says in words how a question ended, and who saw to that.
func HowEnded(a *supervisorv1.ApprovalAnswer) string {
	switch {
	case a.GetOutcome() == "withdrawn":
		return "the agent withdrew it, or is gone"
	case a.GetOutcome() == "expired":
		return "no user answered it in time"
	case a.GetAnsweredBy() == "nobody":
		return "it was " + a.GetOutcome()
	}
	return "it was " + a.GetOutcome() + " by " + a.GetAnsweredBy()
}

// The random part of a question's id.
const (
	secretLength   = 26
	secretAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

// Handle is the part of a question's id that everybody may know, "claude-1/7": nobody can answer by it. A handle is its own.
func Handle(id string) string {
	at := strings.LastIndexByte(id, '.')
	if at < 0 || len(id)-at-1 != secretLength || strings.Trim(id[at+1:], secretAlphabet) != "" {
		return id
	}
	return id[:at]
}
