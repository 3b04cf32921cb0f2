package question

import (
	"errors"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/reason"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
)

var (
	// ErrEnded means that a question ended before it was written.
	ErrEnded = errors.New("the question has ended")
	// ErrNotOpen means that a question is not open yet, or no longer.
	ErrNotOpen = errors.New("the question is not open: somebody has answered it, or the agent has given it up")
	// ErrNotOffered means that a question does not offer an answer. The error that wraps it lists the offered options.
	ErrNotOffered = errors.New("it is not on offer")
)

// Unrecorded is the reason of a denial because an allowance could not be recorded. The cause is only logged, because it names files that
// agents must not see.
var Unrecorded = reason.NotRecorded.String() + " (rule " + gate.RuleUnrecorded + ")"

// Cause is the cause of a question's end.
type Cause int

// The causes.
const (
	// PolicyAllows and PolicyDenies: nobody has to be asked.
	PolicyAllows Cause = iota
	PolicyDenies
	// CallDecides: the request is deferred to the call that follows; a person is asked about that call if necessary (gate.Gate.Leaves).
	CallDecides
	// NoRoom: too many questions wait, or too many ids are spent.
	NoRoom
	// Unheard: an elicitation would reach nobody.
	Unheard
	// ClientAnswers: the client answered; its bytes are forwarded to the agent.
	ClientAnswers
	// SomebodyAnswers: another person or program answered instead of the client.
	SomebodyAnswers
	// Unusable: the client's answer cannot be forwarded.
	Unusable
	// TimedOut: nobody is there to answer.
	TimedOut
	// AgentCancels: the agent cancelled the question, or the call that it is about.
	AgentCancels
	// CallChanged: the agent reports another tool call than the one that a permission request is about.
	CallChanged
	// TurnCancelled: the client cancelled the turn, or the session was closed.
	TurnCancelled
	// LinkOver: the client or the agent is disconnected.
	LinkOver
	causeCount
)

// rule defines the effects of a cause.
type rule struct {
	name string
	// The cause applies in the states between from and until, inclusive.
	from, until State
	// end is the result for observers, record the outcome for the audit. Values that depend on the answer, or on the policy if there is no
	// answer, are filled in by Question.result.
	end    End
	record gate.Outcome
	// withdraw: the client is notified that its answer is not needed. A question of acphost is withdrawn for every cause except the
	// client's answer.
	withdraw bool
	// spends: the client may still answer, so the question's id is spent.
	spends bool
	// reply fills in the answer to the agent's question. A call that was asked about is refused or continues.
	reply func(q *Question, r *Reply)
}

var (
	cancelledByNobody  = gate.Outcome{Cancelled: true, By: gate.ByNobody}
	cancelledByAcphost = gate.Outcome{Cancelled: true, By: gate.ByAcphost}
	withdrawnEnd       = End{Outcome: Withdrawn, By: gate.ByNobody}
	cancelledEnd       = End{Outcome: Cancelled, By: gate.ByNobody}
	rejectingKinds     = []string{acp.RejectOnce, acp.RejectAlways}
)

// causes is the table of causes. If the record of an allowance cannot be written, the question is denied for any cause: the person at the
// client is notified of the reason, and the agent gets the option that rejects.
var causes = [causeCount]rule{
	// cause: name, from, until, end, record, withdraw, spends, reply
	PolicyAllows:    {"the policy allows", Deciding, Deciding, End{Outcome: Allowed, By: gate.ByPolicy}, gate.Outcome{Allowed: true}, false, false, (*Question).replyAllowed},
	PolicyDenies:    {"the policy denies", Deciding, Deciding, End{Outcome: Denied, By: gate.ByPolicy}, gate.Outcome{}, false, false, (*Question).replyDenied},
	CallDecides:     {"the call decides", Deciding, Deciding, End{Outcome: Allowed, By: gate.ByAcphost}, gate.Outcome{Left: true, By: gate.ByAcphost}, false, false, (*Question).replyAllowed},
	NoRoom:          {"no room", Deciding, Deciding, cancelledEnd, cancelledByAcphost, false, false, (*Question).replyNoRoom},
	Unheard:         {"nobody would hear", Deciding, Deciding, cancelledEnd, cancelledByNobody, false, false, (*Question).replyCancelled},
	ClientAnswers:   {"the client answers", Showing, Open, End{}, gate.Outcome{}, false, false, (*Question).replyNothing},
	SomebodyAnswers: {"somebody answers", Showing, Open, End{}, gate.Outcome{}, true, true, (*Question).replyAnswer},
	Unusable:        {"unusable answer", Showing, Open, cancelledEnd, cancelledByAcphost, false, false, (*Question).replyUnusable},
	TimedOut:        {"timed out", Open, Open, End{Outcome: Expired, By: gate.ByNobody}, gate.Outcome{By: gate.ByTimeout}, true, true, (*Question).replyExpired},
	AgentCancels:    {"the agent cancels", Deciding, Open, withdrawnEnd, cancelledByNobody, true, true, (*Question).replyGivenUp},
	CallChanged:     {"the agent changes the call", Deciding, Open, End{Outcome: Denied, By: gate.ByAcphost}, gate.Outcome{By: gate.ByAcphost}, true, true, (*Question).replyChanged},
	TurnCancelled:   {"the turn is cancelled", Deciding, Open, cancelledEnd, cancelledByNobody, false, true, (*Question).replyCancelled},
	LinkOver:        {"the link is over", Deciding, Open, withdrawnEnd, cancelledByNobody, false, false, (*Question).replyNothing},
}

