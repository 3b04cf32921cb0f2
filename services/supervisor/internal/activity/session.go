package activity

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
	"github.com/acphost/acphost/services/supervisor/internal/journal"
)

const (
	// catchUpRounds is how often the record is read on before a watcher is told live. If fewer frames than catchUpEnough
	// have passed meanwhile, the record is not read again.
	catchUpRounds = 8
	catchUpEnough = 1024
)

// WatchSession tells the events of a session: those behind the cursor from the record, then live, without a hole and none
// twice, until ctx ends or send fails. Of a session of supervisors that ended it tells what is recorded, and returns nil.
// Where there is no record it tells what is in memory. A Gap stands where events are missing. A cursor that is not known
// is fault.Invalid, a session fault.NotFound; one who does not keep up is cut off with fault.Exhausted. Events are
// shared: send must not change them.
func (h *Hub) WatchSession(ctx context.Context, req *supervisorv1.WatchSessionRequest, send func(*supervisorv1.Event) error) error {
	at, err := begin(req)
	if err != nil {
		return err
	}
	if h.journal != nil {
		if err := h.journal.Flush(ctx); err != nil { // what is there is in its file
			return err
		}
	}
	if err := h.Sync(ctx); err != nil { // and which sessions there are is known
		return err
	}
	var parts []journal.Part
	if h.opts.Journal != nil {
		if parts, err = recorded(h.opts.Journal.Dir(), req.GetSessionId()); err != nil {
			return err
		}
	}
	s, err := h.find(req.GetAgentId(), req.GetSessionId(), parts)
	if err != nil {
		return err
	}
	s.send = send
	switch {
	case req.GetCursor() == now && s.port == nil, req.GetCursor() == now && req.GetNoFollow():
		return nil
	case req.GetCursor() == now:
		w := s.joinLive()
		defer h.leave(w)
		return w.run(ctx, send)
	case s.port != nil && h.journal == nil:
		return s.fromMemory(ctx, at, req.GetNoFollow())
	}
	return s.fromRecord(ctx, at, req.GetNoFollow())
}

// Recorded tells what the journals in a folder have of a session, as WatchSession does of one that ended. No supervisor
// needs to run.
func Recorded(ctx context.Context, dir string, req *supervisorv1.WatchSessionRequest, send func(*supervisorv1.Event) error) error {
	at, err := begin(req)
	if err != nil {
		return err
	}
	parts, err := recorded(dir, req.GetSessionId())
	if err != nil {
		return err
	}
	h := &Hub{opts: Options{Logger: slog.New(slog.DiscardHandler), Now: time.Now}}
	s, err := h.find(req.GetAgentId(), req.GetSessionId(), parts)
	if err != nil || req.GetCursor() == now {
		return err
	}
	s.send = send
	return s.fromRecord(ctx, at, true)
}

// begin returns the position of a request's cursor; a zero one if the request begins nowhere in particular.
func begin(req *supervisorv1.WatchSessionRequest) (at position, err error) {
	if req.GetSessionId() == "" {
		return at, fault.New(fault.Invalid, "the request names no session")
	}
	if c := req.GetCursor(); c != "" && c != now {
		var ok bool
		if at, ok = parseCursor(c); !ok {
			return at, fault.New(fault.Invalid, "%q is no cursor; take that of an event that was told, \"now\", or none", c)
		}
	}
	return at, nil
}

func recorded(dir, session string) ([]journal.Part, error) {
	parts, err := journal.Parts(dir, session)
	if err != nil {
		return nil, fmt.Errorf("look for session %q in the record: %w", session, err)
	}
	return parts, nil
}

// watched is a session that is watched.
type watched struct {
	hub     *Hub
	port    *port // nil: it is not one of this supervisor's
	session string
	parts   []journal.Part
	send    func(*supervisorv1.Event) error
}

// find looks for a session among those of this supervisor and in the parts of the record.
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
		return nil, ambiguous(session, names)
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
	slices.SortStableFunc(s.parts, func(a, b journal.Part) int { // the one that may grow is the last
		return cmp.Compare(h.grows(s, a), h.grows(s, b))
	})
	switch {
	case s.port == nil && len(s.parts) == 0:
		return nil, fault.New(fault.NotFound, "there is no session %q here, and none in the record", session)
	case s.port == nil && len(names) > 1:
		return nil, ambiguous(session, names)
	}
	return s, nil
}

// grows is 1 for a part that this supervisor writes.
func (h *Hub) grows(s *watched, part journal.Part) int {
	if s.port != nil && part.Header.Instance == h.opts.Instance {
		return 1
	}
	return 0
}

func ambiguous(session string, agents map[string]bool) error {
	return fault.New(fault.Invalid, "several agents have a session %q; say which one: %s", session, strings.Join(slices.Sorted(maps.Keys(agents)), ", "))
}

// portsOf are the agents of this supervisor that have, or had, a session of that id.
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

// joinLive has a watcher told the events to come. Its after is the number of the last frame before them.
func (s *watched) joinLive() *watcher {
	defer s.hub.lock()()
	w := s.hub.newWatcher(s.port, s.session)
	s.hub.join(w)
	return w
}

// fromMemory tells what is in memory, then live.
func (s *watched) fromMemory(ctx context.Context, at position, noFollow bool) error {
	w, err := s.joinMemory(at, noFollow)
	if err != nil {
		return err
	}
	defer s.hub.leave(w)
	return w.run(ctx, s.send)
}

// joinMemory has a watcher told the events that are in memory, and those to come unless it is not to follow.
func (s *watched) joinMemory(at position, noFollow bool) (*watcher, error) {
	h := s.hub
	defer h.lock()()
	if at.seq != 0 && (at.instance != h.opts.Instance || at.seq > h.seq) {
		return nil, fault.New(fault.Invalid, "the cursor %q is not known here, where sessions are not recorded", at.text)
	}
	w := h.newWatcher(s.port, s.session)
	kept, skips, whole := h.recent.behind(at)
	if at.seq == 0 {
		whole = h.recent.goneSeq == 0
	}
	if !whole { // it is said once
		w.push(entry{event: gapEvent(s.port.id, s.session, 0, whyNoRecord, h.opts.Now()), cost: eventCost})
		skips = h.skips
	}
	w.offerAll(kept, skips)
	if noFollow {
		w.out.end()
	} else {
		h.join(w)
	}
	return w, nil
}

// fromRecord tells what is recorded, then live.
func (s *watched) fromRecord(ctx context.Context, at position, noFollow bool) error {
	h := s.hub
	r := &replay{watched: s}
	defer r.close()
	if err := r.seek(at); err != nil {
		return err
	}
	if s.port == nil {
		return r.tell(ctx, ^uint64(0))
	}
	// A long record is told without having live events wait meanwhile.
	upTo := h.last()
	for range catchUpRounds {
		if err := r.flushed(ctx, upTo); err != nil {
			return err
		}
		if noFollow {
			return r.missing(upTo)
		}
		last := h.last()
		if last-upTo < catchUpEnough {
			break
		}
		upTo = last
	}
	w := s.joinLive()
	defer h.leave(w)
	if err := r.flushed(ctx, w.after); err != nil {
		return err
	}
	if err := r.missing(w.after); err != nil {
		return err
	}
	r.close()
	return w.run(ctx, s.send)
}

// last is the number of the last frame that passed.
func (h *Hub) last() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seq
}
