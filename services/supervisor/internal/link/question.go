package link

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/display"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/session"
)

// question is a session/request_permission that the gate has to do with.
type question struct {
	request  acp.PermissionRequest
	decision *gate.Decision
	asked    time.Time
	subject  session.Subject // of its tool call, as it was judged

	sessionID, scope string
}

// question takes a permission question of the agent's (door one). It is put together here, in wire order, with what is
// known of its tool call, and decided by a worker; meanwhile the agent is read on.
func (p *agentPump) question(ctx context.Context, c *agentCall, m *jsonrpc.Message) error {
	if err := jsonrpc.DuplicateNames(m.Params, "sessionId", "toolCall", "options", "_meta"); err != nil {
		p.counters.refused.Add(1)
		p.answerError(c, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: c.method + ": " + message(err)})
		return nil
	}
	line := slices.Clone(m.Raw)
	params := slices.Clone(m.Params)
	req, err := acp.ParsePermissionRequest(params)
	if err != nil {
		p.answerError(c, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("%s: %v", c.method, err)})
		return nil
	}
	tc := p.opts.Book.ToolCall(c.sessionID, req.ToolCall)
	if tc.Ambiguous != "" {
		p.counters.refused.Add(1)
		p.answerError(c, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: c.method + ": " + tc.Ambiguous})
		return nil
	}
	if err := p.out.flush(); err != nil { // the worker must not overtake what came before
		return err
	}
	p.seeMessage(frame.AgentToHandler, GateName, m)
	subject := p.opts.Book.Subject(c.sessionID, tc)
	c.state.Store(atGate)
	ok := p.queue.add(job{call: c, weight: int64(len(line) + len(params)), waits: true, run: func(ctx context.Context) {
		p.decide(ctx, c, req, tc, subject, line, params)
	}})
	if !ok {
		p.answerError(c, overloaded(c))
	}
	return nil
}

// decide asks the gate about a question and answers it, or sends it on to the front as it came.
func (l *Link) decide(ctx context.Context, c *agentCall, req acp.PermissionRequest, tc acp.ToolCall, subject session.Subject, line, params []byte) {
	ctx, cancel, ok := c.begin(ctx, 0)
	defer cancel()
	if !ok {
		return
	}
	cc, err := l.opts.Book.Context(c.sessionID)
	if err != nil {
		cc = nil // an unknown session has no roots
	}
	action := intent.Question(l.scene(ctx, c.sessionID, cc), tc)
	about := l.decisionRequest(c.sessionID, action)
	d, err := l.opts.Gate.Decide(ctx, about)
	if err != nil {
		return // cancelled: whoever did it has answered
	}
	settle := func(o gate.Outcome) error { return l.conclude(c.sessionID, about.Scope, d, o) }
	if d.Verdict == gate.Allow {
		// Never allow_always: what a policy allows now, it may deny later.
		if id, ok := req.Option(acp.AllowOnce); ok {
			if err := settle(gate.Outcome{Allowed: true}); err != nil {
				l.reject(c, req, whyUnrecorded)
				return
			}
			l.answerResult(c, acp.Selected(id))
			return
		}
		d.Verdict, d.Grantable, d.Reason = gate.Ask, false, "the agent offers no way to allow it once"
	}
	if d.Verdict == gate.Deny {
		_ = settle(gate.Outcome{})
		l.reject(c, req, d.Denial())
		return
	}
	q := &question{request: req, decision: d, asked: time.Now(), subject: subject, sessionID: c.sessionID, scope: about.Scope}
	l.ask(c, q, tc, line, params)
}

// reject tells the person why a question is answered with no, and answers it (see refuse).
func (l *Link) reject(c *agentCall, req acp.PermissionRequest, why string) {
	l.tell(c.sessionID, deniedTitle, why)
	if id, ok := req.Option(acp.RejectOnce, acp.RejectAlways); ok {
		l.answerResult(c, acp.Selected(id))
	} else {
		l.answerError(c, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: c.method + ": " + forAgents("denied: "+why)})
	}
}

// ask sends a question on to the front: the very bytes that came, unless it shows a terminal that the front must be
// told of first.
func (l *Link) ask(c *agentCall, q *question, tc acp.ToolCall, line, params []byte) {
	w := newWaiting(&Question{
		ID: c.id, Method: c.method, SessionID: c.sessionID, Params: params,
		ToolCall: &tc, Options: q.request.Options, Reason: reasonOf(q.decision), Asked: q.asked,
	})
	w.q.Expires = l.beginVigil(&vigil{}, q.asked)
	if !l.enters(w) {
		_ = l.settleQuestion(q, gate.Outcome{Cancelled: true, By: gate.ByAcphost})
		l.answerError(c, tooManyQuestions(c))
		return
	}
	send := func(bufs ...[]byte) error {
		l.begins(w, func() { l.seeShown(bufs) })
		l.look(c)
		return l.toFront.Send(bufs...)
	}
	sent, err := c.send(q, w, func() error {
		if l.display != nil && display.Mentions(q.request.ToolCall) {
			return l.display.Forward(c.sessionID, line, tc, send, "params", "toolCall")
		}
		return send(line)
	}, l.toFront.Send)
	switch {
	case err != nil:
		if l.take(c) { // else it was settled by whoever took it
			_ = l.settleQuestion(q, gate.Outcome{Cancelled: true, By: gate.ByNobody})
			l.ends(w, End{Outcome: Withdrawn, By: gate.ByNobody})
		}
		l.end(FrontGone, err)
	case !sent:
		_ = l.settleQuestion(q, gate.Outcome{Cancelled: true, By: gate.ByNobody})
		l.ends(w, End{Outcome: Withdrawn, By: gate.ByNobody})
	}
}

