// Package activity tells what happens in a supervisor. Some readers watch everything, some watch one session (its record
// first, then live), and some wait for the events of a turn that they began.
//
// The package stands beside the data path. Under one lock, each frame gets its number, its time and its place in the journal.
// If a reader needs the frame, a copy goes to a bounded queue. One goroutine makes events of these frames, adds them to the
// state of the sessions, and hands them to readers. A reader cannot slow an agent down, with one exception: a subscription
// loses no event, so the agent waits while it is full.
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
	"github.com/acphost/acphost/services/supervisor/internal/event"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/journal"
	"github.com/acphost/acphost/services/supervisor/internal/replay"
)

const (
	// DefaultMaxQueued bounds the bytes of frames that wait to become events.
	DefaultMaxQueued = 16 << 20
	// DefaultMaxRecent bounds the bytes of events that are kept for those who come back.
	DefaultMaxRecent = 4 << 20
	// DefaultPatience is how long a subscription may stay full and unread.
	DefaultPatience = 30 * time.Second

	// maxRecentEvents bounds their number.
	maxRecentEvents = 4096
	// maxSessions bounds the sessions whose names are known.
	maxSessions = 1 << 16
)

// Options are what a Hub is made of. A zero field stands for the default.
type Options struct {
	// Instance tells this supervisor from all others; cursors begin with it. Required; the journal has the same.
	Instance string
	// Journal keeps the frames. Nil: none is kept, and what is replayed comes from memory.
	Journal *journal.Journal
	// MaxQueued, MaxRecent and Patience: see the defaults.
	MaxQueued, MaxRecent int
	Patience             time.Duration
	// TurnGrace is how long a session must be quiet after the answer to a prompt, until its turn's end is an event. Updates that
	// come meanwhile are part of the turn. 0: the answer ends the turn.
	TurnGrace time.Duration
	// SecretVariables are patterns for names of variables ("*_TOKEN") whose values in calls of agents are secrets beside
	// those that look like it.
	SecretVariables []string
	// Told is told each event before those who watch, also of frames that only the state of sessions needs, with the name of its
	// agent, if it has one. It is called by one goroutine, must not wait, and must not keep the event. Nil: nobody is.
	Told func(agent string, ev *supervisorv1.Event)
	// Logger is told when events are lost, once each time it begins. Nil: nobody is.
	Logger *slog.Logger
	// Now is the clock. Nil: the system's.
	Now func() time.Time
}

// Hub takes frames and tells events. Safe for concurrent use.
type Hub struct {
	opts    Options
	journal *journal.Journal // nil: none, or one without content
	wake    chan struct{}    // has room for one
	ended   chan struct{}    // the goroutine is

	// mu is on the path of every frame.
	mu      sync.Mutex
	seq     uint64
	queue   []item
	spare   []item
	held    int  // bytes that are queued or worked on
	resting bool // what is queued wakes nobody yet
	losses  []loss
	skips   uint64 // frames that nobody needed, so far
	all     int    // who watch everything
	// watching is how many calls of WatchEvents and WatchSession are told live. drained is closed when there are none any more;
	// nil: nobody waits for it.
	watching int
	drained  chan struct{}
	filers   int // who watch files
	ports    map[string]*port
	room     chan struct{} // closed when there may be some, if somebody waits for it
	waiting  int
	closed   bool

	said time.Time // when a loss was logged; the goroutine's: whose frames find no room must not wait for the log

	// tell guards what is known and who is told. It is taken before mu.
	tell     sync.Mutex
	fold     *event.Fold
	recent   ring
	watchers map[*watcher]struct{} // of a session or an agent
	feed     feed                  // for those who watch everything
	filed    chan struct{}         // closed when files were used, or may have begun to cool; nil: nobody waits for it
	// sessions are those that were opened here. The value is the number of the frame that opened the session anew, by
	// session/new or session/fork, after an earlier session of this id: an agent that was started again may number its
	// sessions from the beginning. 0: there was no earlier one.
	sessions map[sessionKey]uint64
	turnEnds map[sessionKey]*turnEnd // of turns whose late updates are waited for
}

type sessionKey struct{ agent, session string }

// New starts a Hub. Close it before the journal.
func New(o Options) *Hub {
	o.MaxQueued = cmp.Or(max(o.MaxQueued, 0), DefaultMaxQueued)
	o.MaxRecent = cmp.Or(max(o.MaxRecent, 0), DefaultMaxRecent)
	o.Patience = cmp.Or(max(o.Patience, 0), DefaultPatience)
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

// lock takes both locks, and returns what gives them back.
func (h *Hub) lock() (unlock func()) {
	h.tell.Lock()
	h.mu.Lock()
	return func() {
		h.mu.Unlock()
		h.tell.Unlock()
	}
}

// Close tells what is queued, ends all watching and waits for the goroutine. Frames that come later go to the journal
// alone. It may be called more than once.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.freed()
	h.mu.Unlock()
	h.awake()
	<-h.ended
}

// Drain waits until everybody who watched when the Hub was closed was told everything and has left, or ctx ends.
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

