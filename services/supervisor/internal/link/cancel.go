package link

import (
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// cancelRequest follows the agent's $/cancel_request to whoever has the request that it names. The request gets exactly
// one answer: a call that changes nothing is given up, any other runs on and answers what happened.
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
	if c.current() == atHandler && !c.safe {
		return nil // it runs on and answers what happened
	}
	if c.giveUp() {
		p.answerError(c, cancelled(c))
		return nil
	}
	if c.withdraw(m.Raw) {
		return nil
	}
	return p.out.add(m.Raw)
}

func cancelled(c *agentCall) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeCancelled, Message: c.method + ": cancelled"}
}

// sessionCancelled ends what a session waits for at the gate when the front cancels its turn. What is decided here, or
// asked by us, is answered here: questions of the agent's as cancelled, calls with an error. The agent's questions at the
// front are answered by the front, or here if it does not.
func (l *Link) sessionCancelled(sessionID string) {
	for _, c := range l.agentCalls.All() {
		switch {
		case c.sessionID != sessionID:
		case c.method != acp.MethodRequestPermission:
			if c.current() == atGate && c.giveUp() {
				l.answerError(c, cancelled(c))
			}
		case c.giveUp():
			l.answerResult(c, acp.Cancelled())
		default:
			c.hurry(cancelGrace, func() {
				if l.answerResult(c, acp.Cancelled()) {
					_ = l.settleQuestion(c.question, gate.Outcome{Cancelled: true, By: gate.ByNobody})
					l.log.Debug("the front left a question of a cancelled turn open; it was answered as cancelled", "id", string(c.id))
				}
			})
		}
	}
}
