package activity

import (
	"context"
	"sync"
)

// outbox holds the events that a watcher of a session, or of an agent, has not taken yet.
type outbox struct {
	mu sync.Mutex
	queue
	err   error         // why there will be no more; those that are held are told before, but for errBehind
	ready chan struct{} // has room for one
}

func newOutbox() outbox { return outbox{ready: make(chan struct{}, 1)} }

// add holds one more event. mu is held.
func (o *outbox) add(e entry) {
	if o.err != nil {
		return
	}
	o.push(e)
	o.signal()
}

// fits reports whether there is room for an event. One that is not full takes an event of any size: these are bounded by
// limits.Whole.
func (o *outbox) fits(e entry, events, bytes int) bool {
	n := len(o.kept())
	return n == 0 || n < events && o.held+min(e.cost, briefAbove) <= bytes
}

// fail drops what is held, and has next return err. mu is held.
func (o *outbox) fail(err error) {
	if o.err == nil {
		o.err = err
		o.queue = queue{}
		o.signal()
	}
}

// end says why nothing more will come; what is held is told before.
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

// next waits for the next event. The error is that of end when there will be none.
func (o *outbox) next(ctx context.Context, taken func()) (e entry, err error) {
	err = o.wait(ctx, func() (ok bool) {
		if e, ok = o.pop(); ok && taken != nil {
			taken()
		}
		return ok
	})
	return e, err
}

// wait calls take, with mu held, until it reports that it has taken something.
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