func (c Cause) String() string { return causes[c].name }

// Ending is the cause of a question's end, with its data.
type Ending struct {
	Cause Cause
	// By names the answerer, if it is not the client.
	By string
	// Option is the id of the chosen option; empty: none.
	Option string
	// Surface is the surface on which the person chose the option.
	Surface gate.Surface
	// Outcome is the outcome of an answer to an elicitation.
	Outcome Outcome
	// Result is the result for the agent of an answer that is not the client's.
	Result []byte
	// Why says what is wrong with the client's answer, or why acphost ends the question. Empty: nothing is wrong.
	Why string
	// Line is the frame of the peer that ends the question: the client's answer to a question of acphost, or the agent's cancel
	// notification, which is forwarded to the client.
	Line []byte
}

// byClient reports whether the client has given its final answer to the question.
func (e *Ending) byClient() bool { return e.Cause == Unusable || e.Cause == ClientAnswers }

// answered reports whether a person, or a program for a person, answered.
func (e *Ending) answered() bool { return e.Cause == ClientAnswers || e.Cause == SomebodyAnswers }

// Finish ends the question, and reports whether it did. Only the first of several callers ends it. False: it has already ended, or the
// cause does not apply in its state. The effects of the end are complete when Done is closed. That is usually before Finish returns, or
// else a moment later, by the goroutine that is notifying observers.
func (q *Question) Finish(e Ending) bool {
	rule := &causes[e.Cause]
	q.mu.Lock()
	was := q.state
	if was < rule.from || was > rule.until {
		q.mu.Unlock()
		return false
	}
	q.state, q.ending = Ended, e
	if q.timer != nil {
		q.timer.Stop()
	}
	if rule.spends && was != Deciding && !q.Own { // before the end becomes visible to anyone
		q.set.spend(q.ID)
	}
	q.mu.Unlock()
	if was != Showing {
		q.conclude(was == Open)
	}
	return true
}

// conclude performs the effects of the question's end. told: observers know the question.
func (q *Question) conclude(told bool) {
	defer close(q.done)
	defer panics.Recover(q.set.opts.Logger, "ending a question to the user", q.afterPanic(told)...)
	rule, r := &causes[q.ending.Cause], Reply{Ending: q.ending}
	r.End, r.Outcome = q.result(rule)
	r.Decision = q.decision
	r.Failed = !q.ending.answered() || q.ending.Why != ""
	if told {
		r.Outcome.Asked = time.Since(q.Asked)
	}
	if q.decision != nil {
		if r.Unrecorded = q.asker.Record(q.decision, r.Outcome, q.ending.answered()); r.Unrecorded != nil {
			r.End.Option, _ = q.option(rejectingKinds...)
			if r.End.Outcome = Expired; q.ending.Cause != TimedOut {
				r.End.Outcome, r.End.By = Denied, gate.ByPolicy
			}
		}
	}
	q.end = r.End
	q.releaseRoom()
	if told {
		q.notifyEnd()
		if (rule.withdraw || q.Own) && !q.ending.byClient() {
			q.asker.Withdraw(r, q.writeWithdrawal)
		}
	}
	switch {
	case q.Own:
	case r.Unrecorded != nil && q.ending.Cause != TimedOut:
		r.Denial = Unrecorded
		q.replyDenied(&r)
	default:
		rule.reply(q, &r)
	}
	q.asker.Reply(r)
}

// afterPanic returns the functions that end the question after a panic. The question counts as denied, and effects that were not performed
// before the panic are performed. told: observers know the question, or may know it.
func (q *Question) afterPanic(told bool) []func(error) {
	return []func(error){
		func(error) { q.end = End{Outcome: Denied, By: gate.ByAcphost} },
		func(error) { q.releaseRoom() },
		func(error) {
			if told {
				q.notifyEnd()
			}
		},
		func(err error) {
			q.asker.Reply(Reply{
				Ending: q.ending, End: q.end, Failed: true, Unrecorded: err, Decision: q.decision,
				Error: &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: q.Method + ": acphost: " + err.Error()},
			})
		},
	}
}

// releaseRoom releases the question's room in its Set, once.
func (q *Question) releaseRoom() {
	if q.room && !q.Own {
		q.room = false
		q.set.leave(q)
	}
}

// notifyEnd notifies observers of the question's end, once.
func (q *Question) notifyEnd() {
	if q.endTold {
		return
	}
	q.endTold = true
	q.waiting.Set("acphost.question.outcome", string(q.end.Outcome))
	q.waiting.End("")
	q.set.tell(q, -1, func(o Observer) { o.Ended(q, q.end) })
}

