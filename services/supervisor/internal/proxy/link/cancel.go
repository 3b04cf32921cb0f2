package link

import (
	"slices"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/question"
)

// cancelRequest handles the agent's $/cancel_request in every state of the named request. The request gets exactly one answer: a question
// ends, a call that changes nothing is given up, and any other call continues and is answered with its result.
func (p *agentPump) cancelRequest(m *jsonrpc.Message) error {
	id := acp.ParseCancelRequest(m.Params)
	if id == nil {
		return p.out.add(m.Raw)
	}
	c, ok := p.agentCalls.Get(id)
	if !ok {
		p.log.Debug("the agent cancelled a request that is not open", "id", string(id))
		return nil
	}
	if q := c.asked(); q != nil && (q.Finish(question.Ending{Cause: question.AgentCancels, Line: slices.Clone(m.Raw)}) || !q.Own) {
		return nil
	}
	if c.state.Load() == atHandler && !c.safe {
		return nil // it continues and is answered with its result
	}
	if c.giveUp() {
		p.answerError(c, cancelled(c))
		return nil
	}
	if c.withdraw(m.Raw) {
		p.seeMessage(frame.AgentToClient, "", m)
		return nil
	}
	return p.out.add(m.Raw)
}

func cancelled(c *agentCall) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeCancelled, Message: c.method + ": cancelled"}
}

// sessionCancelled ends the questions of a session, and the calls that are being decided, when the client cancels the turn or the session
// is closed.
func (l *Link) sessionCancelled(sessionID string) {
	for _, c := range l.agentCalls.All() {
		if c.sessionID != sessionID {
			continue
		}
		if q := c.asked(); q != nil && (q.CancelTurn() || !q.Own) {
			continue
		}
		if c.state.Load() != atHandler && c.giveUp() {
			l.answerError(c, cancelled(c))
		}
	}
}
