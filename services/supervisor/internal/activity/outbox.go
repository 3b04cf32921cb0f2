package activity

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/event"
)

// outbox holds the events that a watcher has not taken yet.
type outbox struct {
	mu sync.Mutex
	queue
	err   error         // why there will be no more; those that are held are told before io.EOF alone
	ready chan struct{} // has room for one
	// gather is how many events are waited for; 0: each is said to be ready.
	gather int
}

func newOutbox() outbox { return outbox{ready: make(chan struct{}, 1)} }

// add holds one more event. mu is held.
func (o *outbox) add(e entry) {
	if o.err != nil {
		return
	}
	o.push(e)
	if o.gathered() {
		o.signal()
	}
}

// gathered reports whether there is as much as is waited for. mu is held.
func (o *outbox) gathered() bool { return len(o.kept()) >= o.gather || o.held >= maxBatchBytes }

// waitFor waits until there are so many events, or maxBatchBytes, or there will be none, or until enough is told or ctx ends.
func (o *outbox) waitFor(ctx context.Context, events int, enough <-chan time.Time) error {
	o.mu.Lock()
	o.gather = events
	done := o.gathered() || o.err != nil
	select {
	case <-o.ready: // it was about what is taken or looked at by now
	default:
	}
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.gather = 0
		o.mu.Unlock()
	}()
	if done {
		return nil
	}
	select {
	case <-o.ready:
	case <-enough:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// fits reports whether there is room for an event: an empty one takes any.
func (o *outbox) fits(e entry, events, bytes int) bool {
	n := len(o.kept())
	return n == 0 || n < events && o.held+e.cost <= bytes
}

// fail drops what is held, and has next return err. mu is held.
func (o *outbox) fail(err error) {
	if o.err == nil {
		o.err = err
		o.queue = queue{}
		o.signal()
	}
}

// end says that nothing more will come.
func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = io.EOF
		o.signal()
	}
}

func (o *outbox) signal() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// next waits for the next event. The error is io.EOF when there will be none.
func (o *outbox) next(ctx context.Context, taken func()) (e entry, err error) {
	err = o.wait(ctx, func() (ok bool) {
		if e, ok = o.pop(); ok && taken != nil {
			taken()
		}
		return ok
	})
	return e, err
}

// nextBatch waits for the next events and appends them, up to limit and to maxBatchBytes. The error is next's.
func (o *outbox) nextBatch(ctx context.Context, batch []*event.Shared, limit int) ([]*event.Shared, error) {
	err := o.wait(ctx, func() bool {
		held := o.held
		for len(batch) < limit && len(o.kept()) > 0 && (len(batch) == 0 || held-o.held+o.kept()[0].cost <= maxBatchBytes) {
			e, _ := o.pop()
			if e.shared == nil {
				e.shared = &event.Shared{Event: e.event}
			}
			batch = append(batch, e.shared)
		}
		return len(batch) > 0
	})
	return batch, err
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
