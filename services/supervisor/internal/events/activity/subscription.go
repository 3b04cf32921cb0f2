package activity

import (
	"context"
	"io"
	"time"

	"github.com/acphost/acphost/internal/fault"
	"github.com/acphost/acphost/internal/panics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

const (
	// A subscription is full when it holds subscribedEvents events, or as many bytes as the queue may have. It has room
	// again at half of that.
	subscribedEvents = 1024
	subscribedShare  = 4
	// subscribedFactor times these limits is its maximum: many events of an agent do not pass its client's writer, so
	// that WaitRoom does not delay them.
	subscribedFactor = 16
	// pacedShare is the share of the queue that agents may use whose clients wait for room. It is small, so that
	// another watcher that is as fast as the subscription has room for the same events.
	pacedShare = 8
)

// Subscription receives each event of a session once and in order, without loss: while it is full, WaitRoom makes the
// agent's client wait. A subscription that stays full and unread for the Hub's UnreadTimeout is cancelled. Safe for
// concurrent use.
type Subscription struct {
	hub     *Hub
	watcher *watcher

	// Set while it is full; guarded by the outbox's lock.
	timer *time.Timer
	read  time.Time // when it was last read, or became full
}

// Subscribe returns a subscription to future events of a session, or of the whole agent if sessionID is empty. The
// caller closes it.
func (h *Hub) Subscribe(agentID, sessionID string) *Subscription {
	defer h.lock()()
	s := &Subscription{hub: h, watcher: h.newWatcher(h.port(agentID), sessionID)}
	s.watcher.sub = s
	h.join(s.watcher)
	return s
}

// Next waits for the next event. The error is that of ctx, fault.Exhausted if the subscription was cancelled, or io.EOF
// if it or the Hub was closed and all events were read. Events are shared: do not change them.
func (s *Subscription) Next(ctx context.Context) (*supervisorv1.Event, error) {
	e, err := s.watcher.out.next(ctx, s.taken)
	return e.event, err
}

// Close ends the subscription, and releases calls that wait for its room.
func (s *Subscription) Close() {
	s.hub.leave(s.watcher)
	out := &s.watcher.out
	out.end(io.EOF)
	out.mu.Lock()
	defer out.mu.Unlock()
	s.hasRoom()
}

func (s *Subscription) bytes() int { return s.hub.opts.MaxQueued / subscribedShare }

// push queues an event.
func (s *Subscription) push(e entry) {
	out := &s.watcher.out
	out.mu.Lock()
	defer out.mu.Unlock()
	if !out.fits(e, subscribedFactor*subscribedEvents, subscribedFactor*s.bytes()) {
		s.fail(fault.New(fault.Exhausted, "more happened than can be held for one who does not read; the turn goes on"))
		return
	}
	out.add(e)
	if s.timer == nil && out.err == nil && !out.fits(entry{}, subscribedEvents, s.bytes()) {
		s.read = time.Now()
		s.timer = time.AfterFunc(s.hub.opts.UnreadTimeout, panics.Guard(s.hub.opts.Logger, "waiting for a reader of events", s.checkUnread))
		s.hub.full(s.watcher.port, 1)
	}
}

// taken records that an event was read. The outbox's lock is held.
func (s *Subscription) taken() {
	switch {
	case s.timer == nil:
	case s.watcher.out.fits(entry{}, subscribedEvents/2, s.bytes()/2):
		s.hasRoom()
	default:
		s.read = time.Now()
	}
}

// checkUnread cancels the subscription if it was not read meanwhile.
func (s *Subscription) checkUnread() {
	s.watcher.out.mu.Lock()
	defer s.watcher.out.mu.Unlock()
	switch left := s.hub.opts.UnreadTimeout - time.Since(s.read); {
	case s.timer == nil:
	case left > 0:
		s.timer.Reset(left)
	default:
		s.fail(fault.New(fault.Exhausted, "nothing was read for %v while much was waiting; the turn goes on", s.hub.opts.UnreadTimeout))
	}
}

// cut ends the subscription with an error.
func (s *Subscription) cut(err error) {
	s.watcher.out.mu.Lock()
	defer s.watcher.out.mu.Unlock()
	s.fail(err)
}

func (s *Subscription) fail(err error) {
	s.watcher.out.fail(err)
	s.hasRoom()
}

// hasRoom marks the subscription as not full. The outbox's lock is held.
func (s *Subscription) hasRoom() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
		s.hub.full(s.watcher.port, -1)
	}
}

// full changes the number of an agent's full subscriptions.
func (h *Hub) full(p *port, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.full += n; p.full == 0 {
		h.freed()
	}
}

// WaitRoom waits until there is room for an agent's next message: in the queue and in each subscription to the agent.
// The writer to the agent's client calls it before each message. From the first call on, the agent's frames are dropped
// only at four times the usual queue limit.
func (h *Hub) WaitRoom(ctx context.Context, agentID string) error {
	for {
		h.mu.Lock()
		p := h.port(agentID)
		p.paced = true
		if h.closed || p.full == 0 && h.held < h.opts.MaxQueued/pacedShare {
			h.mu.Unlock()
			return nil
		}
		if h.room == nil {
			h.room = make(chan struct{})
		}
		h.waiting++
		room := h.room
		h.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
