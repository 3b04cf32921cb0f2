package link

import (
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
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
	var err error
	if c.withdraw(m.Raw) {
		p.seeMessage(frame.AgentToFront, "", m)
	} else {
		err = p.out.add(m.Raw)
	}
	if w := c.waiting; w != nil {
		p.whenReady(w, func() { p.withdrawn(c) })
	}
	return err
}

// withdrawn ends a question at the front that the agent has given up. What the front still answers counts for nothing.
func (l *Link) withdrawn(c *agentCall) {
	if !l.takeAway(c) {
		return
	}
	l.shownEnds(c, true)
	if q := c.question; q != nil {
		_ = l.settleQuestion(q, gate.Outcome{Cancelled: true, By: gate.ByNobody, Asked: time.Since(q.asked)})
	}
	l.ends(c.waiting, End{Outcome: Withdrawn, By: gate.ByNobody})
	l.postAgent(jsonrpc.AppendError(nil, c.id, cancelled(c)))
}

func cancelled(c *agentCall) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeCancelled, Message: c.method + ": cancelled"}
}

// sessionCancelled ends what a session waits for at the gate when the front cancels its turn. What is decided here, or
// asked by us, is answered here: questions of the agent's as cancelled, calls with an error. The agent's questions at the
// front are answered by the front, or here if it does not: at once where it is a program.
func (l *Link) sessionCancelled(sessionID string) {
	for _, c := range l.agentCalls.All() {
		if c.sessionID != sessionID {
			continue
		}
		permission := c.method == acp.MethodRequestPermission
		switch {
		case !permission && c.current() == atHandler:
		case c.giveUp():
			if permission {
				l.answerResult(c, acp.Cancelled())
			} else {
				l.answerError(c, cancelled(c))
			}
		case c.waiting == nil:
		case l.opts.Headless:
			c.hurry(0, func() { l.fillIn(c) })
		case permission:
			c.hurry(cancelGrace, func() { l.fillIn(c) })
		}
	}
}

// fillIn answers a question of a cancelled turn that the front left open. The front is not told: it was the one to cancel.
func (l *Link) fillIn(c *agentCall) {
	<-c.waiting.ready
	if !l.takeAway(c) {
		return
	}
	l.shownEnds(c, true)
	result := acp.Cancelled()
	if c.question == nil {
		result = cancelledElicitation()
	}
	_ = l.settleQuestion(c.question, gate.Outcome{Cancelled: true, By: gate.ByNobody})
	l.ends(c.waiting, End{Outcome: Cancelled, By: gate.ByNobody})
	l.postAgent(jsonrpc.AppendResult(nil, c.id, result))
	if !l.opts.Headless {
		l.log.Debug("the front left a question of a cancelled turn open; it was answered as cancelled", "id", string(c.id))
	}
}
