package activity

import (
	"cmp"
	"context"
	"errors"
	"github.com/acphost/acphost/internal/limits"
	"io"
	"slices"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/event"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
	"github.com/acphost/acphost/services/supervisor/internal/replay"
)

const (
	// maxBehind and maxBehindBytes are how far one who watches a session may be behind before they are cut off, in events and
	// in what these take in memory.
	maxBehind      = 8192
	maxBehindBytes = limits.Behind
)

// view is which of the events that are on their way somebody is told who begins to watch.
type view struct {
	after uint64 // events of frames up to this one are told in another way
	// Of the frames that nobody needed, those up to missable may be missing here; missed were told.
	missed, missable uint64
}

// hides reports whether an event is told in another way.
func (v *view) hides(e *entry) bool { return e.seq <= v.after }

// skipped returns how many frames are missing before an event, which counts them as told.
func (v *view) skipped(e *entry) uint64 {
	skipped := min(e.skips, v.missable)
	if skipped <= v.missed {
		return 0
	}
	frames := skipped - v.missed
	v.missed = skipped
	return frames
}

// unwatchedGap says that frames are missing before an event, since nobody watched; 0: it is not known how many.
func unwatchedGap(e *entry, session string, frames uint64) *supervisorv1.Event {
	return replay.Gap(e.event.GetAgentId(), session, frames, whyUnwatched, e.event.GetTime().AsTime())
}

// watcher is one who watches a session or an agent. Who watches everything is a reader.
type watcher struct {
	view
	hub     *Hub
	port    *port         // whose agent is watched
	session string        // empty: all of the agent's
	sub     *Subscription // if it is one
	out     outbox
}

// WatchEvents tells the events of all agents, sessions and handlers: those behind the cursor that are still in memory,
// then live, until ctx ends or send fails. If limit is not 0, up to limit events are told at once, up to 10 ms later; 0: those
// that there are. An empty cursor, or "now": what happens next. A cursor that is too old is fault.TooOld; one who does not
// keep up is cut off with fault.Exhausted; one who was told everything when the Hub is closed gets fault.Stopping. Events are
// shared: send must not change them, and must not keep the slice.
func (h *Hub) WatchEvents(ctx context.Context, cursor string, limit int, send func([]event.Told) error) error {
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
	r, err := h.joinAll(at)
	if err != nil {
		return err
	}
	defer h.leaveAll(r)
	return h.feed.run(ctx, r, limit, send)
}

// joinAll adds a reader of everything. The reader gets the events to come and, if at is a position, the events behind it
// that are in memory.
func (h *Hub) joinAll(at replay.Position) (*reader, error) {
	defer h.lock()()
	v := h.view()
	if at.Seq > h.seq {
		return nil, fault.New(fault.Invalid, "the cursor %q was never told", at.Text)
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
	h.rouse()
	return h.feed.join(v, earlier), nil
}

func (h *Hub) leaveAll(r *reader) {
	h.feed.leave(r)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all--
	h.left()
}

// view is what one is told who begins to watch now. Both locks are held.
func (h *Hub) view() view { return view{after: h.seq, missed: h.skips, missable: h.skips} }

// newWatcher makes a watcher that can be told what comes from now on. Both locks are held.
func (h *Hub) newWatcher(p *port, session string) *watcher {
	return &watcher{view: h.view(), hub: h, port: p, session: session, out: newOutbox()}
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
	if w.sub == nil {
		h.watching++
	}
	h.rouse()
	if h.closed {
		w.shut()
	}
}

// rouse has what rests told to one who began to watch. Both locks are held.
func (h *Hub) rouse() {
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

// shut ends the watching, as the Hub is closed.
func (w *watcher) shut() {
	if w.sub != nil {
		w.out.end(io.EOF)
		return
	}
	w.out.end(errStopping)
}

// left notes that somebody does not watch any more. h.mu is held.
func (h *Hub) left() {
	if h.watching--; h.watching == 0 && h.drained != nil {
		close(h.drained)
		h.drained = nil
	}
}

// count notes, for the data path, whose frames are needed. Both locks are held.
func (h *Hub) count(w *watcher, n int) {
	if w.session == "" {
		w.port.watched += n
		return
	}
	if w.port.sessions[w.session] += n; w.port.sessions[w.session] == 0 {
		delete(w.port.sessions, w.session)
	}
}

// offer holds an event for the watcher, if it is one of theirs.
func (w *watcher) offer(e entry) {
	if w.hides(&e) || e.event.GetAgentId() != w.port.id || w.session != "" && e.event.GetSessionId() != w.session {
		return
	}
	if w.skipped(&e) > 0 { // they may be of others
		w.push(entry{event: unwatchedGap(&e, w.session, 0), cost: eventCost})
	}
	w.push(e)
}

// miss tells the watcher that frames of an agent are lost.
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

// run sends what is told until ctx ends, send fails, or the watcher is cut off.
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

// errStopping ends the watching when the Hub is closed.
var errStopping = fault.New(fault.Stopping, "the supervisor is stopping")

// ended is what one is told for whom there is no next event, and whose last one had a cursor. Nil: nothing more was wanted.
func ended(err error, last string) error {
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case !errors.Is(err, errBehind):
		return err
	case last == "":
		return fault.New(fault.Exhausted, "the watcher did not keep up; call again with the cursor of the last event that it was told")
	}
	return fault.New(fault.Exhausted, "the watcher did not keep up; call again with the cursor %q, behind which it was told nothing", last)
}
