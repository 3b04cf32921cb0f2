// Package activity publishes the frames and events of a supervisor to readers. Some readers watch everything, some
// watch one session (its record first, then live), and some wait for the events of a turn that they began.
//
// The package observes the data path. Under one lock, each frame gets its number, its time and its place in the
// journal. If a reader needs the frame, a copy goes to a bounded queue. One goroutine converts these frames to events,
// adds them to the state of the sessions, and passes them to readers. A reader cannot delay an agent, with one
// exception: a subscription loses no event, so the agent waits while it is full.
//
// The package knows frames, events and the journal. It decides nothing, and writes to no agent and no client.
package activity

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/panics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
	"github.com/acphost/acphost/services/supervisor/internal/events/replay"
)

const (
	// DefaultMaxQueued is the limit of queued frames, in bytes.
	DefaultMaxQueued = 16 << 20
	// DefaultMaxRecent is the limit of events kept for readers that reconnect, in bytes.
	DefaultMaxRecent = 4 << 20
	// DefaultUnreadTimeout is how long a subscription may stay full and unread.
	DefaultUnreadTimeout = 30 * time.Second

	// maxRecentEvents is the limit of the number of these events.
	maxRecentEvents = 4096
	// maxSessions is the limit of sessions with a known name.
	maxSessions = 1 << 16
)

// Options configure a Hub. A zero field means the default.
type Options struct {
	// Instance is the unique id of this supervisor; cursors begin with it. Required. The journal has the same.
	Instance string
	// Journal records the frames. Nil: frames are not recorded, and replays use the events in memory.
	Journal *journal.Journal
	// MaxQueued, MaxRecent and UnreadTimeout: see the defaults.
	MaxQueued, MaxRecent int
	UnreadTimeout        time.Duration
	// TurnGrace is how long a session must be quiet after the answer to a prompt until the end of its turn is
	// published. Updates during that time belong to the turn. 0: the answer ends the turn.
	TurnGrace time.Duration
	// SecretVariables are patterns for names of variables ("*_TOKEN") whose values in calls of agents are secrets, in
	// addition to values that look like secrets.
	SecretVariables []string
	// OnEvent is called with each event before watchers get it, also with events that only the state of sessions needs,
	// and with the agent's name, if it has one. One goroutine calls it. It must not block or keep the event. Nil: not
	// called.
	OnEvent func(agent string, ev *supervisorv1.Event)
	// Logger logs the start of each loss of events. Nil: nothing is logged.
	Logger *slog.Logger
	// Now is the clock. Nil: the system's.
	Now func() time.Time
}

// Hub receives frames and publishes events. Safe for concurrent use.
type Hub struct {
	opts    Options
	journal *journal.Journal // nil: none, or one without content
	wake    chan struct{}    // buffer of one
	ended   chan struct{}    // closed when the goroutine ends

	// mu is taken for every frame.
	mu      sync.Mutex
	seq     uint64
	queue   []item
	spare   []item
	held    int  // bytes that are queued or being processed
	resting bool // the queued items wake the goroutine only later
	losses  []loss
	skips   uint64 // number of frames not needed so far
	all     int    // watchers of everything
	// watching is the number of calls of WatchEvents and WatchSession that are live. drained is closed when it becomes
	// 0; nil: no call waits for it.
	watching int
	drained  chan struct{}
	filers   int // file watchers
	ports    map[string]*port
	room     chan struct{} // closed when there may be room, if a call waits for it
	waiting  int
	closed   bool

	lossLogged time.Time // when a loss was last logged; used by the goroutine only: the data path must not wait for the log

	// stateMu guards the state of sessions and the watchers. It is taken before mu.
	stateMu  sync.Mutex
	fold     *event.Fold
	recent   ring
	watchers map[*watcher]struct{} // of a session or an agent
	feed     feed                  // for watchers of everything
	filed    chan struct{}         // closed when files were used or may begin to cool; nil: no call waits for it
	// sessions are the sessions opened here. The value is the number of the frame that opened the session again, by
	// session/new or session/fork, after an earlier session with this id: a restarted agent may number its sessions
	// from the beginning. 0: there was no earlier one.
	sessions map[sessionKey]uint64
	turnEnds map[sessionKey]*turnEnd // turns that wait for late updates
}

type sessionKey struct{ agent, session string }