// unattended answers a question that nobody was there to answer as the policy wants it.
func (l *Link) unattended(c *agentCall) {
	if !l.takeAway(c) {
		return
	}
	l.retract(c)
	q := c.question
	option := []string{acp.RejectOnce, acp.RejectAlways}
	o := gate.Outcome{By: gate.ByTimeout, Asked: time.Since(q.asked)}
	if q.decision.Unattended == gate.Allow {
		option, o.Allowed = []string{acp.AllowOnce}, true
	}
	if err := l.settleQuestion(q, o); err != nil {
		option = []string{acp.RejectOnce, acp.RejectAlways}
	}
	id, ok := q.request.Option(option...)
	l.ends(c.waiting, End{Outcome: Expired, Option: id, By: gate.ByNobody})
	if ok {
		l.postAgentBy(gate.ByNobody, jsonrpc.AppendResult(nil, c.id, acp.Selected(id)))
	} else {
		l.postAgentBy(gate.ByNobody, jsonrpc.AppendError(nil, c.id, &jsonrpc.Error{Code: jsonrpc.CodeInternal,
			Message: fmt.Sprintf("%s: denied: %s", c.method, l.nobodySaid())}))
	}
}

// chose records what somebody chose, before the agent is told; id is empty for nothing. False: what was allowed must be
// denied all the same.
func (l *Link) chose(c *agentCall, id, by string) bool {
	q := c.question
	option := q.kindOf(id)
	l.spawn(func() { l.opts.Gate.Answered(context.Background(), q.decision, option, by) })
	o := gate.Outcome{By: by, Asked: time.Since(q.asked), Doubtful: !l.asShown(c, q)}
	switch option {
	case acp.AllowOnce, acp.AllowAlways:
		o.Allowed, o.Option = true, option
	case acp.RejectOnce, acp.RejectAlways:
		o.Option = option
	default:
		o.Cancelled = true
	}
	return l.settleQuestion(q, o) == nil
}

// kindOf is the kind of the option with an id. Where the agent gives one id to several, nobody knows which was meant: the
// one that refuses counts.
func (q *question) kindOf(id string) string {
	kind := "cancelled"
	if id == "" {
		return kind
	}
	for _, o := range q.request.Options {
		if o.ID == id && (kind == "cancelled" || kind == acp.AllowOnce || kind == acp.AllowAlways) {
			kind = o.Kind
		}
	}
	return kind
}

// asShown tells whether the tool call still is what it was when its question was asked. An agent can change it while a
// person reads, and what the person then says yes to may not be what was judged.
func (l *Link) asShown(c *agentCall, q *question) bool {
	return l.opts.Book.Stands(c.sessionID, q.subject, q.asked)
}

// settleQuestion records how a question ended that was the front's to answer.
func (l *Link) settleQuestion(q *question, o gate.Outcome) error {
	if q == nil {
		return nil
	}
	return l.conclude(q.sessionID, q.scope, q.decision, o)
}

// conclude records what came of a decision. An answer can come after its session has ended: the gate must not remember it
// for a scope that nobody will ever end again.
func (l *Link) conclude(sessionID, scope string, d *gate.Decision, o gate.Outcome) error {
	err := l.opts.Gate.Settle(d, o)
	if scope != "" && !o.Cancelled {
		if now, _ := l.opts.Book.Turn(sessionID); now != scope {
			l.opts.Gate.EndSession(scope)
		}
	}
	return err
}

// rejectUnrecorded answers a question that a person allowed, and that could not be recorded. The call was taken already.
func (l *Link) rejectUnrecorded(c *agentCall) End {
	id, ok := c.question.request.Option(acp.RejectOnce, acp.RejectAlways)
	e := End{Outcome: Denied, Option: id, By: gate.ByPolicy}
	l.ends(c.waiting, e)
	l.tell(c.sessionID, deniedTitle, whyUnrecorded)
	if ok {
		l.postAgent(jsonrpc.AppendResult(nil, c.id, acp.Selected(id)))
	} else {
		l.postAgent(jsonrpc.AppendError(nil, c.id, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: c.method + ": denied: " + whyUnrecorded}))
	}
	return e
}
