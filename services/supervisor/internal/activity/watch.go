package activity

import (
	"context"
	"errors"
	"io"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/event"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
	"github.com/acphost/acphost/services/supervisor/internal/replay"
)

const (
	// maxBehind and maxBehindBytes are how far one who watches may be behind before they are cut off, in events and in what
	// these take in memory.
	maxBehind      = 8192
	maxBehindBytes = 16 << 20
	// maxBatch and maxBatchBytes bound what is sent at once. A single event may have more bytes.
	maxBatch      = 1024
	maxBatchBytes = 1 << 20
	// gatherFor is how long after a batch the next one is sent, if it is not full before.
	gatherFor = 10 * time.Millisecond
)

// watcher is one who watches.
type watcher struct {
	hub     *Hub
	port    *port  // whose agent is watched; nil: all
	session string // empty: all
	after   uint64 // events of frames up to this one are told in another way
	// Of the frames that nobody needed, those up to missable may be missing here; missed were told.
	missed, missable uint64
	batches          bool          // is sent events in batches
	sub              *Subscription // if it is one
	out              outbox
}

// WatchEvents tells the events of all agents, sessions and handlers: those behind the cursor that are still in memory,
// then live, until ctx ends or send fails. An empty cursor, or "now": what happens next. A cursor that is too old is
// fault.TooOld; one who does not keep up is cut off with fault.Exhausted. Events are shared: send must not change them.
// Nil: the Hub was closed.
func (h *Hub) WatchEvents(ctx context.Context, cursor string, send func(*supervisorv1.Event) error) error {
	return h.watchAll(cursor, false, func(w *watcher) error { return w.run(ctx, send) })
}

// WatchBatches is WatchEvents, but tells up to limit events at once. An event is encoded once for all who are told so. send
// must not keep the slice.
func (h *Hub) WatchBatches(ctx context.Context, cursor string, limit int, send func([]*event.Shared) error) error {
	return h.watchAll(cursor, true, func(w *watcher) error { return w.runBatches(ctx, min(limit, maxBatch), send) })
}

func (h *Hub) watchAll(cursor string, batches bool, run func(*watcher) error) error {
	var at replay.Position
	if cursor != "" && cursor != replay.Now {
		var ok bool
		if at, ok = replay.Parse(cursor); !ok {
			return fault.New(fault.Invalid, "%q is no cursor; take that of an event that was told, or none", cursor)
		}
		if at.Instance != h.opts.Instance {
			return fault.New(fault.TooOld, "the cursor %q is of another supervisor; watch a session, or begin without a cursor", cursor)
		}
	}
	w, err := h.joinAll(at, batches)
	if err != nil {
		return err
	}
	defer h.leave(w)
	return run(w)
}

// joinAll adds a watcher of everything. The watcher gets the events to come and, if at is a position, the events behind it
// that are in memory.
func (h *Hub) joinAll(at replay.Position, batches bool) (*watcher, error) {
	defer h.lock()()
	w := h.newWatcher(nil, "")
	w.batches = batches
	if at.Seq > h.seq {
		return nil, fault.New(fault.Invalid, "the cursor %q was never told", at.Text)
	}
	if at.Seq > 0 {
		kept, skips, whole := h.recent.behind(at)
		if !whole {
			return nil, fault.New(fault.TooOld, "what happened behind the cursor %q is not in memory any more; watch a session, or begin without a cursor", at.Text)
		}
		w.offerAll(kept, skips)
	}
	h.join(w)
	return w, nil
}

// newWatcher makes a watcher that can be told what comes from now on. Both locks are held.
func (h *Hub) newWatcher(p *port, session string) *watcher {
	return &watcher{hub: h, port: p, session: session, after: h.seq, missed: h.skips, missable: h.skips, out: newOutbox()}
}

// offerAll offers what is in memory. So many frames that nobody needed passed before it.
func (w *watcher) offerAll(kept []entry, skips uint64) {
	w.after, w.missed = 0, skips
	for _, e := range kept {
		w.offer(e)
	}
}

// join has a watcher told what comes. Both locks are held.
func (h *Hub) join(w *watcher) {
	h.watchers[w] = struct{}{}
	h.count(w, 1)
	if h.resting {
		h.awake()
	}
	if h.closed {
		w.out.end()
	}
}

func (h *Hub) leave(w *watcher) {
	defer h.lock()()
	if _, ok := h.watchers[w]; ok {
		delete(h.watchers, w)
		h.count(w, -1)
	}
}

// count notes, for the data path, whose frames are needed. Both locks are held.
func (h *Hub) count(w *watcher, n int) {
	if w.batches {
		h.batching += n
	}
	switch {
	case w.port == nil:
		h.all += n
	case w.session == "":
		w.port.watched += n
	default:
		if w.port.sessions[w.session] += n; w.port.sessions[w.session] == 0 {
			delete(w.port.sessions, w.session)
		}
	}
}

// offer holds an event for the watcher, if it is one of theirs.
func (w *watcher) offer(e entry) {
	switch {
	case e.seq <= w.after, w.port != nil && e.event.GetAgentId() != w.port.id,
		w.session != "" && e.event.GetSessionId() != w.session:
		return
	}
	if skipped := min(e.skips, w.missable); skipped > w.missed {
		frames := skipped - w.missed
		if w.port != nil {
			frames = 0 // they may be of others
		}
		w.missed = skipped
		gap := replay.Gap(e.event.GetAgentId(), w.session, frames, whyUnwatched, e.event.GetTime().AsTime())
		w.push(entry{event: gap, cost: eventCost})
	}
	w.push(e)
}

// miss tells the watcher that frames of an agent are lost.
func (w *watcher) miss(p *port, e entry) {
	switch {
	case e.seq <= w.after, w.port != nil && w.port != p:
	case w.sub != nil:
		w.sub.cut(fault.New(fault.Exhausted, "what agent %q does cannot be followed as fast as it happens, and something is missing; what it does goes on", e.event.GetAgentId()))
	default:
		w.push(e)
	}
}

func (w *watcher) push(e entry) {
	if w.sub != nil {
		w.sub.push(e)
		return
	}
	w.out.mu.Lock()
	defer w.out.mu.Unlock()
	if !w.out.fits(e, maxBehind, maxBehindBytes) {
		w.out.fail(fault.New(fault.Exhausted, "the watcher did not keep up; call again with the last cursor"))
		return
	}
	w.out.add(e)
}

// run sends what is told until ctx ends, send fails, or the watcher is cut off.
func (w *watcher) run(ctx context.Context, send func(*supervisorv1.Event) error) error {
	for {
		e, err := w.out.next(ctx, nil)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := send(e.event); err != nil {
			return err
		}
	}
}

// runBatches is run, a batch at a time. While events come fast, the watcher is not woken for each of them.
func (w *watcher) runBatches(ctx context.Context, limit int, send func([]*event.Shared) error) error {
	timer := time.NewTimer(gatherFor)
	defer timer.Stop()
	var batch []*event.Shared
	for {
		var err error
		batch, err = w.out.nextBatch(ctx, batch[:0], limit)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		timer.Reset(gatherFor)
		err = send(batch)
		clear(batch)
		if err != nil {
			return err
		}
		if err := w.out.waitFor(ctx, limit, timer.C); err != nil {
			return err
		}
	}
}
