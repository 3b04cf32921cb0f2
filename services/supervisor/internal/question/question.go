// Package question implements the lifecycle of a question to the user: a session/request_permission of the agent, an
// elicitation of the agent, or acphost's own question about a call of the agent.
//
// A question is in one of four states:
//
//	Deciding  nobody knows of it; for a permission request, the policy may still decide
//	Showing   observers are being notified; it is about to be written to the client
//	Open      it can be answered
//	Ended     for good
//
// A question passes through these states in order, and may move to Ended from each of the first three. Several goroutines may try to end it
// at the same time. The first one wins, and the others learn that the question has ended. The table causes (end.go) defines the effects of
// each cause. Only Finish ends a question. It performs the effects in this order: it records the decision, notifies observers, notifies the
// client that its answer is not needed, and replies to the asker.
//
// The package knows the meaning of answers, and the limits on the time and the number of questions. It must not know how frames are read
// and written, nor what happens to an allowed call; package link does.
package question

import (
	"errors"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/events/span"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
)

// Question is a question to the user. Its exported fields are set before Ask and then do not change. Its methods are safe for concurrent
// use.
type Question struct {
	// ID is the JSON-RPC id, as spelled in the request.
	ID []byte
	// Own: the question is acphost's own, about a call of the agent.
	Own bool
	// Method is session/request_permission or elicitation/create.
	Method string
	// SessionID is the session of the question; empty: none.
	SessionID string
	// Params are the params of the request, raw JSON.
	Params []byte
	// ToolCall is everything known about the tool call of an agent's permission request, because the params may contain only its id. Nil
	// for other questions.
	ToolCall *acp.ToolCall
	// Options are the options of a permission request.
	Options []acp.PermissionOption
	// Flat: the agent reads the id of the chosen option from the result itself (acp.PermissionRequest).
	Flat bool
	// Reason is the policy's reason for asking; empty: none. Detail is gate.Decision.Detail.
	Reason, Detail string
	// Asked is the time when it began to wait. Expires is the time when it ends without an answer; zero: it does not. Ask sets both.
	Asked, Expires time.Time
	// Patient: the question does not expire, even if nobody attends.
	Patient bool
	// Span is the span of the request that is, or causes, the question. Nil: it is not traced.
	Span *span.Span

	set   *Set
	asker Asker
	done  chan struct{} // closed when all effects of the end are complete

	telling sync.Mutex // held while observers are notified, to keep the order

	mu         sync.Mutex // guards what follows; not held during notifications
	state      State
	decision   *gate.Decision // nil: no policy was asked. The goroutine that ends the question reads it without mu
	judged     bool           // a policy applies to the question
	room       bool           // it counts against the limits of its Set
	written    bool           // it is written to the client
	withdrawal []byte         // sent to the client once written is set
	alone      bool           // nobody was there to answer at the last check
	hurried    bool           // its turn was cancelled
	waiting    *span.Span     // of the wait; the goroutine that notifies observers uses it without mu
	timer      *time.Timer
	ending     Ending
	end        End
	endTold    bool // observers know the end; used only by the goroutine that ends it
}

// State is the state of a question.
type State int

// The states, in order.
const (
	Deciding State = iota
	Showing
	Open
	Ended
)

// Outcome is the outcome of a question, with the values of ApprovalAnswer.outcome.
type Outcome string

// The outcomes.
const (
	Allowed   Outcome = "allowed"
	Denied    Outcome = "denied"
	Accepted  Outcome = "accepted"
	Declined  Outcome = "declined"
	Cancelled Outcome = "cancelled"
	Withdrawn Outcome = "withdrawn" // the agent cancelled it, or is disconnected
	Expired   Outcome = "expired"   // no user answered
)

// End is the end of a question.
type End struct {
	Outcome Outcome
	// Option is the id of the option that the agent got, or that was chosen for acphost's own question; empty: none.
	Option string
	// By names the answerer: gate.ByClient, gate.ByPolicy if the chosen option could not be applied, gate.ByNobody, or the name that was
	// passed to Answer.
	By string
}

