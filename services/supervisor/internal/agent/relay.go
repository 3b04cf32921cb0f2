package agent

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/panics"
)

const (
	// relayBuffer is how many bytes of stderr wait for a slow reader before the agent has to.
	relayBuffer = 256 << 10
	// relayRest is how many may wait once the agent has ended.
	relayRest = 2 << 20
)

// relay passes an agent's stderr on and keeps its last lines. The lines are kept before they are passed on, so that a
// reader that never reads costs no line.
type relay struct {
	from *os.File
	to   io.Writer

	read    chan struct{} // closed when from is at its end
	written chan struct{} // closed when to has everything, or failed

	mu      sync.Mutex
	changed sync.Cond
	lines   tail   // guarded by mu
	pending []byte // guarded by mu; read and not yet written
	ended   bool   // guarded by mu; the agent is gone: do not make the reading end wait
	closed  bool   // guarded by mu; nothing comes any more
	failed  bool   // guarded by mu; to took an error: drop the rest
}

func newRelay(from *os.File, to io.Writer) *relay {
	r := &relay{from: from, to: to, read: make(chan struct{}), written: make(chan struct{})}
	r.changed.L = &r.mu
	if to == nil {
		r.failed = true
	}
	fail := func(error) { // the agent must not wait for anybody to read
		r.mu.Lock()
		defer r.mu.Unlock()
		r.failed, r.closed, r.pending = true, true, nil
		r.changed.Broadcast()
	}
	go panics.Guard(nil, "reading an agent's standard error", r.readAll, fail, func(error) { _ = r.from.Close() })()
	go panics.Guard(nil, "passing on an agent's standard error", r.writeAll, fail)()
	return r
}

// tail is the last lines so far.
func (r *relay) tail() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines.get()
}

// finish reads what is left and returns when it is passed on. It takes no longer than twice settle: a process that got
// away may hold the pipe for ever, and a reader may never read.
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
	case <-time.After(settle): // its goroutine ends when the writer lets go of it
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
