package link

import (
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// run collects adjacent lines that go the same way, so that one write carries them. One goroutine's. (Writing a run while
// the next one is read, from two buffers, was tried: it changes tasks more often and forwards no faster.)
type run struct {
	to    *jsonrpc.Writer
	seen  func(line []byte, at time.Time) // nil: nobody observes
	at    time.Time                       // when bytes began to gather, where somebody does
	bytes []byte
}

// add adds a line, which must live until flush; lines before it that do not stand right before it are written first.
func (r *run) add(line []byte) error {
	if r.seen != nil {
		if len(r.bytes) == 0 { // lines that were read at once came at once
			r.at = time.Now()
		}
		r.seen(line, r.at)
	}
	joined, ok := jsonrpc.Span(r.bytes, line)
	if !ok {
		if err := r.flush(); err != nil {
			return err
		}
		joined = line
	}
	r.bytes = joined
	return nil
}

// flush writes what was collected, and waits until it is written.
func (r *run) flush() error {
	if len(r.bytes) == 0 {
		return nil
	}
	b := r.bytes
	r.bytes = nil
	return r.to.Forward(b)
}
