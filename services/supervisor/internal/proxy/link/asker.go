package link

import (
	"context"
	"slices"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/acp/session"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"github.com/acphost/acphost/services/supervisor/internal/question"
)

// agentQuestion is a question of the agent: a permission request or an elicitation. It implements question.Asker.
type agentQuestion struct {
	*Link
	*question.Question
	call *agentCall

	// For a permission request:
	scope   string          // of its session, when it was decided
	subject session.Subject // of its tool call, when it was judged
	told    acp.ToolCall    // its tool call, completed by the latest report; used only by the pump
	judged  acp.ToolCall    // its tool call when it was judged; set before the question is asked
	later   chan []byte     // input from the latest report of the tool call since the request
}

// ask creates the question of an agent's call. The caller sets the fields that depend on the kind of question.
func (l *Link) ask(c *agentCall) *agentQuestion {
	a := &agentQuestion{Link: l, call: c, later: make(chan []byte, 1)}
	a.Question = l.questions.Add(&question.Question{ID: c.id, Method: c.method, SessionID: c.sessionID, Span: c.span}, a)
	return a
}

// Record implements question.Asker. If the agent changed the tool call while the person read the question, the person may have allowed
// another action than the judged one. The outcome is then doubtful.
func (a *agentQuestion) Record(d *gate.Decision, o gate.Outcome, answered bool) error {
	if answered {
		a.notifyPolicy(d, o)
		now, stands := a.opts.Sessions.Stands(a.SessionID, a.subject, a.Asked)
		o.Doubtful = !stands && !a.reading(a.SessionID).Repeats(a.judged, now)
	}
	return a.conclude(a.SessionID, a.scope, d, o)
}

// callChanged ends the questions about a tool call that contradict its latest report.
func (p *agentPump) callChanged(sessionID string, now acp.ToolCall) {
	for _, a := range p.openRequests() {
		if now.ID == "" || a.SessionID != sessionID || a.ToolCall.ID != now.ID {
			continue
		}
		s := p.reading(sessionID)
		if s.Contradicts(a.told, now) {
			a.Finish(question.Ending{Cause: question.CallChanged})
			continue
		}
		if s.Awaits(a.told) {
			a.told.Reported = now.Reported
		}
		select { // only the pump sends to the channel
		case <-a.later:
		default:
		}
		a.later <- now.Reported
	}
}

// reading returns the settings for reading the agent's descriptions, without access to the disk.
func (l *Link) reading(sessionID string) intent.Session {
	cc, _ := l.opts.Sessions.Context(sessionID)
	return intent.Session{Dialect: l.Reported().Name, Version: l.Reported().Version, Configured: l.opts.Dialect, Roots: rootPaths(cc)}
}

// complete returns the tool call of a permission request, with the input from a report if the request omits it and the report follows soon.
// The agent is read meanwhile.
func (a *agentQuestion) complete(ctx context.Context, s intent.Session) acp.ToolCall {
	tc := *a.ToolCall
	late := time.NewTimer(a.opts.ReportSoon)
	defer late.Stop()
	for s.Awaits(tc) {
		select {
		case tc.Reported = <-a.later:
		case <-late.C:
			return tc
		case <-ctx.Done():
			return tc
		}
	}
	return tc
}

// openRequests drops the permission requests that have ended, and returns the others.
func (p *agentPump) openRequests() []*agentQuestion {
	p.asking = slices.DeleteFunc(p.asking, func(a *agentQuestion) bool { return a.State() == question.Ended })
	return p.asking
}

// notifyPolicy notifies the policy of a person's answer.
func (l *Link) notifyPolicy(d *gate.Decision, o gate.Outcome) {
	option := o.Option
	switch {
	case o.Unclear:
		option = acp.RejectOnce
	case option == "":
		option = "cancelled"
	}
	l.spawn(func() { l.opts.Gate.Answered(context.Background(), d, option, o.By) })
}

