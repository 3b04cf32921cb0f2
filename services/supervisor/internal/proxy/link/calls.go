package link

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/events/span"
	"github.com/acphost/acphost/services/supervisor/internal/question"
)

// States of an agent's request.
const (
	atHandler int32 = iota // routed: queued, or at its handler
	atGate                 // being decided, or waiting for a person
	atClient               // forwarded: the client answers
)

// agentCall is an unanswered request of the agent. The goroutine that claims it (Link.claim) answers it.
type agentCall struct {
	id        []byte
	method    string
	sessionID string
	span      *span.Span // nil: the call is not traced
	state     atomic.Int32
	claimed   atomic.Bool
	// safe: the call changes nothing, so that it may be abandoned when it is cancelled.
	safe bool

	mu       sync.Mutex
	cancel   context.CancelFunc // cancels the work in progress; nil before and after it
	given    bool               // the work was cancelled before it began
	question *question.Question // the latest question that the call is, or that is about the call; nil: none

	shown *ownCall // the tool call that the client is shown for it, until that ends

	forwarding bool   // it is being sent to the client
	withdrawal []byte // the agent's cancellation of it, which must be sent after it
}

// begin returns the context for the work on the call; false: the call was given up.
func (c *agentCall) begin(ctx context.Context) (context.Context, context.CancelFunc, bool) {
	ctx, cancel := context.WithCancel(ctx)
	ok := c.unlessGiven(func() { c.cancel = cancel })
	if !ok {
		cancel()
	}
	return ctx, cancel, ok
}

// unlessGiven calls do with the call locked; false: the call was given up, and do was not called.
func (c *agentCall) unlessGiven(do func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.given {
		do()
	}
	return !c.given
}

// giveUp cancels the work on the call, or prevents it from starting. It returns false, and does nothing, if the call is at the client or is
// being sent there.
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

// givenUp reports whether the work on the call was cancelled.
func (c *agentCall) givenUp() bool { return !c.unlessGiven(func() {}) }

// proceed moves an allowed call to its handler; false: it was given up before.
func (c *agentCall) proceed() bool { return c.unlessGiven(func() { c.state.Store(atHandler) }) }

// ask sets the question that the call is, or that is about the call; false: the call was given up.
func (c *agentCall) ask(q *question.Question) bool { return c.unlessGiven(func() { c.question = q }) }

// asked returns the latest question that the call is, or that is about the call; nil: none.
func (c *agentCall) asked() *question.Question {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.question
}

// send moves the call to the client and sends it with f, and then sends a cancellation that arrived meanwhile with after. It returns false,
// and sends nothing, if the call was given up.
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

// withdraw stores a cancellation until its call has been sent. It returns false if the call is not being sent; the caller then sends the
// cancellation.
func (c *agentCall) withdraw(line []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.forwarding {
		return false
	}
	c.withdrawal = slices.Clone(line)
	return true
}

// show stores the tool call that the client is shown for the call.
func (c *agentCall) show(o *ownCall) {
	c.mu.Lock()
	c.shown = o
	c.mu.Unlock()
}

// shownEnds ends the tool call that the client is shown for a call, if there is one, once.
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

// claim removes a call from the table, and reports whether the caller has to answer it; false: another goroutine does. The id can be reused
// only from then on, so that a new call with the id cannot get the answer to an earlier one.
func (l *Link) claim(c *agentCall) bool {
	if !c.claimed.CompareAndSwap(false, true) {
		return false
	}
	l.agentCalls.Remove(c.id)
	return true
}

// answerError answers an agent's request with an error, without blocking, unless it was already claimed.
func (l *Link) answerError(c *agentCall, jerr *jsonrpc.Error) { l.answerErrorBy("", c, jerr) }

// answerErrorBy is answerError for an error that comes from another component than acphost itself.
func (l *Link) answerErrorBy(by string, c *agentCall, jerr *jsonrpc.Error) {
	if !l.claim(c) {
		return
	}
	c.ends(jerr)
	l.postAgentBy(by, jsonrpc.AppendError(nil, c.id, jerr))
}
