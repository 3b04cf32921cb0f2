package attach

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	sdk "github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/gatewayd/internal/relay"
)

const (
	// maxTools bounds the remembered tool calls of a session's questions.
	maxTools = 4096
	// maxQuestions bounds the open questions of a client.
	maxQuestions = 256
	// maxRejections is how many answers to a question may be rejected until the client is not asked again.
	maxRejections = 8
	// answerTimeout is the timeout of sending an answer to the supervisor.
	answerTimeout = 30 * time.Second
	// retryDelay is the pause before questions are watched again after an error, while events are followed.
	retryDelay = time.Second
)

// question is a question that the client was asked.
type question struct {
	at         *attachment
	id         string // of the request
	approval   *supervisorv1.Approval
	rejections int  // number of rejected answers
	answering  bool // the client's answer is being sent to the supervisor; guarded by the agent's mu
}

// key returns its key in agent.asked.
func (q *question) key() string { return "s" + q.id }

func (q *question) elicitation() bool { return q.approval.GetElicitation() != nil }

// ask sends the session's waiting questions to the client, if it may answer.
func (at *attachment) ask() {
	if at.client.Role != controller || at.own {
		return
	}
	for first := true; at.ctx.Err() == nil; first = false {
		switch err := at.askFrom(first && at.history == historyNone); status.Code(err) {
		case codes.ResourceExhausted: // the client was too slow
		case codes.PermissionDenied: // the gateway's role limit is below the client's role
			at.agent.send(at.ctx, at.update(map[string]any{"type": "permission_refused", "reason": "you are not asked: " + errorText(at.ctx, err)}))
			return
		default:
			select {
			case <-time.After(retryDelay):
			case <-at.ctx.Done():
			}
		}
	}
}

// askFrom sends questions until their stream ends; onlyNew: without those that waited before.
func (at *attachment) askFrom(onlyNew bool) error {
	changes, err := at.approvals.WatchApprovals(at.ctx, &supervisorv1.WatchApprovalsRequest{SessionId: at.session})
	if err != nil {
		return err
	}
	waiting := map[string]bool{} // until all earlier questions are received
	for {
		m, err := changes.Recv()
		if err != nil {
			return err
		}
		switch of := m.GetChange().(type) {
		case *supervisorv1.WatchApprovalsResponse_Asked:
			if waiting != nil {
				waiting[of.Asked.GetId()] = true
			}
			if of.Asked.GetAgentId() == at.agentID && (!onlyNew || waiting == nil) {
				at.askQuestion(of.Asked)
			}
		case *supervisorv1.WatchApprovalsResponse_Answered:
			at.withdraw(func(id string) bool { return id == of.Answered.GetId() })
		case *supervisorv1.WatchApprovalsResponse_CaughtUp:
			at.withdraw(func(id string) bool { return !waiting[id] }) // answered while the stream was down
			waiting = nil
		}
	}
}

// askQuestion asks the client a question, unless it was asked already.
func (at *attachment) askQuestion(q *supervisorv1.Approval) {
	a := at.agent
	asked := at.question(q)
	at.asking.Lock()
	defer at.asking.Unlock()
	a.mu.Lock()
	skip := len(a.questions) >= maxQuestions || asked.elicitation() && !a.forms || q.GetRaw() == ""
	for _, o := range a.questions {
		skip = skip || o.at == at && o.approval.GetId() == q.GetId()
	}
	if !skip {
		a.questions[asked.key()] = asked
	}
	a.mu.Unlock()
	if !skip {
		a.send(at.ctx, asked.request())
	}
}

func (at *attachment) question(q *supervisorv1.Approval) *question {
	return &question{at: at, id: "attach-" + relay.NewID(), approval: q}
}

// request returns the request that asks the question.
func (q *question) request() []byte {
	method := "session/request_permission"
	if q.elicitation() {
		method = "elicitation/create"
	}
	return request(q.id, method, json.RawMessage(q.approval.GetRaw()))
}

// withdraw withdraws questions that were answered elsewhere.
func (at *attachment) withdraw(match func(approval string) bool) {
	at.asking.Lock()
	defer at.asking.Unlock()
	if gone := at.removeQuestions(match); len(gone) > 0 {
		at.agent.send(at.ctx, gone...)
	}
}

// removeQuestions drops questions, and returns the messages that withdraw the unanswered ones.
func (at *attachment) removeQuestions(match func(approval string) bool) (withdrawn [][]byte) {
	a := at.agent
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, q := range a.questions {
		if q.at != at || !match(q.approval.GetId()) {
			continue
		}
		delete(a.questions, key)
		if !q.answering {
			withdrawn = append(withdrawn, cancelled(q.id))
		}
	}
	return withdrawn
}

