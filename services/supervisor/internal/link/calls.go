package link

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// Where a request of the agent's is.
const (
	atHandler int32 = iota // routed: queued, or at its handler
	atGate                 // a question that is being decided here
	atFront                // forwarded: the front answers
)

// agentCall is a request of the agent's that is not answered. Whoever takes it out of agentCalls answers it.
type agentCall struct {
	id        []byte
	method    string
	sessionID string
	state     atomic.Int32
	// safe: the call changes nothing, so that a cancelled one may be given up.
	safe bool

	mu       sync.Mutex
	cancel   context.CancelFunc // gives up the work at hand; nil before and after it
	given    bool               // it was given up before the work began
	timer    *time.Timer        // answers for a front that does not
	question *question
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

// giveUp ends the work on the call, or keeps it from beginning.
func (c *agentCall) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.given = true
	if c.cancel != nil {
		c.cancel()
	}
}

// after arranges for f if nobody answers the call within d.
func (c *agentCall) after(d time.Duration, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil {
		c.timer = time.AfterFunc(d, f)
	}
}

// end stops what waits for the call's answer.
func (c *agentCall) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
}

// answerError answers a request of the agent's with an error, without waiting, unless somebody else has answered it.
func (l *Link) answerError(c *agentCall, jerr *jsonrpc.Error) {
	if _, ok := l.agentCalls.Take(c.id); !ok {
		return
	}
	c.end()
	l.postAgent(jsonrpc.AppendError(nil, c.id, jerr))
}

// answerResult answers a request of the agent's with a small result, without waiting, unless somebody else has.
func (l *Link) answerResult(c *agentCall, result []byte) bool {
	if _, ok := l.agentCalls.Take(c.id); !ok {
		return false
	}
	c.end()
	l.postAgent(jsonrpc.AppendResult(nil, c.id, result))
	return true
}
