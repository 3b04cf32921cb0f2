// Package question has the life of a question to the user: a session/request_permission of the agent, an elicitation of the
// agent, or a question of acphost's own about a call that the agent made.
//
// A question is in one of four states:
//
//	Deciding  nobody was told of it; for a permission request, the policy may still decide
//	Showing   observers are being told; it is about to be written to the client
//	Open      somebody can answer it
//	Ended     for good
//
// It goes from each state to the next, and from each of the first three to Ended. Several goroutines may try to end it at the
// same time. The first one wins, and every other learns that the question has ended. The table causes (end.go) says what each
// cause does. Finish alone ends a question, and does in this order what the end needs: it records the decision, tells
// observers, tells the client that its answer is not needed, and answers the one who asked.
//
// The package knows what an answer means, how long a question waits, and how many may wait. It must not know how frames are
// read and written, nor what becomes of a call that was allowed: package link knows.
package question

import (
	"errors"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/span"
)

// Question is one question. Its exported fields are set before Ask and never change after it. Its methods are safe for
// concurrent use.
type Question struct {
	// ID is its JSON-RPC id, as it is spelled.
	ID []byte
	// Own: it is acphost's, about a call that the agent made.
	Own bool
	// Method is session/request_permission or elicitation/create.
	Method string
	// SessionID is the session that it names; empty: none.
	SessionID string
	// Params are the request's, raw JSON.
	Params []byte
	// ToolCall is all that is known of the tool call that a permission request of the agent's is about: its params may say
	// no more than the id. Nil for every other question.
	ToolCall *acp.ToolCall
	// Options are what a permission request offers.
	Options []acp.PermissionOption
	// Flat: the agent looks for the id of the chosen option in the result itself: see acp.PermissionRequest.
	Flat bool
	// Reason says why a person is asked, in the policy's words; empty: no policy said so.
	Reason string
	// Asked is when it began to wait, Expires when nobody's answer ends it; zero: it waits. Ask sets both.
	Asked, Expires time.Time
	// Patient: it waits for as long as it takes, also where nobody attends.
	Patient bool
	// Span is that of the request that it is, or is asked about. Nil: it is not traced.
	Span *span.Span

	set   *Set
	asker Asker
	done  chan struct{} // closed once its end is told

	telling sync.Mutex // held while observers are told, so that they are told in order

	mu         sync.Mutex // guards what follows; not held while anybody is told
	state      State
	decision   *gate.Decision // what the policy said; nil: it was not asked. Whoever ends the question has it without mu
	judged     bool           // a policy said something, and not nobody since none was chosen
	room       bool           // it takes some of what there is for questions
	written    bool           // it is written to the client
	withdrawal []byte         // for the client, once that is so
	alone      bool           // nobody was there to answer when that was last looked at
	hurried    bool           // its turn was cancelled
	waiting    *span.Span     // of the wait; whoever tells observers has it without mu
	timer      *time.Timer
	ending     Ending
	end        End
	endTold    bool // observers know its end; of the goroutine that ends it
}

// State is how far a question has come.
type State int

// The states, in order.
const (
	Deciding State = iota
	Showing
	Open
	Ended
)

// Outcome is what came of a question. Its text is the one that ApprovalAnswer.outcome has.
type Outcome string

// The outcomes.
const (
	Allowed   Outcome = "allowed"
	Denied    Outcome = "denied"
	Accepted  Outcome = "accepted"
	Declined  Outcome = "declined"
	Cancelled Outcome = "cancelled"
	Withdrawn Outcome = "withdrawn" // the agent has given it up, or is gone
	Expired   Outcome = "expired"   // nobody answered
)

// End is how a question ended.
type End struct {
	Outcome Outcome
	// Option is the id of the option that the agent was told, or that was chosen of acphost's own; empty: none.
	Option string
	// By says who answered: gate.ByClient, gate.ByPolicy where what was chosen could not be done, gate.ByNobody, or the
	// name that Answer was given.
	By string
}

