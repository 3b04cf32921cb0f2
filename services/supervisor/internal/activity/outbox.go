package activity

import (
	"context"
	"io"
	"sync"
)

// outbox holds the events that a watcher has not taken yet.
type outbox struct {
	mu      sync.Mutex
	entries []entry
	head    int
	held    int
	err     error         // why there will be no more; those that are held are told before io.EOF alone
	ready   chan struct{} // has room for one
}

func newOutbox() outbox { return outbox{ready: make(chan struct{}, 1)} }

// add holds one more event. mu is held.
func (o *outbox) add(e entry) {
	if o.err != nil {
		return
	}
	o.entries = append(o.entries, e)
	o.held += e.cost
	o.signal()
}

// fits reports whether there is room for an event: an empty one takes any.
func (o *outbox) fits(e entry, events, bytes int) bool {
	n := len(o.entries) - o.head
	return n == 0 || n < events && o.held+e.cost <= bytes
}

// fail drops what is held, and has next return err. mu is held.
func (o *outbox) fail(err error) {
	if o.err == nil {
		o.err = err
		o.entries, o.head, o.held = nil, 0, 0
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

// pop removes and returns the next event; false: there is none yet. mu is held.
func (o *outbox) pop() (entry, bool) {
	if o.head == len(o.entries) {
		return entry{}, false
	}
	e := o.entries[o.head]
	o.entries[o.head] = entry{}
	o.held -= e.cost
	if o.head++; o.head == len(o.entries) {
		o.entries, o.head = o.entries[:0], 0
		if cap(o.entries) > 1024 { // it was much once
			o.entries = nil
		}
	}
	return e, true
}

// next waits for the next event. The error is io.EOF when there will be none.
func (o *outbox) next(ctx context.Context, taken func()) (entry, error) {
	for {
		o.mu.Lock()
		e, ok := o.pop()
		err := o.err
		if ok && taken != nil {
			taken()
		}
		o.mu.Unlock()
		switch {
		case ok:
			return e, nil
		case err != nil:
			return entry{}, err
		}
		select {
		case <-o.ready:
		case <-ctx.Done():
			return entry{}, ctx.Err()
		}
	}
}
