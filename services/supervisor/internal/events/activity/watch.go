package activity

import (
	"cmp"
	"context"
	"errors"
	"github.com/acphost/acphost/internal/limits"
	"io"
	"slices"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/events/replay"
)

const (
	// maxBehind and maxBehindBytes limit how far a watcher of a session may be behind before it is disconnected, in
	// events and in their bytes of memory.
	maxBehind      = 8192
	maxBehindBytes = limits.Behind
)

// view selects the events of the queue that a new watcher gets.
type view struct {
	after uint64 // events of frames up to this one are sent in another way
	// Up to missable, unneeded frames may be missing here; missed of them are reported.
	missed, missable uint64
}

// hides reports whether an event is sent in another way.
func (v *view) hides(e *entry) bool { return e.seq <= v.after }

// skipped returns how many frames are missing before an event, and counts them as reported.
func (v *view) skipped(e *entry) uint64 {
	skipped := min(e.skips, v.missable)
	if skipped <= v.missed {
		return 0
	}
	frames := skipped - v.missed
	v.missed = skipped
	return frames
}

// unwatchedGap reports frames that are missing before an event, since there were no watchers; 0: their number is
// unknown.
func unwatchedGap(e *entry, session string, frames uint64) *supervisorv1.Event {
	return replay.Gap(e.event.GetAgentId(), session, frames, whyUnwatched, e.event.GetTime().AsTime())
}

// watcher watches a session or an agent. A watcher of everything is a reader.
type watcher struct {
	view
	hub     *Hub
	port    *port         // of the agent
	session string        // empty: the whole agent
	sub     *Subscription // nil: not a subscription
	out     outbox
}

// WatchEvents sends the events of all agents, sessions and handlers: those after the cursor that are still in memory,
// then live ones, until ctx ends or send fails. If limit is not 0, it sends up to limit events at once, up to 10 ms
// later; 0: those available. An empty cursor, or "now", means future events only. Errors: fault.TooOld for a cursor
// that is too old, fault.Exhausted for a watcher that is too slow, fault.Stopping after all events if the Hub is
// closed. Events are shared: send must not change them, and must not keep the slice.
func (h *Hub) WatchEvents(ctx context.Context, cursor string, limit int, send func([]event.Encoded) error) error {
	var at replay.Position
	if cursor != "" && cursor != replay.Now {
		var ok bool
		if at, ok = replay.Parse(cursor); !ok {
			return fault.New(fault.Invalid, "%q is not a cursor; use the cursor of a received event, or none", cursor)
		}
		if at.Instance != h.opts.Instance {
			return fault.New(fault.TooOld, "the cursor %q is of another supervisor; watch a session, or begin without a cursor", cursor)
		}
	}
	r, err := h.joinAll(at)
	if err != nil {
		return err
	}
	defer h.leaveAll(r)
	return h.feed.run(ctx, r, limit, send)
}

// joinAll adds a reader of everything. The reader gets future events and, if at is a position, the events after it that
// are in memory.
func (h *Hub) joinAll(at replay.Position) (*reader, error) {
	defer h.lock()()
	v := h.view()
	if at.Seq > h.seq {
		return nil, fault.New(fault.Invalid, "the cursor %q was never sent", at.Text)
	}
	var earlier []entry
	if at.Seq > 0 {
		kept, skips, whole := h.recent.behind(at)
		if !whole {
			return nil, fault.New(fault.TooOld, "what happened behind the cursor %q is not in memory any more; watch a session, or begin without a cursor", at.Text)
		}
		v.after, v.missed = 0, skips
		earlier = slices.Clone(kept)
	}
	h.all++
	h.watching++
	h.processDelayed()
	return h.feed.join(v, earlier), nil
}

func (h *Hub) leaveAll(r *reader) {
	h.feed.leave(r)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all--
	h.left()
}

// view returns the view of a watcher that starts now. Both locks are held.
func (h *Hub) view() view { return view{after: h.seq, missed: h.skips, missable: h.skips} }

// newWatcher returns a watcher of future events that has not joined yet. Both locks are held.
func (h *Hub) newWatcher(p *port, session string) *watcher {
	return &watcher{view: h.view(), hub: h, port: p, session: session, out: newOutbox()}
}

// offerAll offers the events in memory. skips unneeded frames preceded them.
func (w *watcher) offerAll(kept []entry, skips uint64) {
	w.after, w.missed = 0, skips
	for _, e := range kept {
		w.offer(e)
	}
}

// join adds a watcher. Both locks are held.
func (h *Hub) join(w *watcher) {
	h.watchers[w] = struct{}{}
	h.count(w, 1)
	if w.sub == nil {
		h.watching++
	}
	h.processDelayed()
	if h.closed {
		w.shut()
	}
}

// processDelayed processes the delayed items for a new watcher. Both locks are held.
func (h *Hub) processDelayed() {
	if h.resting {
		h.awake()
	}
}

func (h *Hub) leave(w *watcher) {
	defer h.lock()()
	if _, ok := h.watchers[w]; ok {
		delete(h.watchers, w)
		h.count(w, -1)
		if w.sub == nil {
			h.left()
		}
	}
}

// shut ends the watch because the Hub is closed.
func (w *watcher) shut() {
	if w.sub != nil {
		w.out.end(io.EOF)
		return
	}
	w.out.end(errStopping)
}

// left records that a watcher has left. h.mu is held.
func (h *Hub) left() {
	if h.watching--; h.watching == 0 && h.drained != nil {
		close(h.drained)
		h.drained = nil
	}
}

// count updates the counters with which the data path decides which frames are needed. Both locks are held.
func (h *Hub) count(w *watcher, n int) {
	if w.session == "" {
		w.port.watched += n
		return
	}
	if w.port.sessions[w.session] += n; w.port.sessions[w.session] == 0 {
		delete(w.port.sessions, w.session)
	}
}

// offer queues an event for the watcher, if it matches.
func (w *watcher) offer(e entry) {
	if w.hides(&e) || e.event.GetAgentId() != w.port.id || w.session != "" && e.event.GetSessionId() != w.session {
		return
	}
	if w.skipped(&e) > 0 { // they may belong to other sessions
		w.push(entry{event: unwatchedGap(&e, w.session, 0), cost: eventCost})
	}
	w.push(e)
}

// miss reports to the watcher that frames of an agent were lost.
func (w *watcher) miss(p *port, e entry) {
	switch {
	case w.hides(&e), w.port != p:
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
		w.out.fail(errBehind)
		return
	}
	w.out.add(e)
}

// run sends queued events until ctx ends, send fails, or the watcher is disconnected.
func (w *watcher) run(ctx context.Context, send func(*supervisorv1.Event) error) error {
	var last string
	for {
		e, err := w.out.next(ctx, nil)
		if err != nil {
			return ended(err, last)
		}
		last = cmp.Or(e.event.GetCursor(), last)
		if err := send(e.event); err != nil {
			return err
		}
	}
}

// errStopping ends watches when the Hub is closed.
var errStopping = fault.New(fault.Stopping, "the supervisor is stopping")

// ended returns the error of a watch that ended after the event with cursor last. Nil: the watch ended normally.
func ended(err error, last string) error {
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case !errors.Is(err, errBehind):
		return err
	case last == "":
		return fault.New(fault.Exhausted, "the watcher did not keep up; call again with the cursor of the last event that it received")
	}
	return fault.New(fault.Exhausted, "the watcher did not keep up; call again with the cursor %q of the last event that was sent", last)
}
