package link

import (
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

// run collects adjacent lines in one direction, so that one write sends them. Only one goroutine uses it. (Writing a run while the next one
// is read, from two buffers, was tried: it causes more task switches and is not faster.)
type run struct {
	to    *jsonrpc.Writer
	seen  func(line []byte, at time.Time) // nil: there is no observer
	at    time.Time                       // when the first bytes were added, if there is an observer
	bytes []byte
}

// add adds a line, which must stay valid until flush. Earlier lines that are not adjacent in memory are written first.
func (r *run) add(line []byte) error {
	if r.seen != nil {
		if len(r.bytes) == 0 { // lines of one read have the same time
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

// flush writes the collected lines, and waits until they are written.
func (r *run) flush() error {
	if len(r.bytes) == 0 {
		return nil
	}
	b := r.bytes
	r.bytes = nil
	return r.to.Forward(b)
}
