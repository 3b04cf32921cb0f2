package link

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/question"
	"github.com/acphost/acphost/services/supervisor/internal/span"
)

// Where a request of the agent's is.
const (
	atHandler int32 = iota // routed: queued, or at its handler
	atGate                 // being decided here, or asked about by us
	atClient               // forwarded: the client answers
)

// agentCall is a request of the agent's that is not answered. Whoever claims it (Link.claim) answers it.
type agentCall struct {
	id        []byte
	method    string
	sessionID string
	span      *span.Span // nil: the call is not traced
	state     atomic.Int32
	claimed   atomic.Bool
	// safe: the call changes nothing, so that a cancelled one may be given up.
	safe bool

	mu       sync.Mutex
	cancel   context.CancelFunc // gives up the work at hand; nil before and after it
	given    bool               // it was given up before the work began
	question *question.Question // it is, or is asked about; the latest; nil: neither

	shown *ownCall // the tool call that we show the client for it, as long as it has not ended

	forwarding bool   // it is on its way to the client
	withdrawal []byte // the agent's cancellation of it, which must not overtake it
}

// begin returns the context that the work on the call is done under, and false if it was given up already.
func (c *agentCall) begin(ctx context.Context) (context.Context, context.CancelFunc, bool) {
	ctx, cancel := context.WithCancel(ctx)
	ok := c.unlessGiven(func() { c.cancel = cancel })
	if !ok {
		cancel()
	}
	return ctx, cancel, ok
}

// unlessGiven does something with the call under its lock; false, and nothing was done: it was given up.
func (c *agentCall) unlessGiven(do func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.given {
		do()
	}
	return !c.given
}

// giveUp ends the work on the call, or keeps it from beginning. It reports false, and does nothing, if the call is at
// the client, or on its way there.
func (c *agentCall) giveUp() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.Load() == atClient {
		return false
	}
	c.given = true
	if c.cancel != nil {
		c.cancel()
	}
	return true
}

// givenUp reports whether somebody has ended the work on the call.
func (c *agentCall) givenUp() bool { return !c.unlessGiven(func() {}) }

// proceed makes a call that the gate let pass the handler's; false: it was given up before.
func (c *agentCall) proceed() bool { return c.unlessGiven(func() { c.state.Store(atHandler) }) }

// ask makes q the question that the call is, or is asked about; false: it was given up.
func (c *agentCall) ask(q *question.Question) bool { return c.unlessGiven(func() { c.question = q }) }

// asked returns the question that the call is, or was last asked about; nil: none.
func (c *agentCall) asked() *question.Question {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.question
}

// send makes the call the client's and sends it there by f, then the cancellation that came meanwhile by after. It
// reports false, and sends nothing, if the call was given up.
func (c *agentCall) send(f func() error, after func(...[]byte) error) (bool, error) {
	if !c.unlessGiven(func() {
		c.cancel = nil
		c.forwarding = true
		c.state.Store(atClient)
	}) {
		return false, nil
	}
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

// withdraw keeps a cancellation until the call that it names has been sent. It reports false if the call is not being sent
// just now: then the caller sends the cancellation.
func (c *agentCall) withdraw(line []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.forwarding {
		return false
	}
	c.withdrawal = slices.Clone(line)
	return true
}

// show remembers the tool call that the client is shown for the call.
func (c *agentCall) show(o *ownCall) {
	c.mu.Lock()
	c.shown = o
	c.mu.Unlock()
}

// shownEnds ends the tool call that the client is shown for a call, if there is one: each ends once.
func (l *Link) shownEnds(c *agentCall, failed bool) {
	c.mu.Lock()
	shown := c.shown
	c.shown = nil
	c.mu.Unlock()
	status := "completed"
	if failed {
		status = "failed"
	}
	if shown != nil {
		l.postClient(shown.updated(status))
	}
}

// claim removes a call from the table and reports whether the caller shall answer it; false: somebody else does. Its id is free from then on, and not
// before: an agent that uses it again cannot be given the answer to another call.
func (l *Link) claim(c *agentCall) bool {
	if !c.claimed.CompareAndSwap(false, true) {
		return false
	}
	l.agentCalls.Remove(c.id)
	return true
}

// answerError answers a request of the agent's with an error, without waiting, unless somebody else has answered it.
func (l *Link) answerError(c *agentCall, jerr *jsonrpc.Error) { l.answerErrorBy("", c, jerr) }

// answerErrorBy is answerError for what somebody else than acphost itself has refused.
func (l *Link) answerErrorBy(by string, c *agentCall, jerr *jsonrpc.Error) {
	if !l.claim(c) {
		return
	}
	c.ends(jerr)
	l.postAgentBy(by, jsonrpc.AppendError(nil, c.id, jerr))
}