func cancelled(id string) []byte {
	return notification("$/cancel_request", map[string]string{"requestId": id})
}

// answer handles the client's answer. If another answer was faster, the events report that. A rejected answer does not
// end the question: the client is asked again, unless the next answer would be rejected too.
func (q *question) answer(frame []byte) {
	req, err := q.read(frame)
	ctx, cancel := withTimeout(q.at.ctx, answerTimeout)
	defer cancel()
	if req != nil {
		req.Id = q.approval.GetId()
		_, err = q.at.approvals.AnswerApproval(ctx, req)
	}
	if err == nil || errors.Is(err, errUnable) || status.Code(err) == codes.FailedPrecondition || q.at.ctx.Err() != nil {
		q.at.removeQuestions(func(id string) bool { return id == q.approval.GetId() })
		return
	}
	q.at.agent.hub.log.Info("an attached client's answer was refused", "session", q.at.session, "caller", q.at.agent.caller.ID, "error", err)
	q.reask(errorText(ctx, err), status.Code(err) == codes.PermissionDenied)
}

// reask reports a rejected answer to the client, and asks again if the question is open. final: it is not asked
// again.
func (q *question) reask(reason string, final bool) {
	at, a := q.at, q.at.agent
	again := at.question(q.approval)
	again.rejections = q.rejections + 1
	if !final && again.rejections >= maxRejections {
		final = true
		reason += fmt.Sprintf(": %d answers were refused, and you are not asked again unless you attach again", maxRejections)
	}
	rejections := map[string]any{"type": "permission_refused", "reason": reason}
	if id := toolCall(q.approval); id != "" {
		rejections["toolCallId"] = id
	}
	frames := [][]byte{at.update(rejections)}
	at.asking.Lock()
	defer at.asking.Unlock()
	a.mu.Lock()
	open := a.questions[q.key()] == q
	delete(a.questions, q.key())
	if open && !final {
		a.questions[again.key()] = again
		frames = append(frames, again.request())
	}
	a.mu.Unlock()
	a.send(at.ctx, frames...)
}

// errUnable means that the client cannot answer; others may.
var errUnable = errors.New("the client has answered with an error")

// read converts the client's response to an answer; the error states why that is impossible.
func (q *question) read(frame []byte) (*supervisorv1.AnswerApprovalRequest, error) {
	var m struct {
		Result json.RawMessage `json:"result"`
	}
	if json.Unmarshal(frame, &m) != nil || m.Result == nil {
		return nil, errUnable
	}
	var result struct {
		Outcome struct {
			Outcome  string `json:"outcome"`
			OptionID string `json:"optionId"`
		} `json:"outcome"`
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
	}
	_ = json.Unmarshal(m.Result, &result) // an invalid result is no answer
	switch o := result.Outcome; {
	case q.elicitation() && result.Action == "accept":
		content := string(result.Content)
		if content == "" || content == "null" {
			content = "{}"
		}
		return sdk.Accept(content), nil
	case q.elicitation() && result.Action == "decline":
		return sdk.Decline(), nil
	case q.elicitation() && result.Action == "cancel", !q.elicitation() && o.Outcome == "cancelled":
		return sdk.Undecided(), nil
	case q.elicitation():
		return nil, status.Error(codes.InvalidArgument, "the answer has no action accept, decline or cancel")
	case o.Outcome == "selected":
		return sdk.Choose(o.OptionID), nil
	}
	return nil, status.Error(codes.InvalidArgument, "the answer has no outcome selected or cancelled")
}

// noteTool records the tool call of a question.
func (at *attachment) noteTool(q *supervisorv1.Approval) {
	if id := toolCall(q); id != "" && len(at.tools) < maxTools {
		at.tools[sdk.Handle(q.GetId())] = id
	}
}

func toolCall(q *supervisorv1.Approval) string {
	if id := q.GetPermission().GetToolCallId(); id != "" {
		return id
	}
	return q.GetElicitation().GetToolCallId()
}

// resolved returns the messages for an answered question.
func (at *attachment) resolved(r *supervisorv1.ApprovalAnswer) [][]byte {
	handle := sdk.Handle(r.GetId())
	update := map[string]any{"type": "permission_resolved", "outcome": r.GetOutcome(), "resolvedBy": client{Name: r.GetAnsweredBy()}}
	if id := at.tools[handle]; id != "" {
		update["toolCallId"] = id
		delete(at.tools, handle)
	}
	if id := r.GetOptionId(); id != "" {
		update["chosenOptionId"] = id
	}
	return [][]byte{at.update(update)}
}
