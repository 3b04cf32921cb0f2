package link

import (
	"context"
	"slices"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/question"
	"github.com/acphost/acphost/services/supervisor/internal/session"
)

// agentQuestion is a question of the agent's: a permission request or an elicitation. It implements question.Asker.
type agentQuestion struct {
	*Link
	*question.Question
	call *agentCall

	// Of a permission request.
	scope   string          // of its session, as it was decided
	subject session.Subject // of its tool call, as it was judged
	told    acp.ToolCall    // its tool call, with what a report added that it leaves out; the pump's
	judged  acp.ToolCall    // its tool call, as it was judged; set before the question is asked
	later   chan []byte     // the input in the latest report of the tool call since
}

// ask makes a call of the agent's a question; its own fields are the caller's to set.
func (l *Link) ask(c *agentCall) *agentQuestion {
	a := &agentQuestion{Link: l, call: c, later: make(chan []byte, 1)}
	a.Question = l.questions.Add(&question.Question{ID: c.id, Method: c.method, SessionID: c.sessionID, Span: c.span}, a)
	return a
}

// Record implements question.Asker. If the agent changed the tool call while the person read the question, the person may
// have allowed something else than what was judged.
func (a *agentQuestion) Record(d *gate.Decision, o gate.Outcome, answered bool) error {
	if answered {
		a.policyLearns(d, o)
		now, stands := a.opts.Sessions.Stands(a.SessionID, a.subject, a.Asked)
		o.Doubtful = !stands && !a.reading(a.SessionID).Repeats(a.judged, now)
	}
	return a.conclude(a.SessionID, a.scope, d, o)
}

// callChanged ends the questions about a tool call that its latest report contradicts.
func (p *agentPump) callChanged(sessionID string, now acp.ToolCall) {
	for _, a := range p.notEnded() {
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
		select { // the pump alone puts something there
		case <-a.later:
		default:
		}
		a.later <- now.Reported
	}
}

// reading is how the agent's words are read, without a look at the disk.
func (l *Link) reading(sessionID string) intent.Session {
	cc, _ := l.opts.Sessions.Context(sessionID)
	return intent.Session{Dialect: l.Reported().Name, Version: l.Reported().Version, Configured: l.opts.Dialect, Roots: rootPaths(cc)}
}

// complete is the tool call of a permission request with what its report says, if the request leaves that out and the
// report comes just after it. The agent is read on meanwhile.
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

// notEnded drops the permission requests that have ended, and returns the others.
func (p *agentPump) notEnded() []*agentQuestion {
	p.asking = slices.DeleteFunc(p.asking, func(a *agentQuestion) bool { return a.State() == question.Ended })
	return p.asking
}

// policyLearns tells the policy what a person answered.
func (l *Link) policyLearns(d *gate.Decision, o gate.Outcome) {
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

// Reply implements question.Asker. The person is told of a denial before the agent is: once the agent is answered it may end
// the turn, and a caller that waits for the turn alone sees nothing after its end.
func (a *agentQuestion) Reply(r question.Reply) {
	a.shownEnds(a.call, r.Failed)
	a.call.giveUp()
	if r.Notice {
		a.tellAbout(r.Decision.DenialKey(), a.SessionID, deniedTitle, r.Decision.What()+": "+r.Denial)
	}
	if !a.claim(a.call) {
		return // it was refused before it was decided
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
		a.call.span.End(failedError) // the client's own error is passed on
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

// callQuestion is a question of acphost's own about a call of the agent's (door two). It implements question.Asker. Whoever
// works on the call waits for its end, and takes reply from here.
type callQuestion struct {
	*Link
	*question.Question
	held  *heldCall
	reply question.Reply
}

// Record implements question.Asker.
func (q *callQuestion) Record(d *gate.Decision, o gate.Outcome, answered bool) error {
	if answered {
		q.policyLearns(d, o)
	}
	return q.recordCall(q.held, d, o)
}

// Withdraw implements question.Asker. An answer that did not come from the client is shown to observers as if it had.
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

// questionAt is the open question with an id: one of the agent's at the client, or one of acphost's own; nil: there is none.
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

// Answer answers a question that is open at the client, in the client's place: see question.Question.Answer.
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
