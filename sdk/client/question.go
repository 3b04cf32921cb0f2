package client

import (
	"context"
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Choose answers a permission question with the id of an option, or with a kind (allow_once, allow_always, reject_once,
// reject_always) that the question offers exactly once.
func Choose(option string) *supervisorv1.AnswerApprovalRequest {
	return &supervisorv1.AnswerApprovalRequest{Answer: &supervisorv1.AnswerApprovalRequest_OptionId{OptionId: option}}
}

// Accept answers a form with its content, a JSON object, or a page that was opened with "{}".
func Accept(content string) *supervisorv1.AnswerApprovalRequest {
	return &supervisorv1.AnswerApprovalRequest{Answer: &supervisorv1.AnswerApprovalRequest_Accept{Accept: content}}
}

// Decline answers a form or page: the user refuses to provide the information.
func Decline() *supervisorv1.AnswerApprovalRequest {
	return &supervisorv1.AnswerApprovalRequest{Answer: &supervisorv1.AnswerApprovalRequest_Decline{Decline: true}}
}

// Undecided answers any question: the user does not decide.
func Undecided() *supervisorv1.AnswerApprovalRequest {
	return &supervisorv1.AnswerApprovalRequest{Answer: &supervisorv1.AnswerApprovalRequest_Cancel{Cancel: true}}
}

// Answer answers the question with an id from Approval or from events. by names the interface of the answer, a word
// that others see. The description of the displayed text in the answer is passed on. The first answer counts: if
// another answer was faster, the error is an *Error whose Answer is the result of the question.
func (c *Client) Answer(ctx context.Context, id, by string, answer *supervisorv1.AnswerApprovalRequest) (*supervisorv1.ApprovalAnswer, error) {
	r, err := c.Approvals.AnswerApproval(ctx, &supervisorv1.AnswerApprovalRequest{Id: id, AnsweredBy: by, Answer: answer.GetAnswer(), Surface: answer.GetSurface()})
	return r.GetAnswer(), err
}

// HowEnded describes the result of a question, and its cause, in words.
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

// The form of the random part of a question's id.
const (
	secretLength   = 26
	secretAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

// Handle returns the public part of a question's id, such as "claude-1/7", with which the question cannot be answered.
// The handle of a handle is the handle itself.
func Handle(id string) string {
	at := strings.LastIndexByte(id, '.')
	if at < 0 || len(id)-at-1 != secretLength || strings.Trim(id[at+1:], secretAlphabet) != "" {
		return id
	}
	return id[:at]
}