// writeWithdrawal notifies the client that its answer is not needed, once the question is written.
func (q *Question) writeWithdrawal(line []byte) {
	q.mu.Lock()
	if !q.written {
		q.withdrawal = line
		q.mu.Unlock()
		return
	}
	q.mu.Unlock()
	q.set.opts.Post(line)
}

// result returns the end of the question for observers and for the record.
func (q *Question) result(rule *rule) (End, gate.Outcome) {
	e, end, o := &q.ending, rule.end, rule.record
	switch e.Cause {
	case PolicyAllows, CallDecides:
		end.Option = e.Option
	case PolicyDenies:
		end.Option, _ = q.option(rejectingKinds...)
	case CallChanged:
		end.Option, _ = q.option(rejectingKinds...)
		if q.decision != nil { // the decision's owner may still read it
			d := *q.decision
			d.Reason = strings.TrimSuffix(reason.CallChanged.String()+"; "+d.Reason, "; ")
			q.decision = &d
		}
	case TurnCancelled:
		if q.Own {
			end.Outcome = Withdrawn
		}
	case TimedOut:
		if q.decision == nil {
			break
		}
		kinds := rejectingKinds
		if q.decision.Unattended == gate.Allow {
			kinds, o.Allowed = []string{acp.AllowOnce}, true
		}
		var ok bool
		if end.Option, ok = q.option(kinds...); ok && o.Allowed {
			end.Outcome = Allowed
		}
		if q.Own {
			q.decision.Reason = strings.TrimSuffix(q.set.unansweredReason()+"; "+q.decision.Reason, "; ")
		}
	case ClientAnswers:
		end, o = q.answered(e, gate.ByClient)
	case SomebodyAnswers:
		end, o = q.answered(e, e.By)
	}
	if q.Own && e.Why != "" && e.byClient() { // no user answered, and nobody will
		o = gate.Outcome{By: gate.ByAcphost}
		q.decision.Reason = reason.ClientCannotAsk.With(e.Why)
	}
	return end, o
}

// answered returns the result for an answer.
func (q *Question) answered(e *Ending, by string) (End, gate.Outcome) {
	end, o := End{Outcome: Denied, Option: e.Option, By: by}, gate.Outcome{By: by, Surface: e.Surface}
	if q.Method != acp.MethodRequestPermission {
		end.Outcome = e.Outcome
		return end, o
	}
	switch kind := q.kindOf(e.Option); kind {
	case acp.AllowOnce, acp.AllowAlways:
		end.Outcome, o.Allowed, o.Option = Allowed, true, kind
	case acp.RejectOnce, acp.RejectAlways:
		o.Option = kind
	default:
		if e.Option == "" || q.Own && e.Why == "" { // the kinds of acphost's own options are known
			end.Outcome, o.Cancelled = Cancelled, true
		} else {
			o.Unclear = true
		}
	}
	return end, o
}

// The functions that fill in the reply to the agent.

func (q *Question) replyNothing(*Reply) {}

func (q *Question) replyAllowed(r *Reply) { r.Result = q.selected(r.End.Option) }

func (q *Question) replyAnswer(r *Reply) { r.Result = r.Ending.Result }

func (q *Question) replyDenied(r *Reply) {
	if r.Denial == "" {
		r.Denial = q.decision.Why()
	}
	r.Notice = true
	if id, ok := q.option(rejectingKinds...); ok {
		r.Result = q.selected(id)
	} else {
		r.fail(jsonrpc.CodeInternal, "denied: "+r.Denial)
	}
}

// replyChanged gives the change as the reason, and not the policy's reason, which is about the earlier call.
func (q *Question) replyChanged(r *Reply) {
	r.Denial = reason.CallChanged.String()
	q.replyDenied(r)
	if q.decision == nil { // nobody was notified of the call
		r.Denial, r.Notice = "", false
	}
}

func (q *Question) replyExpired(r *Reply) {
	kinds := rejectingKinds
	if r.Outcome.Allowed && r.Unrecorded == nil {
		kinds = []string{acp.AllowOnce}
	}
	switch id, ok := q.option(kinds...); {
	case ok:
		r.Result = q.selected(id)
	case q.Method == acp.MethodRequestPermission:
		r.Denial = q.set.unansweredReason()
		r.fail(jsonrpc.CodeInternal, "denied: "+r.Denial)
	default:
		q.replyCancelled(r)
	}
}

func (q *Question) replyCancelled(r *Reply) {
	if r.Result = acp.Cancelled(); q.Method != acp.MethodRequestPermission {
		r.Result = cancelledElicitation()
	}
}

func (q *Question) replyGivenUp(r *Reply) { r.fail(jsonrpc.CodeCancelled, "cancelled") }

func (q *Question) replyUnusable(r *Reply) { r.fail(jsonrpc.CodeInternal, r.Ending.Why) }

func (q *Question) replyNoRoom(r *Reply) {
	r.fail(jsonrpc.CodeInternal, "too many questions wait for an answer: ask again later")
}

func (r *Reply) fail(code int, message string) {
	r.Error = &jsonrpc.Error{Code: code, Message: message}
}