// Withdraw implements question.Asker.
func (a *agentQuestion) Withdraw(r question.Reply, write func(line []byte)) {
	a.shownEnds(a.call, r.Failed)
	direction, line := frame.AgentToClient, r.Ending.Line
	if line == nil {
		direction, line = frame.OursToClient, cancelLine(a.ID)
	}
	a.see(direction, "", line)
	write(line)
}

// Reply implements question.Asker. The person is notified of a denial before the agent, because the agent may then end the turn, and a
// caller that waits only for the turn sees nothing after its end.
func (a *agentQuestion) Reply(r question.Reply) {
	a.shownEnds(a.call, r.Failed)
	a.call.giveUp()
	if r.Notice {
		a.tellAbout(r.Decision.DenialKey(), a.SessionID, deniedTitle, r.Decision.What()+": "+r.Denial)
	}
	if !a.claim(a.call) {
		return // the call was refused before it was decided
	}
	by := ""
	switch r.Ending.Cause {
	case question.SomebodyAnswers:
		by = r.Ending.By
	case question.TimedOut, question.Unheard:
		by = gate.ByNobody
	case question.CallChanged:
		by = gate.ByAcphost
	}
	if r.Error == nil && r.Ending.Cause == question.ClientAnswers && r.Ending.Why != "" {
		a.call.span.End(failedError) // the client's own error is forwarded
	}
	a.call.ends(r.Error)
	switch {
	case r.Error != nil:
		if r.Denial != "" {
			r.Error = deniedError(a.call, r.Decision, r.Denial)
		} else {
			r.Error.Message = a.Method + ": " + r.Error.Message
		}
		a.postAgentBy(by, jsonrpc.AppendError(nil, a.ID, r.Error))
	case r.Result != nil:
		a.postAgentBy(by, jsonrpc.AppendResult(nil, a.ID, r.Result))
	}
}

// callQuestion is acphost's own question about a call of the agent. It implements question.Asker. The goroutine that processes the call
// waits for the question's end, and then uses reply.
type callQuestion struct {
	*Link
	*question.Question
	held  *heldCall
	reply question.Reply
}

// Record implements question.Asker.
func (q *callQuestion) Record(d *gate.Decision, o gate.Outcome, answered bool) error {
	if answered {
		q.notifyPolicy(d, o)
	}
	return q.recordCall(q.held, d, o)
}

// Withdraw implements question.Asker. Observers see an answer of another caller like an answer of the client.
func (q *callQuestion) Withdraw(r question.Reply, write func(line []byte)) {
	switch r.Ending.Cause {
	case question.SomebodyAnswers:
		q.see(frame.ClientToOurs, r.End.By, jsonrpc.AppendResult(nil, q.ID, r.Ending.Result))
	case question.TimedOut:
		q.see(frame.ClientToOurs, gate.ByNobody, jsonrpc.AppendResult(nil, q.ID, acp.Selected(r.End.Option)))
	}
	line := cancelLine(q.ID)
	q.see(frame.OursToClient, "", line)
	write(line)
}

// Reply implements question.Asker.
func (q *callQuestion) Reply(r question.Reply) { q.reply = r }

// questionAt returns the open question with an id: of the agent at the client, or of acphost; nil: none.
func (l *Link) questionAt(id []byte) *question.Question {
	if q, own := l.own.Get(id); own {
		return q
	}
	if c, ok := l.agentCalls.Get(id); ok {
		if q := c.asked(); q != nil && !q.Own {
			return q
		}
	}
	return nil
}

// Answer answers a question that is open at the client, instead of the client (question.Question.Answer).
func (l *Link) Answer(id []byte, a question.Answer, by string) (question.End, error) {
	q := l.questionAt(id)
	if q == nil {
		return question.End{}, question.ErrNotOpen
	}
	return q.Answer(a, by)
}

func cancelLine(id []byte) []byte {
	params := append([]byte(`{"requestId":`), id...)
	return jsonrpc.AppendNotification(nil, acp.MethodCancelRequest, append(params, '}'))
}