// Asker receives the results of a question: the link implements it for an agent or for an agent's call. Each method is called at most once
// for a question, in this order. The methods may be called from any goroutine, and must not wait for a peer.
type Asker interface {
	// Record records the outcome of d, the decision about the question. answered: a person, or a program for a person, answered. It is not
	// called if nothing was decided. An error, which only an allowance can have, means that the question is denied.
	Record(d *gate.Decision, o gate.Outcome, answered bool) error
	// Withdraw notifies the client that its answer is no longer needed. r has no reply to the agent yet. write sends a notification, or
	// keeps it until the question itself is written.
	Withdraw(r Reply, write func(line []byte))
	// Reply sends the reply to the asker.
	Reply(r Reply)
}

// Reply is the result of a question for the asker. Without Result and Error there is no reply: the client's own bytes are forwarded, the
// agent is disconnected, or the Asker acts on the other fields (acphost's own question).
type Reply struct {
	Ending  Ending
	End     End
	Outcome gate.Outcome
	// Failed: the requested action does not happen.
	Failed bool
	// Unrecorded is Record's error.
	Unrecorded error
	// Decision is the policy's decision; nil: no policy was asked.
	Decision *gate.Decision
	// Denial is the reason of a denial by the policy or by acphost. Empty: there is none.
	Denial string
	// Notice: the person at the client is notified of the denial, before the agent is.
	Notice bool
	Result []byte
	Error  *jsonrpc.Error
}

// Ask sends the question to the client. If the question has ended, nothing is written; if there is no room for it, it ends. write writes
// the frame. Immediately before, write calls show with a function that shows the frame to observers. If show returns false, the question
// has ended meanwhile, and write must return ErrEnded without writing. An error of write ends the question, and is returned.
func (q *Question) Ask(write func(show func(see func()) bool) error) error {
	q.mu.Lock()
	if q.state != Deciding {
		q.mu.Unlock()
		return nil
	}
	q.room = q.Own || q.set.enter(q)
	full := !q.room
	q.Asked = time.Now()
	if q.set.opts.Attended != nil && !q.Patient {
		if q.alone = !q.set.opts.Attended(); q.alone {
			q.Expires = q.Asked.Add(q.set.opts.Unattended)
		}
	}
	q.mu.Unlock()
	if full {
		q.Finish(Ending{Cause: NoRoom})
		return nil
	}
	err := write(q.show)
	q.mu.Lock()
	q.written = true
	line := q.withdrawal
	q.mu.Unlock()
	if err == nil && line != nil {
		q.set.opts.Post(line)
	}
	if err != nil {
		q.Finish(Ending{Cause: LinkOver})
	}
	if errors.Is(err, ErrEnded) {
		return nil
	}
	return err
}

// show notifies observers that the question waits, and shows them its frame. The question can be answered at once from then on, and
// observers see no answer before the frame. A panic ends the question as denied.
func (q *Question) show(see func()) (shown bool) {
	defer func() {
		if p := recover(); p != nil {
			shown = false
			q.mu.Lock()
			if q.state != Ended {
				q.state, q.ending = Ended, Ending{Cause: LinkOver}
			}
			q.mu.Unlock()
			defer close(q.done)
			panics.Report(q.set.opts.Logger, "showing a question to the user", p, q.afterPanic(true)...)
		}
	}()
	q.mu.Lock()
	if q.state != Deciding {
		q.mu.Unlock()
		return false
	}
	q.state = Showing
	q.mu.Unlock()
	q.waiting = q.Span.Child("acphost.question", span.Internal)
	q.set.tell(q, 1, func(o Observer) { o.Asked(q) })
	see()
	q.mu.Lock()
	ended := q.state == Ended
	if !ended {
		q.state = Open
		if q.set.opts.Attended != nil && !q.Patient && q.timer == nil {
			q.timer = time.AfterFunc(q.set.opts.Unattended, q.checkExpiry)
		}
	}
	q.mu.Unlock()
	if ended { // the goroutine that ended it leaves the effects to this one
		q.conclude(true)
	}
	return true
}

