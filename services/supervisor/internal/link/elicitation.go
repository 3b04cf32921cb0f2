package link

import (
	"slices"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// elicitAtFront sends an elicitation on to the front, in wire order and as the very bytes that came.
func (p *agentPump) elicitAtFront(c *agentCall, m *jsonrpc.Message) error {
	if p.unheard() {
		p.seeMessage(frame.AgentToHandler, GateName, m)
	}
	return p.elicit(c, slices.Clone(m.Params), func(begins func(show func())) error {
		if err := p.out.flush(); err != nil { // so that add does not wait for the front
			return err
		}
		var err error
		begins(func() { err = p.out.add(m.Raw) })
		if err != nil {
			return err
		}
		return p.out.flush() // whoever ends it must not overtake it
	})
}

// askedIn is the session of the front's request that an elicitation belongs to; empty: it names none that is open.
func (l *Link) askedIn(params []byte) string {
	id := acp.Get(params, "requestId")
	if len(id) == 0 || id[0] == '{' || id[0] == '[' {
		return ""
	}
	if c, ok := l.frontCalls.Get(id); ok {
		return c.sessionID
	}
	return ""
}

// unheard: what the agent wants to know reaches nobody.
func (l *Link) unheard() bool { return l.opts.Headless && !l.elicits.Load() && !l.attended() }

// elicit has a person asked what the agent wants to know. send sends the request on: what has observers see it goes through
// the function that it is given, before it is written. An error means that the front is gone.
func (l *Link) elicit(c *agentCall, params []byte, send func(begins func(show func())) error) error {
	if l.unheard() {
		l.shownEnds(c, true)
		if l.take(c) {
			l.postAgentBy(gate.ByNobody, jsonrpc.AppendResult(nil, c.id, cancelledElicitation()))
		}
		return nil
	}
	w := newWaiting(&Question{ID: c.id, Method: c.method, SessionID: c.sessionID, Params: params, Asked: time.Now()})
	if !l.enters(w) {
		l.shownEnds(c, true)
		l.answerError(c, tooManyQuestions(c))
		return nil
	}
	sent, err := c.send(nil, w, func() error { return send(func(show func()) { l.begins(w, show); l.look(c) }) }, l.toFront.Send)
	switch {
	case err != nil:
		if l.take(c) {
			l.ends(w, End{Outcome: Withdrawn, By: gate.ByNobody})
		}
		l.shownEnds(c, true)
		l.end(FrontGone, err)
	case !sent:
		l.shownEnds(c, true)
		l.ends(w, End{Outcome: Withdrawn, By: gate.ByNobody})
	}
	return err
}

// unanswered ends an elicitation that nobody was there to answer.
func (l *Link) unanswered(c *agentCall) {
	if !l.takeAway(c) {
		return
	}
	l.shownEnds(c, true)
	l.retract(c)
	l.ends(c.waiting, End{Outcome: Expired, By: gate.ByNobody})
	l.postAgentBy(gate.ByNobody, jsonrpc.AppendResult(nil, c.id, cancelledElicitation()))
}
