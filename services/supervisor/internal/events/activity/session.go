package activity

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
	"github.com/acphost/acphost/services/supervisor/internal/events/replay"
)

const (
	// catchUpRounds limits how often the record is read again before a watcher goes live. If fewer than catchUpEnough
	// frames have passed meanwhile, the record is not read again.
	catchUpRounds = 8
	catchUpEnough = 1024
)

// WatchSession sends the events of a session: those after the cursor from the record, then live, without gaps or
// duplicates, until ctx ends or send fails. For a session of an ended supervisor it sends the recorded events, and
// returns nil. Without a record it sends the events in memory. A Gap event marks missing events. Errors: fault.Invalid
// for an unknown cursor, fault.NotFound for an unknown session, fault.Exhausted for a watcher that is too slow,
// fault.Stopping after all events if the Hub is closed. Events are shared: send must not change them.
func (h *Hub) WatchSession(ctx context.Context, req *supervisorv1.WatchSessionRequest, send func(*supervisorv1.Event) error) error {
	at, err := replay.Begin(req)
	if err != nil {
		return err
	}
	if h.journal != nil {
		if err := h.journal.Flush(ctx); err != nil { // write pending frames to the file
			return err
		}
	}
	if err := h.Sync(ctx); err != nil { // make the list of sessions complete
		return err
	}
	var parts []journal.Part
	if h.opts.Journal != nil {
		if parts, err = replay.Parts(h.opts.Journal.Dir(), req.GetSessionId()); err != nil {
			return err
		}
	}
	s, err := h.find(req.GetAgentId(), req.GetSessionId(), parts)
	if err != nil {
		return err
	}
	if s.port != nil { // this supervisor's part is the last
		s.parts = replay.OneSession(s.parts, replay.Position{})
		if at.Seq == 0 { // events before belong to an earlier session with this id
			at = h.openedAnew(s.port.id, s.session)
		}
	} else {
		s.parts = replay.OneSession(s.parts, at)
	}
	s.send = send
	switch {
	case req.GetCursor() == replay.Now && s.port == nil, req.GetCursor() == replay.Now && req.GetNoFollow():
		return nil
	case req.GetCursor() == replay.Now:
		w := s.joinLive()
		defer h.leave(w)
		return w.run(ctx, send)
	case s.port != nil && h.journal == nil:
		return s.fromMemory(ctx, at, req.GetNoFollow())
	}
	return s.fromRecord(ctx, at, req.GetNoFollow())
}

// watched is a session that is being watched.
type watched struct {
	hub     *Hub
	port    *port // nil: not a session of this supervisor
	session string
	parts   []journal.Part
	send    func(*supervisorv1.Event) error
}

// find searches for a session in this supervisor and in the parts of the record.
func (h *Hub) find(agent, session string, parts []journal.Part) (*watched, error) {
	s := &watched{hub: h, session: session}
	ports := h.portsOf(session, parts)
	if agent != "" {
		ports = slices.DeleteFunc(ports, func(p *port) bool { return p.id != agent && p.agent.Load().Name != agent })
	}
	names := map[string]bool{}
	for _, p := range ports {
		names[p.id] = true
	}
	if len(ports) > 1 {
		return nil, replay.Ambiguous(session, names)
	}
	if len(ports) == 1 {
		s.port = ports[0]
		agent = cmp.Or(s.port.agent.Load().Name, s.port.id)
	}
	for _, part := range parts {
		own := s.port != nil && part.Header.Instance == h.opts.Instance
		switch {
		case own && part.Header.AgentID != s.port.id,
			!own && agent != "" && part.Header.Agent != agent && part.Header.AgentID != agent:
			continue
		}
		names[part.Header.Agent] = true
		s.parts = append(s.parts, part)
	}
	slices.SortStableFunc(s.parts, func(a, b journal.Part) int { // the part that may grow is last
		return cmp.Compare(h.grows(s, a), h.grows(s, b))
	})
	switch {
	case s.port == nil && len(s.parts) == 0:
		return nil, replay.NotFound(session)
	case s.port == nil && len(names) > 1:
		return nil, replay.Ambiguous(session, names)
	}
	return s, nil
}

// grows returns 1 for a part that this supervisor writes, else 0.
func (h *Hub) grows(s *watched, part journal.Part) int {
	if s.port != nil && part.Header.Instance == h.opts.Instance {
		return 1
	}
	return 0
}

