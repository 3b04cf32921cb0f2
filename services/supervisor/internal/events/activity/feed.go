package activity

import (
	"cmp"
	"context"
	"errors"
	"github.com/acphost/acphost/internal/limits"
	"math"
	"sync"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/events/event"
)

const (
	// maxFeed and maxFeedBytes limit how far a reader of all events may be behind before it is disconnected, in events
	// and in their bytes of memory. All readers together use no more than the slowest one.
	maxFeed      = 32768
	maxFeedBytes = limits.Behind
	// maxBatch and maxBatchBytes limit a batch. A single event may be larger.
	maxBatch      = 1024
	maxBatchBytes = 1 << 20
	// gatherFor is how long events are collected after a batch until the next one is sent, unless that is full earlier.
	gatherFor = 10 * time.Millisecond
	// singly is how many events are taken at once for readers that get them one at a time.
	singly = 64
)

// errBehind is the error of a reader that was disconnected.
var errBehind = errors.New("too far behind")

// feed holds the events for the readers of all events: one copy for all, encoded once. It holds an event until each
// reader has received it. Safe for concurrent use.
type feed struct {
	mu sync.Mutex
	queue
	first   uint64 // number of the oldest event held
	total   uint64 // cost of all events so far
	encoder event.Encoder
	readers map[*reader]struct{}
	closed  bool
	// wakeAt and wakeCost are the lowest event number and the lowest total cost at which a reader is to be woken.
	wakeAt, wakeCost uint64
}

// reader is a watcher of all events. The feed's lock guards its fields, except ready.
type reader struct {
	view
	earlier []entry // sent first
	next    uint64  // number of the next event
	cost    uint64  // cost of all events before it
	err     error   // why it was disconnected
	// wakeAt and wakeCost determine when to wake the reader.
	wakeAt, wakeCost uint64
	ready            chan struct{} // buffer of one
}

func newFeed() feed {
	return feed{readers: map[*reader]struct{}{}, wakeAt: math.MaxUint64, wakeCost: math.MaxUint64}
}

// join adds a reader. It gets the earlier events first, then all events from now on.
func (f *feed) join(v view, earlier []entry) *reader {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &reader{view: v, earlier: earlier, next: f.end(), cost: f.total, ready: make(chan struct{}, 1)}
	r.sleep()
	f.readers[r] = struct{}{}
	return r
}

// leave removes a reader, which may be disconnected already.
func (f *feed) leave(r *reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.readers, r)
	f.trim()
}

// close ends the feed: readers take the held events, then get no more.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for r := range f.readers {
		r.wake()
	}
}

// end returns the number of the next event. mu is held.
func (f *feed) end() uint64 { return f.first + uint64(len(f.kept())) }

// add adds an event, and disconnects readers that are too far behind.
func (f *feed) add(e entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.readers) == 0 {
		return
	}
	e.field = f.encoder.Encode(e.event).Field
	f.push(e)
	f.total += uint64(e.cost)
	for len(f.kept()) > 1 && (len(f.kept()) > maxFeed || f.held > maxFeedBytes) {
		f.cutOff()
	}
	if f.end() < f.wakeAt && f.total < f.wakeCost {
		return
	}
	f.wakeAt, f.wakeCost = math.MaxUint64, math.MaxUint64
	for r := range f.readers {
		if f.end() >= r.wakeAt || f.total >= r.wakeCost {
			r.wake()
		}
		f.wakeAt, f.wakeCost = min(f.wakeAt, r.wakeAt), min(f.wakeCost, r.wakeCost)
	}
}

// cutOff disconnects the readers that have not received the oldest event.
func (f *feed) cutOff() {
	for r := range f.readers {
		if r.next <= f.first {
			r.err = errBehind
			r.wake()
			delete(f.readers, r)
		}
	}
	f.trim()
}

// trim drops the events that every reader has received. mu is held.
func (f *feed) trim() {
	needed := f.end()
	for r := range f.readers {
		needed = min(needed, r.next)
	}
	for ; f.first < needed; f.first++ {
		f.pop()
	}
	if len(f.readers) == 0 {
		f.encoder = event.Encoder{}
	}
}

func (r *reader) sleep() { r.wakeAt, r.wakeCost = math.MaxUint64, math.MaxUint64 }

