package link

import (
	"github.com/acphost/acphost/services/supervisor/internal/acp"
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

// sessionCancelled ends the questions of a session whose turn the front cancels: those that are being decided here are
// answered here, those at the front by the front, or here if it does not.
func (l *Link) sessionCancelled(sessionID string) {
	for _, c := range l.agentCalls.All() {
		if c.sessionID != sessionID || c.method != acp.MethodRequestPermission {
			continue
		}
		if c.giveUp() {
			l.answerResult(c, acp.Cancelled())
			continue
		}
		c.after(cancelGrace, func() {
			if l.answerResult(c, acp.Cancelled()) {
				l.log.Debug("the front left a question of a cancelled turn open; it was answered as cancelled", "id", string(c.id))
			}
		})
	}
}
