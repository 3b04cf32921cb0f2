package link

import (
	"sync"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
)

// Bounds on the questions of the agent's that are open at the front at once. One more is refused.
const (
	maxOpenQuestions = 1024
	maxOpenBytes     = 64 << 20 // of what they show; one question alone may be larger
)

// Question is a question that waits at the front: one of the agent's that was passed on, or one of our own. It is not
// changed once it was told.
type Question struct {
	// ID is its JSON-RPC id, as it is spelled. Link.Answer takes it.
	ID []byte
	// Own: it is ours, about a call that the agent made.
	Own bool
	// Method is session/request_permission or elicitation/create.
	Method string
	// SessionID is the session that it names; empty: none.
	SessionID string
	// Params are the request's, raw JSON.
	Params []byte
	// ToolCall is all that is known of the tool call that a permission question of the agent's is about: its params may
	// say no more than the id. Nil for every other question.
	ToolCall *acp.ToolCall
	// Options are what a permission question offers.
	Options []acp.PermissionOption
	// Reason says why a person is asked, in the policy's words; empty: no policy said so.
	Reason string
	// Asked is when it began to wait, Expires when nobody's answer ends it; zero: it waits.
	Asked, Expires time.Time
}

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
	// Option is the id of the option that the agent was told, or that was chosen of ours; empty: none.
	Option string
	// By says who answered: gate.ByFront, gate.ByPolicy where what was chosen could not be done, gate.ByNobody, or the
	// name that Link.Answer was given.
	By string
}

// Questions is told of the questions that wait at the front. Each question's begin is told before its end, and each once.
// Its methods are called from the data path: they must not wait for anything, nor call the Link. What is open when the link
// is over is told to be withdrawn, by a moment after Run has returned.
type Questions interface {
	// Asked tells that a question waits. It belongs to the callee too, and must not be changed.
	Asked(q *Question)
	// Expires tells that a question which waited without limit ends at a time if nobody answers; zero: it waits again.
	Expires(q *Question, at time.Time)
	// Ended tells how a question ended.
	Ended(q *Question, e End)
}

// waiting is a question as those see it who are told of questions.
type waiting struct {
	q     *Question
	ready chan struct{} // closed once it may be ended from elsewhere: what shows it has been seen
	once  sync.Once
	room  bool // it takes some of what there is for questions of the agent's; set before it is sent

	mu    sync.Mutex
	stage int8
	end   *End
}

// The stages of a waiting.
const (
	untold  int8 = iota
	telling      // its begin
	beginTold
)

func newWaiting(q *Question) *waiting { return &waiting{q: q, ready: make(chan struct{})} }

// begins tells that a question waits, unless it has ended already: then it is told neither of. show has observers see it:
// whoever learns of it from them can answer it at once, and they see no answer before it.
func (l *Link) begins(w *waiting, show func()) {
	defer w.release()
	w.mu.Lock()
	if w.end != nil || w.stage != untold {
		w.mu.Unlock()
		show()
		return
	}
	w.stage = telling
	w.mu.Unlock()
	l.opts.Gate.Waiting(1)
	if l.opts.Questions != nil {
		l.opts.Questions.Asked(w.q)
	}
	show()
	w.mu.Lock()
	w.stage = beginTold
	end := w.end
	w.mu.Unlock()
	if end != nil && l.opts.Questions != nil { // it ended while that was told
		l.opts.Questions.Ended(w.q, *end)
	}
}

// ends tells how a question ended, or has it told by whoever is telling its begin. Nil: nothing waited. It comes before the
// agent is answered: who sees what the agent does next finds the question gone.
func (l *Link) ends(w *waiting, e End) {
	if w == nil {
		return
	}
	w.mu.Lock()
	if w.end != nil {
		w.mu.Unlock()
		return
	}
	w.end = &e
	began, tell := w.stage != untold, w.stage == beginTold
	w.mu.Unlock()
	if began {
		l.opts.Gate.Waiting(-1)
	}
	if w.room {
		l.openQuestions.leave(w.q)
	}
	if tell && l.opts.Questions != nil {
		l.opts.Questions.Ended(w.q, e)
	}
}

// release lets go whoever waits to end it.
func (w *waiting) release() { w.once.Do(func() { close(w.ready) }) }

// whenReady does f once a question may be ended: at once as a rule, else in a goroutine of its own, a moment later.
func (l *Link) whenReady(w *waiting, f func()) {
	select {
	case <-w.ready:
		f()
	default:
		l.spawn(func() { <-w.ready; f() })
	}
}

// openQuestions bounds the questions that are open at the front.
type openQuestions struct {
	mu    sync.Mutex
	n     int
	bytes int64
}

// enter takes a question in; false: there is no room.
func (o *openQuestions) enter(q *Question) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n >= maxOpenQuestions || o.n > 0 && o.bytes+q.size() > maxOpenBytes {
		return false
	}
	o.n++
	o.bytes += q.size()
	return true
}

func (o *openQuestions) leave(q *Question) {
	o.mu.Lock()
	o.n--
	o.bytes -= q.size()
	o.mu.Unlock()
}

// choice is how a question ends by an option of a kind; without an id nothing was chosen. Only what is known to allow does.
func choice(id, kind, by string) End {
	e := End{Outcome: Denied, Option: id, By: by}
	switch {
	case id == "":
		e.Outcome = Cancelled
	case kind == acp.AllowOnce || kind == acp.AllowAlways:
		e.Outcome = Allowed
	}
	return e
}

// size is roughly what a question keeps, in bytes.
func (q *Question) size() int64 {
	n := len(q.Params)
	if q.ToolCall != nil {
		n += q.ToolCall.Size()
	}
	return int64(n)
}

// reasonOf says why a person is asked; empty: no policy wants it.
func reasonOf(d *gate.Decision) string {
	if d.By != gate.ByPolicy && d.Rule == "" {
		return ""
	}
	return d.Denial()
}
