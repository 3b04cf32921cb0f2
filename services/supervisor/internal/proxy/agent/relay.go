package agent

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/panics"
)

const (
	// relayBuffer is the limit of stderr bytes in the queue for a slow reader. If it is full, the agent blocks.
	relayBuffer = 256 << 10
	// relayRest is the limit after the agent has ended.
	relayRest = 2 << 20
)

// relay forwards an agent's stderr and keeps its last lines. It keeps lines before forwarding them, so that a reader
// that never reads loses no line.
type relay struct {
	from *os.File
	to   io.Writer

	read    chan struct{} // closed when from has ended
	written chan struct{} // closed when everything was written to to, or it failed

	mu      sync.Mutex
	changed sync.Cond
	lines   tail   // guarded by mu
	pending []byte // guarded by mu; not written yet
	ended   bool   // guarded by mu; the agent has ended: do not block reading
	closed  bool   // guarded by mu; nothing more will be read
	failed  bool   // guarded by mu; to returned an error: drop the rest
}

func newRelay(from *os.File, to io.Writer) *relay {
	r := &relay{from: from, to: to, read: make(chan struct{}), written: make(chan struct{})}
	r.changed.L = &r.mu
	if to == nil {
		r.failed = true
	}
	fail := func(error) { // the agent must not block without a reader
		r.mu.Lock()
		defer r.mu.Unlock()
		r.failed, r.closed, r.pending = true, true, nil
		r.changed.Broadcast()
	}
	go panics.Guard(nil, "reading an agent's standard error", r.readAll, fail, func(error) { _ = r.from.Close() })()
	go panics.Guard(nil, "passing on an agent's standard error", r.writeAll, fail)()
	return r
}

// tail returns the last lines so far.
func (r *relay) tail() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines.get()
}

// finish reads the remaining output and returns when it was forwarded. It takes at most twice settle: an escaped
// process may keep the pipe open forever, and the reader may never read.
func (r *relay) finish(settle time.Duration) {
	r.mu.Lock()
	r.ended = true
	r.changed.Broadcast()
	r.mu.Unlock()
	_ = r.from.SetReadDeadline(time.Now().Add(settle))
	<-r.read
	_ = r.from.Close()
	select {
	case <-r.written:
	case <-time.After(settle): // its goroutine ends when the writer returns
	}
}

func (r *relay) readAll() {
	defer close(r.read)
	chunk := make([]byte, 32<<10)
	for {
		n, err := r.from.Read(chunk)
		r.push(chunk[:n])
		if err != nil {
			r.mu.Lock()
			r.closed = true
			r.changed.Broadcast()
			r.mu.Unlock()
			return
		}
	}
}

func (r *relay) push(chunk []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines.add(chunk)
	for len(r.pending) >= relayBuffer && !r.ended && !r.failed {
		r.changed.Wait()
	}
	if r.failed || len(r.pending) >= relayRest {
		return
	}
	r.pending = append(r.pending, chunk...)
	r.changed.Broadcast()
}

func (r *relay) writeAll() {
	defer close(r.written)
	var spare []byte
	for {
		r.mu.Lock()
		for len(r.pending) == 0 && !r.closed {
			r.changed.Wait()
		}
		out := r.pending
		r.pending = spare[:0]
		r.changed.Broadcast()
		r.mu.Unlock()
		if len(out) == 0 {
			return
		}
		if _, err := r.to.Write(out); err != nil {
			r.mu.Lock()
			r.failed, r.pending = true, nil
			r.changed.Broadcast()
			r.mu.Unlock()
		}
		spare = out
	}
}
