package activity

import (
	"cmp"
	"context"
	"errors"
	"github.com/acphost/acphost/internal/limits"
	"math"
	"sync"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/event"
)

const (
	// maxFeed and maxFeedBytes are how far one who watches everything may be behind before they are cut off, in
	// events and in what these take in memory. All of them together take no more than the one who is the furthest
	// behind.
	maxFeed      = 32768
	maxFeedBytes = limits.Behind
	// maxBatch and maxBatchBytes bound what is sent at once. A single event may have more bytes.
	maxBatch      = 1024
	maxBatchBytes = 1 << 20
	// gatherFor is how long after a batch the next one is sent, if it is not full before.
	gatherFor = 10 * time.Millisecond
	// singly is how many events are taken at once for those who are sent them one at a time.
	singly = 64
)

// errBehind says that a reader was cut off.
var errBehind = errors.New("too far behind")

// feed holds the events for those who watch everything: once for all of them, and encoded once. An event is held
// until each reader has taken it. Safe for concurrent use.
type feed struct {
	mu sync.Mutex
	queue
	first   uint64 // the number of the oldest event that is held
	total   uint64 // what all events up to now cost
	encoder event.Encoder
	readers map[*reader]struct{}
	closed  bool
	// wakeAt and wakeCost are the number of an event, and a total cost, before which no reader waits to be woken.
	wakeAt, wakeCost uint64
}

// reader is one who watches everything. Its fields are guarded by the feed's lock, but for ready.
type reader struct {
	view
	earlier []entry // what is told first
	next    uint64  // the number of the next event
	cost    uint64  // what all events before it cost
	err     error   // why it was cut off
	// wakeAt and wakeCost are when it is to be woken.
	wakeAt, wakeCost uint64
	ready            chan struct{} // has room for one
}

func newFeed() feed {
	return feed{readers: map[*reader]struct{}{}, wakeAt: math.MaxUint64, wakeCost: math.MaxUint64}
}

// join has a reader told the events that come from now on, behind the earlier ones.
func (f *feed) join(v view, earlier []entry) *reader {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &reader{view: v, earlier: earlier, next: f.end(), cost: f.total, ready: make(chan struct{}, 1)}
	r.sleep()
	f.readers[r] = struct{}{}
	return r
}

// leave ends a reader, which may be cut off already.
func (f *feed) leave(r *reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.readers, r)
	f.trim()
}

// close has readers told that nothing more comes, once they have taken what is held.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for r := range f.readers {
		r.wake()
	}
}

// end is the number of the next event. mu is held.
func (f *feed) end() uint64 { return f.first + uint64(len(f.kept())) }

// add holds an event for the readers. Those who are too far behind are cut off.
func (f *feed) add(e entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.readers) == 0 {
		return
	}
	e.field = f.encoder.Told(e.event).Field
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

// cutOff ends the readers that have not taken the oldest event.
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

// trim drops the events that every reader has taken. mu is held.
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

// run sends batches to a reader until ctx ends, send fails, the feed is closed (fault.Stopping), or the reader is cut off. If
// limit is not 0, a batch has up to limit events, and events gather while they come fast: so the reader is not woken
// for each of them.
func (f *feed) run(ctx context.Context, r *reader, limit int, send func([]event.Told) error) error {
	gathers := limit > 0
	if limit = min(limit, maxBatch); !gathers {
		limit = singly
	}
	timer := time.NewTimer(gatherFor)
	defer timer.Stop()
	var batch []event.Told
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
// fault.Stopping when there will be none, or errBehind.
func (f *feed) take(ctx context.Context, r *reader, batch []event.Told, limit int) ([]event.Told, error) {
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

// taken appends to a batch what there is. mu is held.
func (f *feed) taken(r *reader, batch []event.Told, limit int) []event.Told {
	oldest := r.next == f.first
	for bytes := 0; len(batch) < limit; {
		e := f.peek(r)
		if e == nil || len(batch) > 0 && bytes+e.cost > maxBatchBytes {
			break
		}
		if !r.hides(e) {
			if frames := r.skipped(e); frames > 0 {
				batch = append(batch, event.Told{Event: unwatchedGap(e, "", frames)})
				continue
			}
			batch = append(batch, event.Told{Event: e.event, Field: e.field})
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

// peek returns the reader's next event; nil: there is none yet. mu is held.
func (f *feed) peek(r *reader) *entry {
	switch {
	case len(r.earlier) > 0:
		return &r.earlier[0]
	case r.next < f.end():
		return &f.kept()[r.next-f.first]
	}
	return nil
}

// gather waits until there are so many events for a reader, or maxBatchBytes, or there will be none, or until enough
// is told or ctx ends.
func (f *feed) gather(ctx context.Context, r *reader, events int, enough <-chan time.Time) error {
	f.mu.Lock()
	full := len(r.earlier) > 0 || f.closed || r.err != nil
	if full = full || f.end() >= r.next+uint64(events) || f.total >= r.cost+maxBatchBytes; !full {
		r.wakeAt, r.wakeCost = r.next+uint64(events), r.cost+maxBatchBytes
		f.wakeAt, f.wakeCost = min(f.wakeAt, r.wakeAt), min(f.wakeCost, r.wakeCost)
		select {
		case <-r.ready: // it was about what is taken by now
		default:
		}
	}
	f.mu.Unlock()
	if full {
		return nil
	}
	return r.wait(ctx, enough)
}

// wait waits until the reader is woken, enough is told or ctx ends.
func (r *reader) wait(ctx context.Context, enough <-chan time.Time) error {
	select {
	case <-r.ready:
	case <-enough:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
