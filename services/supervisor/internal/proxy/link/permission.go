package link

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/acphost/acphost/internal/reason"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/display"
	"github.com/acphost/acphost/services/supervisor/internal/question"
)

// permissionRequest handles a permission request of the agent. It completes the request in wire order with the known tool call, and a
// worker decides about it. Meanwhile the agent is read, and its messages about the session are held.
func (p *agentPump) permissionRequest(a *agentQuestion, m *jsonrpc.Message) error {
	c := a.call
	if err := jsonrpc.DuplicateNames(m.Params, "sessionId", "toolCall", "subject", "options", "_meta",
		"toolCallId", "kind", "content", "locations", "rawInput", "input"); err != nil {
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
	tc := p.opts.Sessions.ToolCall(c.sessionID, req.ToolCall)
	if why := cmp.Or(req.Ambiguous, tc.Ambiguous); why != "" {
		p.counters.refused.Add(1)
		p.answerError(c, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: c.method + ": " + why})
		return nil
	}
	if err := p.out.flush(); err != nil { // the request must not overtake earlier messages
		return err
	}
	p.callChanged(c.sessionID, tc) // another request may be open for the same call
	p.seeMessage(frame.AgentToHandler, GateName, m)
	a.Params, a.ToolCall, a.Options, a.Flat, a.told = params, &tc, req.Options, req.Flat, tc
	a.subject = p.opts.Sessions.Subject(c.sessionID, tc)
	p.asking = append(p.openRequests(), a)
	c.state.Store(atGate)
	at := p.order.enter(c.sessionID)
	ok := p.queue.add(job{call: c, weight: int64(len(line) + len(params)), waits: true, run: func(ctx context.Context) {
		defer func() {
			if err := p.order.leave(c.sessionID, at); err != nil {
				p.end(ClientGone, err)
			}
		}()
		p.decide(ctx, a, req, line, at)
	}})
	if !ok {
		p.answerError(c, overloaded(c))
		return p.order.leave(c.sessionID, at)
	}
	return nil
}

// decide asks the gate about a permission request, and answers it or forwards it to the client unchanged. If it shows a terminal, the
// client is notified of the terminal first.
func (l *Link) decide(ctx context.Context, a *agentQuestion, req acp.PermissionRequest, line []byte, at *place) {
	c := a.call
	ctx, cancel, ok := c.begin(ctx)
	defer cancel()
	if !ok {
		return
	}
	ctx = c.span.Continue(ctx)
	cc, err := l.opts.Sessions.Context(c.sessionID)
	if err != nil {
		cc = nil // an unknown session has no roots
	}
	against := l.judging(ctx, c.sessionID, cc, nil)
	a.judged = a.complete(ctx, against)
	action := intent.Question(against, a.judged)
	l.lookFrom(l.opts.AgentEnviron, action)
	about := l.decisionRequest(c.sessionID, action, nil)
	d, err := l.gateDecides(ctx, c, about)
	if err != nil {
		return // cancelled: the goroutine that cancelled it has answered
	}
	if d.Verdict != gate.Deny {
		d.Shown.Edits = l.shown(ctx, cc, against, action, *a.ToolCall)
		d.Shown.Command = action.GetCommand() != nil && intent.ShowsCommand(action, *a.ToolCall)
		d.Shown.Files = intent.ShownFiles(action, *a.ToolCall)
	}
	a.scope = about.Scope
	if d.Verdict == gate.Allow && c.sessionID == "" {
		d.Verdict, d.Grantable, d.Reason = gate.Ask, false, reason.NoSessionNamed.String()
	}
	if d.Verdict == gate.Allow {
		// Never allow_always: the policy may deny later what it allows now.
		id, ok := req.Option(acp.AllowOnce)
		if ok && a.Decided(d) {
			a.Finish(question.Ending{Cause: question.PolicyAllows, Option: id})
		}
		if ok {
			return
		}
		d.Verdict, d.Grantable, d.Reason = gate.Ask, false, reason.NoOptionToAllow.String()
	}
	if !a.Decided(d) {
		return
	}
	if d.Verdict == gate.Deny {
		a.Finish(question.Ending{Cause: question.PolicyDenies})
		return
	}
	if l.opts.Sessions.GivenUp(c.sessionID) { // the agent has not read the cancellation of its turn yet
		a.CancelTurn()
		return
	}
	if l.leftToCall(a, req, d, action) {
		return
	}
	a.Reason, a.Detail = reasonOf(d), d.Detail
	if d.Active() { // the answer may allow later calls
		line = a.nameOptions(line)
	}
	select {
	case <-at.turn:
	case <-ctx.Done(): // the question or the link has ended, and nobody would wait for the answer
		a.Finish(question.Ending{Cause: question.LinkOver})
		return
	}
	err = a.Ask(func(show func(see func()) bool) error {
		send := func(bufs ...[]byte) error { return l.writeQuestion(bufs...)(show) }
		if l.display != nil && req.At != nil && display.Mentions(req.ToolCall) {
			return l.display.Forward(c.sessionID, line, *a.ToolCall, send, append([]string{"params"}, req.At...)...)
		}
		return send(line)
	})
	if err != nil {
		l.end(ClientGone, err)
	}
}

// conclude records the outcome of a decision. If the session ended before the answer, the gate must not remember the answer, because
// nothing would end that scope again.
func (l *Link) conclude(sessionID, scope string, d *gate.Decision, o gate.Outcome) error {
	err := l.opts.Gate.Record(d, o)
	if scope != "" && !o.Cancelled {
		if now, _ := l.opts.Sessions.Turn(sessionID); now != scope {
			l.opts.Gate.EndSession(scope)
		}
	}
	return err
}

// reasonOf returns the reason why a person is asked; empty: no policy asks.
func reasonOf(d *gate.Decision) string {
	if d.By != gate.ByPolicy && d.Rule == "" {
		return ""
	}
	return d.Why()
}
