package activity

import (
	"context"
	"sync"
)

// outbox queues events for a watcher of a session or an agent.
type outbox struct {
	mu sync.Mutex
	queue
	err   error         // why it ended; queued events can still be received, except after errBehind
	ready chan struct{} // buffer of one
}

func newOutbox() outbox { return outbox{ready: make(chan struct{}, 1)} }

// add queues an event. mu is held.
func (o *outbox) add(e entry) {
	if o.err != nil {
		return
	}
	o.push(e)
	o.signal()
}

// fits reports whether there is room for an event. An outbox that is not full accepts an event of any size:
// limits.Whole bounds events.
func (o *outbox) fits(e entry, events, bytes int) bool {
	n := len(o.kept())
	return n == 0 || n < events && o.held+min(e.cost, briefAbove) <= bytes
}

// fail drops the queued events; next then returns err. mu is held.
func (o *outbox) fail(err error) {
	if o.err == nil {
		o.err = err
		o.queue = queue{}
		o.signal()
	}
}

// end ends the outbox; queued events can still be received.
func (o *outbox) end(why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = why
		o.signal()
	}
}

func (o *outbox) signal() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// next waits for the next event. At the end it returns the error of end.
func (o *outbox) next(ctx context.Context, taken func()) (e entry, err error) {
	err = o.wait(ctx, func() (ok bool) {
		if e, ok = o.pop(); ok && taken != nil {
			taken()
		}
		return ok
	})
	return e, err
}

// wait calls take, with mu held, until it returns true.
func (o *outbox) wait(ctx context.Context, take func() bool) error {
	for {
		o.mu.Lock()
		ok, err := take(), o.err
		o.mu.Unlock()
		switch {
		case ok:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-o.ready:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