// Decided stores the policy's decision. It returns false if the question has ended; the decision has no effect then.
func (q *Question) Decided(d *gate.Decision) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state == Ended {
		return false
	}
	q.decision, q.judged = d, d.Active()
	return true
}

// Done returns a channel that is closed when the question has ended and all effects are complete.
func (q *Question) Done() <-chan struct{} { return q.done }

// End returns the end of the question. It is valid once Done is closed.
func (q *Question) End() End { return q.end }

// State returns the state of the question.
func (q *Question) State() State {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state
}

// checkExpiry checks whether somebody is there to answer. The question ends if nobody is, and nobody was at the previous check. So it waits
// at least Options.Unattended after the last person has left.
func (q *Question) checkExpiry() {
	timeOut := func(error) { q.Finish(Ending{Cause: TimedOut}) }
	defer panics.Recover(q.set.opts.Logger, "looking whether a question has expired", timeOut)
	if q.expired(q.set.opts.Attended()) {
		timeOut(nil)
	}
}

// expired reports whether nobody is there to answer, now and at the previous check. Otherwise it notifies observers of a change, and starts
// the timer again.
func (q *Question) expired(there bool) bool {
	q.telling.Lock()
	defer q.telling.Unlock()
	q.mu.Lock()
	if q.state != Open || q.hurried || q.alone && !there {
		defer q.mu.Unlock()
		return q.state == Open && !q.hurried
	}
	changed := q.alone == there
	q.alone = !there
	q.timer = time.AfterFunc(q.set.opts.Unattended, q.checkExpiry)
	q.mu.Unlock()
	if observer := q.set.opts.Observer; changed && observer != nil {
		var at time.Time
		if !there {
			at = time.Now().Add(q.set.opts.Unattended)
		}
		observer.Expires(q, at)
	}
	return false
}

// CancelTurn ends the question because its turn was cancelled or its session was closed. It ends the question at once, except in an editor:
// the editor has Options.Grace to answer a permission request itself, and answers an elicitation.
func (q *Question) CancelTurn() bool {
	q.mu.Lock()
	if (q.state == Showing || q.state == Open) && !q.Own && !q.set.opts.Program {
		defer q.mu.Unlock()
		if q.Method == acp.MethodRequestPermission && !q.hurried {
			q.hurried = true
			if q.timer != nil {
				q.timer.Stop()
			}
			q.timer = time.AfterFunc(q.set.opts.Grace, panics.Guard(q.set.opts.Logger, "ending a question whose turn was cancelled",
				func() { q.Finish(Ending{Cause: TurnCancelled}) }))
		}
		return true
	}
	q.mu.Unlock()
	return q.Finish(Ending{Cause: TurnCancelled})
}

// option returns the id of the first option of one of the kinds.
func (q *Question) option(kinds ...string) (id string, ok bool) {
	return acp.PermissionRequest{Options: q.Options}.Option(kinds...)
}

// kindOf returns the kind of the option with an id; empty: there is none. If several options have the same id, an option that does not
// allow counts, because the meant option is not known.
func (q *Question) kindOf(id string) string {
	kind := ""
	for _, o := range q.Options {
		if o.ID == id && id != "" && (kind == "" || allows(kind)) {
			kind = o.Kind
		}
	}
	return kind
}

// allows reports whether options of a kind allow; only known kinds do.
func allows(kind string) bool { return kind == acp.AllowOnce || kind == acp.AllowAlways }

// selected returns the result that answers a permission request with an option.
func (q *Question) selected(option string) []byte {
	if q.Flat {
		return acp.SelectedFlat(option)
	}
	return acp.Selected(option)
}

// size returns the approximate memory of a question, in bytes.
func (q *Question) size() int64 {
	n := len(q.Params)
	if q.ToolCall != nil {
		n += q.ToolCall.Size()
	}
	return int64(n)
}