// Asker is the one who asked: the link, for an agent or for a call of the agent's. Each method is called at most once for a
// question, in this order. They may be called from any goroutine, and must not wait for a peer.
type Asker interface {
	// Record records what came of d, the decision about the question; answered: a person, or a program for one, said so. It is
	// not called where nothing was decided. An error, for what was allowed alone, says that it is denied all the same.
	Record(d *gate.Decision, o gate.Outcome, answered bool) error
	// Withdraw tells the client that its answer is not needed any more; what the agent is told is not in r yet. write does so
	// with a notification, or keeps that until the question itself is written.
	Withdraw(r Reply, write func(line []byte))
	// Reply answers whoever asked.
	Reply(r Reply)
}

// Reply is what whoever asked is told. Without Result and Error it is told nothing: the client's own bytes are passed on, the
// agent is gone, or Asker knows from the rest what to do (a question of acphost's own).
type Reply struct {
	Ending  Ending
	End     End
	Outcome gate.Outcome
	// Failed: what was asked about does not happen.
	Failed bool
	// Unrecorded is Record's error.
	Unrecorded error
	// Decision is what the policy said; nil: it was not asked.
	Decision *gate.Decision
	// Denial says why the policy denies, or why acphost does. Empty: neither does.
	Denial string
	// Notice: the person at the client is told of the denial, before the agent is.
	Notice bool
	Result []byte
	Error  *jsonrpc.Error
}

// Ask puts the question to the client, unless it has ended or there is no room for it: then it ends, and nothing is written.
// write writes it. Right before, it calls show with what has observers see the frame; where show reports false the question
// has ended meanwhile, and write must return ErrEnded without writing. An error of write's ends the question, and is returned.
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

// show tells observers that the question waits, and has them see its frame: whoever learns of it can answer it at once, and
// observers see no answer before it. A panic ends the question as denied.
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
			q.timer = time.AfterFunc(q.set.opts.Unattended, q.look)
		}
	}
	q.mu.Unlock()
	if ended { // whoever ended it leaves the rest to this goroutine
		q.conclude(true)
	}
	return true
}

// Decided notes what the policy said. It reports false if the question has ended: then the decision counts for nothing.
func (q *Question) Decided(d *gate.Decision) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state == Ended {
		return false
	}
	q.decision, q.judged = d, d.Active()
	return true
}

// Done is closed once the question has ended and everybody was told.
func (q *Question) Done() <-chan struct{} { return q.done }

// End says how the question ended, once Done is closed.
func (q *Question) End() End { return q.end }

// State says how far the question has come.
func (q *Question) State() State {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state
}

// look sees whether somebody is there to answer. The question ends where nobody is, and nobody was when this was looked at
// before: so it waits at least Options.Unattended for whoever has left.
func (q *Question) look() {
	timeOut := func(error) { q.Finish(Ending{Cause: TimedOut}) }
	defer panics.Recover(q.set.opts.Logger, "looking whether a question has expired", timeOut)
	if q.expired(q.set.opts.Attended()) {
		timeOut(nil)
	}
}

// expired reports whether nobody is there to answer now, nor was before. Otherwise it tells observers what has changed, and
// has the timer look again.
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
	q.timer = time.AfterFunc(q.set.opts.Unattended, q.look)
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

// CancelTurn ends the question because its turn was cancelled, or its session closed. It ends at once, but for a permission
// request that an editor is showing: the editor has Options.Grace to answer that itself, and answers an elicitation.
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

// option is the id of the first option of one of the kinds.
func (q *Question) option(kinds ...string) (id string, ok bool) {
	return acp.PermissionRequest{Options: q.Options}.Option(kinds...)
}

// kindOf is the kind of the option with an id; empty: there is none. Where the agent gives one id to several, nobody knows
// which was meant: the one that refuses counts.
func (q *Question) kindOf(id string) string {
	kind := ""
	for _, o := range q.Options {
		if o.ID == id && id != "" && (kind == "" || allows(kind)) {
			kind = o.Kind
		}
	}
	return kind
}

// allows reports whether an option of a kind allows: only what is known to does.
func allows(kind string) bool { return kind == acp.AllowOnce || kind == acp.AllowAlways }

// selected is the result that answers a permission request with an option.
func (q *Question) selected(option string) []byte {
	if q.Flat {
		return acp.SelectedFlat(option)
	}
	return acp.Selected(option)
}

// size is roughly what a question keeps, in bytes.
func (q *Question) size() int64 {
	n := len(q.Params)
	if q.ToolCall != nil {
		n += q.ToolCall.Size()
	}
	return int64(n)
}
