package link

import (
	"slices"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/question"
)

// elicitAtClient forwards an elicitation to the client, in wire order and unchanged.
func (p *agentPump) elicitAtClient(c *agentCall, m *jsonrpc.Message) error {
	if p.reachesNobody() {
		p.seeMessage(frame.AgentToHandler, GateName, m)
	}
	line, params := slices.Clone(m.Raw), slices.Clone(m.Params)
	c.state.Store(atGate)
	return p.inOrder([]byte(c.sessionID), len(line)+len(params), func() error { return p.elicit(c, params, p.writeQuestion(line)) })
}

// writeQuestion returns a function that writes a question to the client unchanged (question.Question.Ask).
func (l *Link) writeQuestion(line ...[]byte) func(show func(see func()) bool) error {
	return func(show func(see func()) bool) error {
		if !show(func() { l.seeShown(line) }) {
			return question.ErrEnded
		}
		return l.toClient.Send(line...)
	}
}

// sessionOfRequest returns the session of the client's request that an elicitation belongs to; empty: it names no open request.
func (l *Link) sessionOfRequest(params []byte) string {
	id := acp.Get(params, "requestId")
	if len(id) == 0 || id[0] == '{' || id[0] == '[' {
		return ""
	}
	if c, ok := l.clientCalls.Get(id); ok {
		return c.sessionID
	}
	return ""
}

// reachesNobody reports whether an elicitation would reach nobody.
func (l *Link) reachesNobody() bool {
	return l.opts.Program && !l.elicits.Load() && l.opts.Attended != nil && !l.opts.Attended()
}

// elicit sends an elicitation to the user. write is the parameter of question.Question.Ask. An error means that the client is gone.
func (l *Link) elicit(c *agentCall, params []byte, write func(show func(see func()) bool) error) error {
	a := l.ask(c)
	a.Params, a.Patient = params, !l.opts.Program || l.elicits.Load()
	if !c.ask(a.Question) {
		l.shownEnds(c, true)
		return nil
	}
	if l.reachesNobody() {
		a.Finish(question.Ending{Cause: question.Unheard})
		return nil
	}
	err := a.Ask(write)
	if err != nil {
		l.end(ClientGone, err)
	}
	return err
}
