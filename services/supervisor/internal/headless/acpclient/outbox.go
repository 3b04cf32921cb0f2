package acpclient

import (
	"context"
	"io"
	"sync"
)

// outbox queues a program's messages until the link reads them. It has one reader and any number of writers.
type outbox struct {
	limit int
	fill  chan struct{} // has one element if there may be something to read

	mu     sync.Mutex // guards the fields below
	queue  [][]byte
	bytes  int
	room   chan struct{} // closed when a message was read
	closed bool
}

func newOutbox(limit int) *outbox {
	return &outbox{limit: limit, fill: make(chan struct{}, 1), room: make(chan struct{})}
}

// put queues a message, and waits for room.
func (o *outbox) put(ctx context.Context, message []byte) error {
	for {
		room, err := o.try(message)
		if room == nil {
			return err
		}
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// post queues a message, or returns an error if there is no room for it.
func (o *outbox) post(message []byte) error {
	room, err := o.try(message)
	if room != nil {
		return errDeaf
	}
	return err
}

// try queues a message. If there is no room, it returns a channel that is closed when there may be room.
func (o *outbox) try(message []byte) (room <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return nil, ErrClosed
	case o.bytes > 0 && o.bytes+len(message) > o.limit:
		return o.room, nil
	}
	o.queue = append(o.queue, message)
	o.bytes += len(message)
	o.wake()
	return nil, nil
}

// Read reads queued bytes, and returns io.EOF after close.
func (o *outbox) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		o.mu.Lock()
		if o.closed {
			o.mu.Unlock()
			return 0, io.EOF
		}
		if n := o.read(b); n > 0 {
			o.mu.Unlock()
			return n, nil
		}
		o.mu.Unlock()
		<-o.fill
	}
}

// read copies queued bytes into b. mu is held.
func (o *outbox) read(b []byte) (n int) {
	for len(o.queue) > 0 && n < len(b) {
		taken := copy(b[n:], o.queue[0])
		n += taken
		if o.queue[0] = o.queue[0][taken:]; len(o.queue[0]) == 0 {
			o.queue[0] = nil
			o.queue = o.queue[1:]
		}
	}
	if n > 0 {
		o.bytes -= n
		close(o.room)
		o.room = make(chan struct{})
	}
	return n
}

// close discards the queue, and ends reads.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.closed, o.queue, o.bytes = true, nil, 0
	close(o.room)
	o.wake()
}

func (o *outbox) wake() {
	select {
	case o.fill <- struct{}{}:
	default:
	}
}