// portsOf returns the ports of this supervisor's agents that have, or had, a session with that id.
func (h *Hub) portsOf(session string, parts []journal.Part) []*port {
	defer h.lock()()
	ids := map[string]bool{}
	for key := range h.sessions {
		if key.session == session {
			ids[key.agent] = true
		}
	}
	for _, part := range parts {
		if part.Header.Instance == h.opts.Instance {
			ids[part.Header.AgentID] = true
		}
	}
	var ports []*port
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if p := h.ports[id]; p != nil {
			ports = append(ports, p)
		}
	}
	return ports
}

// joinLive adds a watcher of future events. Its after is the number of the last frame before them.
func (s *watched) joinLive() *watcher {
	defer s.hub.lock()()
	w := s.hub.newWatcher(s.port, s.session)
	s.hub.join(w)
	return w
}

// fromMemory sends the events in memory, then live ones.
func (s *watched) fromMemory(ctx context.Context, at replay.Position, noFollow bool) error {
	w, err := s.joinMemory(at, noFollow)
	if err != nil {
		return err
	}
	defer s.hub.leave(w)
	return w.run(ctx, s.send)
}

// joinMemory returns a watcher that gets the events in memory, and future ones unless noFollow is set.
func (s *watched) joinMemory(at replay.Position, noFollow bool) (*watcher, error) {
	h := s.hub
	defer h.lock()()
	if at.Seq != 0 && (at.Instance != h.opts.Instance || at.Seq > h.seq) {
		return nil, fault.New(fault.Invalid, "the cursor %q is not known here, where sessions are not recorded", at.Text)
	}
	w := h.newWatcher(s.port, s.session)
	kept, skips, whole := h.recent.behind(at)
	if at.Seq == 0 {
		whole = h.recent.goneSeq == 0
	}
	if !whole { // report the gap once
		w.push(entry{event: replay.Gap(s.port.id, s.session, 0, whyNoRecord, h.opts.Now()), cost: eventCost})
		skips = h.skips
	}
	w.offerAll(kept, skips)
	if noFollow {
		w.out.end(io.EOF)
	} else {
		h.join(w)
	}
	return w, nil
}

// fromRecord sends the recorded events, then live ones.
func (s *watched) fromRecord(ctx context.Context, at replay.Position, noFollow bool) error {
	h := s.hub
	r := &replay.Session{ID: s.session, Parts: s.parts, Send: s.send, Logger: h.opts.Logger}
	if s.port != nil {
		r.Own, r.Agent = h.opts.Instance, s.port.id
	}
	defer r.Close()
	if err := r.Seek(at, h.last()); err != nil {
		return err
	}
	if s.port == nil {
		return r.Replay(ctx, ^uint64(0))
	}
	// Read a long record before joining, so that no live events queue up meanwhile.
	upTo := h.last()
	for range catchUpRounds {
		if err := s.flushed(ctx, r, upTo); err != nil {
			return err
		}
		if noFollow {
			return s.missing(upTo)
		}
		last := h.last()
		if last-upTo < catchUpEnough {
			break
		}
		upTo = last
	}
	w := s.joinLive()
	defer h.leave(w)
	if err := s.flushed(ctx, r, w.after); err != nil {
		return err
	}
	if err := s.missing(w.after); err != nil {
		return err
	}
	r.Close()
	return w.run(ctx, s.send)
}

// flushed sends the recorded events up to a frame of this supervisor, once that is written.
func (s *watched) flushed(ctx context.Context, r *replay.Session, upTo uint64) error {
	if err := s.hub.journal.Flush(ctx); err != nil {
		return err
	}
	return r.Replay(ctx, upTo)
}

// missing reports the frames that the record of this supervisor lacks. Frames after upTo may still be sent live.
func (s *watched) missing(upTo uint64) error {
	frames, last := s.hub.journal.Unwritten(s.port.id, s.session)
	switch {
	case frames == 0:
		return nil
	case last > upTo:
		frames = 0
	}
	return s.send(replay.Gap(s.port.id, s.session, frames, whyUnwritten, s.hub.opts.Now()))
}

// last returns the number of the latest frame.
func (h *Hub) last() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seq
}