// New starts a Hub. The caller closes it before the journal.
func New(o Options) *Hub {
	o.MaxQueued = cmp.Or(max(o.MaxQueued, 0), DefaultMaxQueued)
	o.MaxRecent = cmp.Or(max(o.MaxRecent, 0), DefaultMaxRecent)
	o.UnreadTimeout = cmp.Or(max(o.UnreadTimeout, 0), DefaultUnreadTimeout)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	h := &Hub{
		opts: o, wake: make(chan struct{}, 1), ended: make(chan struct{}), ports: map[string]*port{},
		fold: event.NewFold(), recent: ring{max: o.MaxRecent},
		watchers: map[*watcher]struct{}{}, feed: newFeed(), sessions: map[sessionKey]uint64{},
		turnEnds: map[sessionKey]*turnEnd{},
	}
	if o.Journal != nil && o.Journal.Content() {
		h.journal = o.Journal
	}
	h.fold.Now = o.Now
	go h.run()
	return h
}

// lock takes both locks, and returns a function that releases them.
func (h *Hub) lock() (unlock func()) {
	h.stateMu.Lock()
	h.mu.Lock()
	return func() {
		h.mu.Unlock()
		h.stateMu.Unlock()
	}
}

// Close publishes the queued events, ends all watches and waits for the goroutine. Later frames only go to the journal.
// It may be called more than once.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.freed()
	h.mu.Unlock()
	h.awake()
	<-h.ended
}

// Drain waits until all watchers that were connected when the Hub was closed have got all events and have left, or ctx
// ends.
func (h *Hub) Drain(ctx context.Context) {
	h.mu.Lock()
	if h.watching == 0 {
		h.mu.Unlock()
		return
	}
	if h.drained == nil {
		h.drained = make(chan struct{})
	}
	drained := h.drained
	h.mu.Unlock()
	select {
	case <-drained:
	case <-ctx.Done():
	}
}

// Observer returns the observer for an agent's link, which may be a new link: the agent's state is kept.
func (h *Hub) Observer(agent *frame.Agent) frame.Observer {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.port(agent.ID)
	p.agent.Store(agent)
	return p
}

// Queued returns the bytes of frames and events that are queued or being processed.
func (h *Hub) Queued() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}

// cursor returns the cursor of a frame's events.
func (h *Hub) cursor(seq uint64) string { return replay.Cursor(h.opts.Instance, seq) }

// Publish publishes an event without a frame, such as a change of an agent's or a handler's state. It sets the cursor,
// and the time if that is not set. The Hub owns the event from then on.
func (h *Hub) Publish(ev *supervisorv1.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.seq++
	ev.Cursor = h.cursor(h.seq)
	if ev.GetTime() == nil {
		ev.Time = timestamppb.New(h.opts.Now())
	}
	h.put(item{event: ev, seq: h.seq, cost: eventCost + proto.Size(ev)})
}

// Notify records and publishes a notification from acphost to an agent's client, as if it had passed a link.
func (h *Hub) Notify(agentID string, line []byte) {
	h.mu.Lock()
	p := h.ports[agentID]
	h.mu.Unlock()
	if p != nil {
		p.Frame(frame.Frame{Direction: frame.OursToClient, Line: line})
	}
}

// Show adds to s the state of a session that results from events. See event.Fold.
func (h *Hub) Show(agentID string, s *supervisorv1.Session) {
	h.stateMu.Lock()
	defer h.stateMu.Unlock()
	h.fold.Show(agentID, s) // it may copy much; frames must not wait for it
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.ports[agentID]; p != nil && p.incomplete {
		s.Incomplete = true
	}
}

