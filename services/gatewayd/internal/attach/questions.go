package attach

import (
	"encoding/json"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	sdk "github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/gatewayd/internal/relay"
)

const (
	// maxTools bounds the questions of a session whose tool calls are known.
	maxTools = 4096
	// maxAsked is how many questions a client may leave open: it is not asked more.
	maxAsked = 256
	// answerTimeout is how long an answer may take to arrive.
	answerTimeout = 30 * time.Second
	// askAgain is how long is waited before questions are watched again, if that fails while events are followed.
	askAgain = time.Second
)

// question is one that the client was asked.
type question struct {
	at          *attachment
	id          string // of the request
	approval    string
	elicitation bool
}

// ask asks the client the questions that wait in the session, if it may answer.
func (at *attachment) ask() {
	if at.client.Role != controller || at.own {
		return
	}
	for first := true; at.ctx.Err() == nil; first = false {
		if err := at.askFrom(first && at.history == historyNone); status.Code(err) != codes.ResourceExhausted {
			select {
			case <-time.After(askAgain):
			case <-at.ctx.Done():
			}
		}
	}
}

// askFrom asks until the stream of questions ends; onlyNew: not those that waited before.
func (at *attachment) askFrom(onlyNew bool) error {
	changes, err := at.approvals.WatchApprovals(at.ctx, &supervisorv1.WatchApprovalsRequest{SessionId: at.session})
	if err != nil {
		return err
	}
	waiting := map[string]bool{} // until all that waited before are told
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
				at.put(of.Asked)
			}
		case *supervisorv1.WatchApprovalsResponse_Answered:
			at.takeBack(func(id string) bool { return id == of.Answered.GetId() })
		case *supervisorv1.WatchApprovalsResponse_CaughtUp:
			at.takeBack(func(id string) bool { return !waiting[id] }) // they were answered while nobody watched
			waiting = nil
		}
	}
}

// put asks the client a question, unless it has been.
func (at *attachment) put(q *supervisorv1.Approval) {
	a := at.agent
	asked := &question{at: at, id: "attach-" + relay.NewID(), approval: q.GetId(), elicitation: q.GetElicitation() != nil}
	a.mu.Lock()
	skip := len(a.asked) >= maxAsked || asked.elicitation && !a.forms || q.GetRaw() == ""
	for _, o := range a.asked {
		skip = skip || o.at == at && o.approval == asked.approval
	}
	if !skip {
		a.asked[(`s` + asked.id)] = asked
	}
	a.mu.Unlock()
	if skip {
		return
	}
	method := "session/request_permission"
	if asked.elicitation {
		method = "elicitation/create"
	}
	a.say(at.ctx, request(asked.id, method, json.RawMessage(q.GetRaw())))
}

// takeBack withdraws questions that somebody else has answered.
func (at *attachment) takeBack(which func(approval string) bool) {
	a := at.agent
	var gone [][]byte
	a.mu.Lock()
	for key, q := range a.asked {
		if q.at == at && which(q.approval) {
			delete(a.asked, key)
			gone = append(gone, cancelled(q.id))
		}
	}
	a.mu.Unlock()
	if len(gone) > 0 {
		a.say(at.ctx, gone...)
	}
}

func cancelled(id string) []byte {
	return notification("$/cancel_request", map[string]string{"requestId": id})
}

// answer takes the client's answer. If somebody else was faster, the events say so.
func (q *question) answer(frame []byte) {
	req := q.read(frame)
	if req == nil { // the client cannot answer: others may
		return
	}
	req.Id = q.approval
	ctx, cancel := withTimeout(q.at.ctx, answerTimeout)
	defer cancel()
	_, err := q.at.approvals.AnswerApproval(ctx, req)
	if err == nil || status.Code(err) == codes.FailedPrecondition || errors.Is(q.at.ctx.Err(), err) {
		return
	}
	q.at.agent.hub.log.Info("an attached client's answer was refused", "session", q.at.session, "caller", q.at.agent.who.ID, "error", err)
	q.at.agent.say(q.at.ctx, q.at.update(map[string]any{"type": "permission_refused", "reason": problem(ctx, err)}))
}

// read makes an answer of the client's response; nil: it is none.
func (q *question) read(frame []byte) *supervisorv1.AnswerApprovalRequest {
	var m struct {
		Result *struct {
			Outcome struct {
				Outcome  string `json:"outcome"`
				OptionID string `json:"optionId"`
			} `json:"outcome"`
			Action  string          `json:"action"`
			Content json.RawMessage `json:"content"`
		} `json:"result"`
	}
	if json.Unmarshal(frame, &m) != nil || m.Result == nil {
		return nil
	}
	switch o := m.Result.Outcome; {
	case q.elicitation && m.Result.Action == "accept":
		content := string(m.Result.Content)
		if content == "" || content == "null" {
			content = "{}"
		}
		return sdk.Accept(content)
	case q.elicitation && m.Result.Action == "decline":
		return sdk.Decline()
	case q.elicitation && m.Result.Action == "cancel", !q.elicitation && o.Outcome == "cancelled":
		return sdk.Undecided()
	case !q.elicitation && o.Outcome == "selected":
		return sdk.Choose(o.OptionID)
	}
	return nil
}

// noteTool remembers which tool call a question is about.
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

// resolved says that a question has an answer, whoever gave it.
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