func (r *reader) wake() {
	r.sleep()
	select {
	case r.ready <- struct{}{}:
	default:
	}
}

// run sends batches to a reader until ctx ends, send fails, the feed is closed (fault.Stopping), or the reader is
// disconnected. If limit is not 0, a batch has up to limit events, and fast events are collected, so that the reader
// does not wake for each of them.
func (f *feed) run(ctx context.Context, r *reader, limit int, send func([]event.Encoded) error) error {
	gathers := limit > 0
	if limit = min(limit, maxBatch); !gathers {
		limit = singly
	}
	timer := time.NewTimer(gatherFor)
	defer timer.Stop()
	var batch []event.Encoded
	var last string
	for {
		var err error
		batch, err = f.take(ctx, r, batch[:0], limit)
		if err != nil {
			return ended(err, last)
		}
		timer.Reset(gatherFor)
		last = cmp.Or(batch[len(batch)-1].Event.GetCursor(), last)
		err = send(batch)
		clear(batch)
		if err != nil {
			return err
		}
		if !gathers {
			continue
		}
		if err := f.gather(ctx, r, limit, timer.C); err != nil {
			return err
		}
	}
}

// take waits for the reader's next events and appends them to a batch, up to limit and to maxBatchBytes. The error is
// fault.Stopping if the feed is closed, or errBehind.
func (f *feed) take(ctx context.Context, r *reader, batch []event.Encoded, limit int) ([]event.Encoded, error) {
	for {
		f.mu.Lock()
		err := r.err
		if err == nil {
			batch = f.taken(r, batch, limit)
			switch {
			case len(batch) > 0:
			case f.closed:
				err = errStopping
			default:
				r.wakeAt = r.next + 1
				f.wakeAt = min(f.wakeAt, r.wakeAt)
			}
		}
		f.mu.Unlock()
		switch {
		case len(batch) > 0:
			return batch, nil
		case err != nil:
			return nil, err
		}
		if err := r.wait(ctx, nil); err != nil {
			return nil, err
		}
	}
}

// taken appends the available events to a batch. mu is held.
func (f *feed) taken(r *reader, batch []event.Encoded, limit int) []event.Encoded {
	oldest := r.next == f.first
	for bytes := 0; len(batch) < limit; {
		e := f.peek(r)
		if e == nil || len(batch) > 0 && bytes+e.cost > maxBatchBytes {
			break
		}
		if !r.hides(e) {
			if frames := r.skipped(e); frames > 0 {
				batch = append(batch, event.Encoded{Event: unwatchedGap(e, "", frames)})
				continue
			}
			batch = append(batch, event.Encoded{Event: e.event, Field: e.field})
			bytes += e.cost
		}
		if len(r.earlier) > 0 {
			r.earlier = r.earlier[1:]
			continue
		}
		r.next++
		r.cost += uint64(e.cost)
	}
	if oldest && r.next != f.first {
		f.trim()
	}
	return batch
}

// peek returns the reader's next event; nil: none yet. mu is held.
func (f *feed) peek(r *reader) *entry {
	switch {
	case len(r.earlier) > 0:
		return &r.earlier[0]
	case r.next < f.end():
		return &f.kept()[r.next-f.first]
	}
	return nil
}

// gather waits until the reader has a number of events or maxBatchBytes, the feed is closed, enough fires or ctx ends.
func (f *feed) gather(ctx context.Context, r *reader, events int, enough <-chan time.Time) error {
	f.mu.Lock()
	full := len(r.earlier) > 0 || f.closed || r.err != nil
	if full = full || f.end() >= r.next+uint64(events) || f.total >= r.cost+maxBatchBytes; !full {
		r.wakeAt, r.wakeCost = r.next+uint64(events), r.cost+maxBatchBytes
		f.wakeAt, f.wakeCost = min(f.wakeAt, r.wakeAt), min(f.wakeCost, r.wakeCost)
		select {
		case <-r.ready: // discard a wake-up for events that were taken already
		default:
		}
	}
	f.mu.Unlock()
	if full {
		return nil
	}
	return r.wait(ctx, enough)
}

// wait waits until the reader is woken, enough fires or ctx ends.
func (r *reader) wait(ctx context.Context, enough <-chan time.Time) error {
	select {
	case <-r.ready:
	case <-enough:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
