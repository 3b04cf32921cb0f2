package link

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// Where a request of the agent's is.
const (
	atHandler int32 = iota // routed: queued, or at its handler
	atGate                 // being decided here, or asked about by us
	atFront                // forwarded: the front answers
)

// agentCall is a request of the agent's that is not answered. Whoever takes it (Link.take) answers it.
type agentCall struct {
	id        []byte
	method    string
	sessionID string
	state     atomic.Int32
	taken     atomic.Bool
	// safe: the call changes nothing, so that a cancelled one may be given up.
	safe bool

	mu       sync.Mutex
	cancel   context.CancelFunc // gives up the work at hand; nil before and after it
	given    bool               // it was given up before the work began
	timer    *time.Timer        // answers for a front that does not
	hurried  bool               // because the turn was cancelled
	question *question
	waiting  *waiting // as long as, and after, it is a question at the front; nil: it is none

	shown *ownCall // the tool call that we show the front for it, as long as it has not ended

	forwarding bool   // the question is on its way to the front
	withdrawal []byte // the agent's cancellation of it, which must not overtake it
}

func (c *agentCall) current() int32 { return c.state.Load() }

// begin returns the context that the work on the call is done under, and false if it was given up already.
func (c *agentCall) begin(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc, bool) {
	var cancel context.CancelFunc
	if timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, timeout)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.given {
		cancel()
		return ctx, cancel, false
	}
	c.cancel = cancel
	return ctx, cancel, true
}

// giveUp ends the work on the call, or keeps it from beginning. It reports false, and does nothing, if the call is at
// the front, or on its way there.
func (c *agentCall) giveUp() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current() == atFront {
		return false
	}
	c.given = true
	if c.cancel != nil {
		c.cancel()
	}
	return true
}

// proceed makes a call that the gate let pass the handler's; false: it was given up before.
func (c *agentCall) proceed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.given {
		return false
	}
	c.state.Store(atHandler)
	return true
}

// send makes the call the front's and sends it there by f, then the cancellation that came meanwhile by after. It
// reports false, and sends nothing, if the call was given up. w is nil for what is no question.
func (c *agentCall) send(q *question, w *waiting, f func() error, after func(...[]byte) error) (bool, error) {
	if w != nil {
		defer w.release()
	}
	c.mu.Lock()
	if c.given {
		c.mu.Unlock()
		return false, nil
	}
	c.cancel = nil
	c.question, c.waiting = q, w
	c.forwarding = true
	c.state.Store(atFront)
	c.mu.Unlock()
	err := f()
	c.mu.Lock()
	c.forwarding = false
	withdrawal := c.withdrawal
	c.mu.Unlock()
	if err == nil && withdrawal != nil {
		err = after(withdrawal)
	}
	return true, err
}

// withdraw keeps a cancellation until the call that it names has been sent; false: it has been, or was never ours to
// send, so that the cancellation may follow.
func (c *agentCall) withdraw(line []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.forwarding {
		return false
	}
	c.withdrawal = slices.Clone(line)
	return true
}

// after arranges for f if nobody answers the call within d, unless something is arranged already.
func (c *agentCall) after(d time.Duration, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil && !c.taken.Load() {
		c.timer = time.AfterFunc(d, f)
	}
}

// again arranges for f anew, once what was arranged before has come, unless the call is answered or its turn cancelled.
func (c *agentCall) again(d time.Duration, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hurried && !c.taken.Load() {
		c.timer = time.AfterFunc(d, f)
	}
}

// hurry is after for a call whose turn is cancelled: it takes the place of what was arranged before, once.
func (c *agentCall) hurry(d time.Duration, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hurried || c.taken.Load() {
		return
	}
	c.hurried = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.timer = time.AfterFunc(d, f)
}

// end stops what waits for the call's answer.
func (c *agentCall) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
}

// show remembers the tool call that the front is shown for the call.
func (c *agentCall) show(o *ownCall) {
	c.mu.Lock()
	c.shown = o
	c.mu.Unlock()
}

// shownEnds ends the tool call that the front is shown for a call, if there is one: each ends once.
func (l *Link) shownEnds(c *agentCall, failed bool) {
	c.mu.Lock()
	shown := c.shown
	c.shown = nil
	c.mu.Unlock()
	switch {
	case shown == nil:
	case failed:
		l.postFront(shown.updated("failed"))
	default:
		l.postFront(shown.updated("completed"))
	}
}

// take takes a call out of the table; false: somebody else has, and answers it. Its id is free from then on, and not
// before: an agent that uses it again cannot be given the answer to another call.
func (l *Link) take(c *agentCall) bool {
	if !c.taken.CompareAndSwap(false, true) {
		return false
	}
	l.agentCalls.Take(c.id)
	c.end()
	return true
}

// answerError answers a request of the agent's with an error, without waiting, unless somebody else has answered it.
func (l *Link) answerError(c *agentCall, jerr *jsonrpc.Error) {
	if !l.take(c) {
		return
	}
	l.postAgent(jsonrpc.AppendError(nil, c.id, jerr))
}

// answerResult answers a request of the agent's with a small result, without waiting, unless somebody else has.
func (l *Link) answerResult(c *agentCall, result []byte) bool {
	if !l.take(c) {
		return false
	}
	l.postAgent(jsonrpc.AppendResult(nil, c.id, result))
	return true
}