// Observer numbers what passes an agent's link, which may be a new one: what is known of the agent stays.
func (h *Hub) Observer(agent *frame.Agent) frame.Observer {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.port(agent.ID)
	p.agent.Store(agent)
	return p
}

// Queued returns the bytes of frames and events that wait, or are being worked on.
func (h *Hub) Queued() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}

// cursor names the events of a frame.
func (h *Hub) cursor(seq uint64) string { return replay.Cursor(h.opts.Instance, seq) }

// Publish tells an event that no frame says: an agent's state, a handler's. It gets its cursor, and the time if it has
// none; the event is the Hub's from then on.
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

// Tell records and tells a notification of acphost's to an agent's client, as if a link had passed it on.
func (h *Hub) Tell(agentID string, line []byte) {
	h.mu.Lock()
	p := h.ports[agentID]
	h.mu.Unlock()
	if p != nil {
		p.Frame(frame.Frame{Direction: frame.OursToClient, Line: line})
	}
}

// Show fills in what events have told of a session. See event.Fold.
func (h *Hub) Show(agentID string, s *supervisorv1.Session) {
	h.tell.Lock()
	defer h.tell.Unlock()
	h.fold.Show(agentID, s) // may have much to copy, for which no frame should wait
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.ports[agentID]; p != nil && p.incomplete {
		s.Incomplete = true
	}
}

// Sync waits until every frame and event that came before the call is known to Show, and was handed to those who watch.
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

// CloseSessions tells that an agent is gone and its sessions with it, for a reason in a few words.
func (h *Hub) CloseSessions(agentID, reason string) {
	h.tell.Lock()
	open := h.fold.Open(agentID)
	h.tell.Unlock()
	for _, id := range open {
		h.Tell(agentID, event.AppendClosed(nil, id, reason))
	}
}

// Forget drops what is known of an agent that is gone for good.
func (h *Hub) Forget(agentID string) {
	h.tell.Lock()
	defer h.tell.Unlock()
	h.fold.Forget(agentID)
	h.tellFiles()
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

// run is the goroutine that makes events and tells them.
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
				if batch[i].mark != nil { // whoever waits for it finds the room of what came before it
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

// end ends all watching.
func (h *Hub) end() {
	h.tell.Lock()
	defer h.tell.Unlock()
	for w := range h.watchers {
		w.shut()
	}
	h.feed.close()
	for key, end := range h.turnEnds {
		h.drop(key, end)
	}
}

// handle makes events of an item, and tells them.
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
	if h.opts.Told != nil {
		for _, ev := range events {
			h.opts.Told(it.agent(), ev)
		}
	}
	h.tell.Lock()
	defer h.tell.Unlock()
	for _, ev := range events {
		if opened := ev.GetSessionOpened(); opened != nil {
			h.opened(sessionKey{ev.GetAgentId(), ev.GetSessionId()}, opened.GetMethod(), it.seq)
		}
		// What a frame says is there twice as a rule, typed and raw.
		e := entry{event: ev, seq: it.seq, skips: it.skips, cost: eventCost + 2*it.cost/len(events)}
		if it.cost > briefAbove { // its events may leave out most of it
			e.cost = eventCost + proto.Size(ev)
		}
		for _, touch := range ev.GetTouches() {
			e.cost += touchCost + len(touch.GetPath())
		}
		h.know(e)
		if aboutFiles(ev) {
			h.tellFiles()
		}
		for w := range h.watchers {
			w.offer(e)
		}
	}
	if it.port != nil {
		h.holdTurnEnds(it.port)
	}
}

// opened notes that a frame opened a session. tell is held.
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

// openedAnew returns the position before the frame that opened a session anew; the zero one if there was no earlier
// session of its id.
func (h *Hub) openedAnew(agentID, session string) replay.Position {
	defer h.lock()()
	if seq := h.sessions[sessionKey{agentID, session}]; seq > 1 {
		return replay.Position{Instance: h.opts.Instance, Seq: seq - 1}
	}
	return replay.Position{}
}

// know adds an event to what is known and to what is kept, and tells those who watch everything. tell is held.
func (h *Hub) know(e entry) {
	h.fold.Apply(e.event)
	h.recent.add(e)
	h.feed.add(e)
}

// lose says that frames found no room.
func (h *Hub) lose(it *item) {
	gap := replay.Gap(it.port.id, "", it.lost, whyBusy, h.opts.Now())
	if h.opts.Told != nil {
		h.opts.Told(it.agent(), gap)
	}
	e := entry{event: gap, seq: it.seq, skips: it.skips, cost: eventCost}
	if h.said.IsZero() || time.Since(h.said) >= sayAgain {
		h.said = time.Now()
		h.opts.Logger.Warn("what happens cannot be followed as fast as it happens; whoever watches is told what is missing", "agent", it.port.agent.Load().Name, "frames", it.lost)
	}
	h.tell.Lock()
	defer h.tell.Unlock()
	h.know(e)
	for w := range h.watchers {
		w.miss(it.port, e)
	}
}
