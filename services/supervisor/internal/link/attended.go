package link

import (
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// attended tells whether somebody is there to answer.
func (l *Link) attended() bool { return l.opts.Attended == nil || l.opts.Attended() }

// A vigil is how long a question still waits. It is looked after once in Options.Unattended: it ends where nobody is
// there, and nobody was when it was looked after before. So it waits at least that long for whoever left.
type vigil struct{ alone bool }

// beginVigil starts a vigil, and says when the question ends if nobody comes; zero: somebody is there.
func (l *Link) beginVigil(v *vigil, now time.Time) time.Time {
	v.alone = !l.attended()
	if !v.alone {
		return time.Time{}
	}
	return now.Add(l.opts.Unattended)
}

// over looks after a question, tells where its end has changed, and reports whether it has come.
func (l *Link) over(v *vigil, w *waiting) bool {
	switch there := l.attended(); {
	case there == !v.alone:
		return v.alone
	case there:
		l.expires(w, time.Time{})
	default:
		l.expires(w, time.Now().Add(l.opts.Unattended))
	}
	v.alone = !v.alone
	return false
}

// expires tells that a question's end has changed, unless it has ended.
func (l *Link) expires(w *waiting, at time.Time) {
	w.mu.Lock()
	open := w.stage == beginTold && w.end == nil
	w.mu.Unlock()
	if open && l.opts.Questions != nil {
		l.opts.Questions.Expires(w.q, at)
	}
}

// look arranges for a question of the agent's at the front to be looked after. An elicitation waits for as long as it takes
// where the front has said that it takes them, or is a person's.
func (l *Link) look(c *agentCall) {
	if l.opts.Attended == nil || c.method == acp.MethodElicitationCreate && (!l.opts.Headless || l.elicits.Load()) {
		return
	}
	v := &vigil{alone: !c.waiting.q.Expires.IsZero()}
	var look func()
	look = func() {
		switch {
		case !l.over(v, c.waiting):
			c.again(l.opts.Unattended, look)
		case c.method == acp.MethodRequestPermission:
			l.unattended(c)
		default:
			l.unanswered(c)
		}
	}
	c.after(l.opts.Unattended, look)
}

// enters makes room for a question at the front; false: it must be refused.
func (l *Link) enters(w *waiting) bool {
	w.room = !l.spent.full(l.opts.Headless) && l.openQuestions.enter(w.q)
	return w.room
}

func tooManyQuestions(c *agentCall) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: c.method + ": too many questions wait for an answer: ask again later"}
}