// Sync waits until every earlier frame and event is part of the state that Show reads, and was passed to watchers.
func (h *Hub) Sync(ctx context.Context) error {
	done := make(chan struct{})
	h.mu.Lock()
	if !h.closed {
		h.put(item{mark: done, cost: eventCost})
	}
	h.mu.Unlock()
	select {
	case <-done:
	case <-h.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// CloseSessions publishes that the sessions of an agent that has ended are closed; reason is a short reason.
func (h *Hub) CloseSessions(agentID, reason string) {
	h.stateMu.Lock()
	open := h.fold.Open(agentID)
	h.stateMu.Unlock()
	for _, id := range open {
		h.Notify(agentID, event.AppendClosed(nil, id, reason))
	}
}

// Forget drops the state of an agent that will not return.
func (h *Hub) Forget(agentID string) {
	h.stateMu.Lock()
	defer h.stateMu.Unlock()
	h.fold.Forget(agentID)
	h.notifyFiles()
	for key := range h.sessions {
		if key.agent == agentID {
			delete(h.sessions, key)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.ports[agentID]; p != nil && p.watched == 0 && len(p.sessions) == 0 {
		delete(h.ports, agentID)
	}
}

// run is the goroutine that creates events and publishes them.
func (h *Hub) run() {
	defer close(h.ended)
	defer h.end()
	for range h.wake {
		for {
			batch, closed := h.takeQueued()
			if len(batch) == 0 {
				if closed {
					return
				}
				break
			}
			done := 0
			for i := range batch {
				done += batch[i].cost
				if batch[i].mark != nil { // a waiter on the mark finds the room of earlier items released
					h.release(done)
					done = 0
				}
				item := &batch[i]
				panics.Guard(h.opts.Logger, "telling what happened at an agent", func() { h.handle(item) })()
				if done > releaseAt {
					h.release(done)
					done = 0
				}
			}
			h.release(done)
			h.giveBack(batch)
		}
	}
}

// end ends all watches.
func (h *Hub) end() {
	h.stateMu.Lock()
	defer h.stateMu.Unlock()
	for w := range h.watchers {
		w.shut()
	}
	h.feed.close()
	for key, end := range h.turnEnds {
		h.drop(key, end)
	}
}

// handle creates events from an item, and publishes them.
func (h *Hub) handle(it *item) {
	var events []*supervisorv1.Event
	switch {
	case it.mark != nil:
		close(it.mark)
		return
	case it.event != nil:
		events = []*supervisorv1.Event{it.event}
	case it.lost > 0:
		h.lose(it)
		return
	default:
		events = it.port.decode(h, &it.frame)
	}
	if h.opts.OnEvent != nil {
		for _, ev := range events {
			h.opts.OnEvent(it.agent(), ev)
		}
	}
	h.stateMu.Lock()
	defer h.stateMu.Unlock()
	for _, ev := range events {
		if opened := ev.GetSessionOpened(); opened != nil {
			h.opened(sessionKey{ev.GetAgentId(), ev.GetSessionId()}, opened.GetMethod(), it.seq)
		}
		// An event usually contains its frame twice, typed and raw.
		e := entry{event: ev, seq: it.seq, skips: it.skips, cost: eventCost + 2*it.cost/len(events)}
		if it.cost > briefAbove { // events may leave out most of the frame
			e.cost = eventCost + proto.Size(ev)
		}
		for _, touch := range ev.GetTouches() {
			e.cost += touchCost + len(touch.GetPath())
		}
		h.know(e)
		if aboutFiles(ev) {
			h.notifyFiles()
		}
		for w := range h.watchers {
			w.offer(e)
		}
	}
	if it.port != nil {
		h.holdTurnEnds(it.port)
	}
}

// opened records that a frame opened a session. stateMu is held.
func (h *Hub) opened(key sessionKey, method string, seq uint64) {
	anew, known := h.sessions[key]
	switch {
	case !known && len(h.sessions) >= maxSessions:
		return
	case known && (method == acp.MethodSessionNew || method == acp.MethodSessionFork):
		anew = seq
	}
	h.sessions[key] = anew
}

// openedAnew returns the position before the frame that opened a session again; the zero position if there was no
// earlier session with its id.
func (h *Hub) openedAnew(agentID, session string) replay.Position {
	defer h.lock()()
	if seq := h.sessions[sessionKey{agentID, session}]; seq > 1 {
		return replay.Position{Instance: h.opts.Instance, Seq: seq - 1}
	}
	return replay.Position{}
}

// know adds an event to the state and to the recent events, and sends it to watchers of everything. stateMu is held.
func (h *Hub) know(e entry) {
	h.fold.Apply(e.event)
	h.recent.add(e)
	h.feed.add(e)
}

// lose publishes that frames were lost.
func (h *Hub) lose(it *item) {
	gap := replay.Gap(it.port.id, "", it.lost, whyBusy, h.opts.Now())
	if h.opts.OnEvent != nil {
		h.opts.OnEvent(it.agent(), gap)
	}
	e := entry{event: gap, seq: it.seq, skips: it.skips, cost: eventCost}
	if h.lossLogged.IsZero() || time.Since(h.lossLogged) >= logInterval {
		h.lossLogged = time.Now()
		h.opts.Logger.Warn("events are lost, because they occur faster than they can be published; watchers get a notice of each gap", "agent", it.port.agent.Load().Name, "frames", it.lost)
	}
	h.stateMu.Lock()
	defer h.stateMu.Unlock()
	h.know(e)
	for w := range h.watchers {
		w.miss(it.port, e)
	}
}
