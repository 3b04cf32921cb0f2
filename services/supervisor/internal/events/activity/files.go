package activity

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/events/heat"
)

const (
	// filesGap is the minimum time between two responses of WatchFiles, so that many changes share one response. If
	// finding and sending the changes takes long, the gap is restFactor times as long, up to maxFilesGap: so files that
	// cool down use at most a twentieth of a processor.
	filesGap    = 100 * time.Millisecond
	maxFilesGap = time.Second
	restFactor  = 20
)

// ListFiles lists the files that agents work with. The request names an agent by id or name.
func (h *Hub) ListFiles(ctx context.Context, req *supervisorv1.ListFilesRequest) (*supervisorv1.ListFilesResponse, error) {
	if err := h.Sync(ctx); err != nil {
		return nil, err
	}
	return &supervisorv1.ListFilesResponse{Sessions: h.files(req.GetAgentId(), req.GetSessionId())}, nil
}

// files returns the files that are not cold now.
func (h *Hub) files(agent, session string) []*supervisorv1.SessionFiles {
	meant := h.filesMeant(agent)
	return h.fold.Files(func(agentID, sessionID string) bool {
		return meant[agentID] && (session == "" || session == sessionID)
	})
}

// filesMeant returns the ids of the present agents with an id or name.
func (h *Hub) filesMeant(agent string) map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	meant := map[string]bool{}
	for id, p := range h.ports {
		meant[id] = agent == "" || agent == id || agent == p.agent.Load().Name
	}
	return meant
}

// WatchFiles sends the files that agents work with: all of them, then changes, until ctx ends or send fails. It queues
// nothing while send blocks: afterwards it sends the difference to the reader's state. fault.Stopping: the Hub was
// closed.
func (h *Hub) WatchFiles(ctx context.Context, req *supervisorv1.WatchFilesRequest, send func(*supervisorv1.WatchFilesResponse) error) error {
	h.watchesFiles(1)
	defer h.watchesFiles(-1)
	if err := h.Sync(ctx); err != nil {
		return err
	}
	sent := sentFiles{sessions: map[sessionKey]*sentSession{}}
	for first := true; ; first = false {
		changed := h.filesChanged()
		began := time.Now()
		response, cooling := sent.difference(h, req)
		if first {
			event.LatestFirst(response.GetSessions())
		}
		if first || len(response.GetSessions()) > 0 {
			if err := send(response); err != nil {
				return err
			}
		}
		if !h.pause(ctx, min(max(filesGap, restFactor*time.Since(began)), maxFilesGap)) {
			return cmp.Or(ctx.Err(), error(errStopping))
		}
		if cooling { // check again after each pause
			continue
		}
		select {
		case <-changed:
		case <-h.ended:
			return errStopping
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pause waits for gap; false: ctx ended or the Hub was closed.
func (h *Hub) pause(ctx context.Context, gap time.Duration) bool {
	timer := time.NewTimer(gap)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-h.ended:
	case <-ctx.Done():
	}
	return false
}

// watchesFiles changes the number of file watchers. While there are any, calls of agents are processed at once.
func (h *Hub) watchesFiles(more int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.filers += more; h.resting {
		h.awake()
	}
}

// filesChanged returns a channel that is closed when files change, except by cooling down.
func (h *Hub) filesChanged() <-chan struct{} {
	h.stateMu.Lock()
	defer h.stateMu.Unlock()
	if h.filed == nil {
		h.filed = make(chan struct{})
	}
	return h.filed
}

// notifyFiles wakes the file watchers. stateMu is held.
func (h *Hub) notifyFiles() {
	if h.filed != nil {
		close(h.filed)
		h.filed = nil
	}
}

// aboutFiles reports whether an event may change which files are hot.
func aboutFiles(e *supervisorv1.Event) bool {
	switch e.GetEvent().(type) {
	case *supervisorv1.Event_Agent, *supervisorv1.Event_SessionOpened, *supervisorv1.Event_TurnStarted, *supervisorv1.Event_TurnEnded, *supervisorv1.Event_Usage, *supervisorv1.Event_SessionClosed:
		return true
	}
	return len(e.GetTouches()) > 0
}

// sentFiles holds the sessions that a watcher has been sent.
type sentFiles struct {
	sessions map[sessionKey]*sentSession
	looks    uint64
}

// sentSession is the state of a session that a watcher has been sent: its files, up to a mark, and the usage of its
// context.
type sentSession struct {
	paths map[string]struct{}
	mark  heat.Mark
	usage *supervisorv1.ContextUsage
	// closed reports that the watcher was sent the session's end.
	closed bool
	look   uint64 // number of the last lookup that found it
}

// difference returns the changes that a watcher has not been sent, and counts them as sent. cooling reports that some
// files change with time.
func (t *sentFiles) difference(h *Hub, req *supervisorv1.WatchFilesRequest) (r *supervisorv1.WatchFilesResponse, cooling bool) {
	r = &supervisorv1.WatchFilesResponse{}
	t.looks++
	meant := h.filesMeant(req.GetAgentId())
	found := 0
	h.fold.EachFiles(func(k *event.KnownFiles) {
		if !meant[k.AgentID] || req.GetSessionId() != "" && req.GetSessionId() != k.SessionID {
			return
		}
		key := sessionKey{k.AgentID, k.SessionID}
		known := t.sessions[key]
		isNew := known == nil
		if isNew {
			known = &sentSession{paths: map[string]struct{}{}}
		}
		c := k.Since(known.mark)
		if k.Closed && !c.Warm {
			return
		}
		t.sessions[key] = known
		known.look = t.looks
		found++
		cooling = cooling || c.Cooling
		changed := known.take(c)
		if usage := k.Usage(); usage != known.usage && !proto.Equal(usage, known.usage) {
			known.usage, changed.Usage = usage, usage
		}
		if isNew || k.Closed != known.closed || len(changed.GetFiles())+len(changed.GetRemoved()) > 0 || changed.GetUsage() != nil {
			changed.AgentId, changed.SessionId, changed.Roots, changed.Closed = k.AgentID, k.SessionID, k.Roots(), k.Closed
			known.closed = k.Closed
			r.Sessions = append(r.Sessions, changed)
		}
	})
	if found == len(t.sessions) {
		return r, cooling
	}
	for key, known := range t.sessions {
		if known.look == t.looks {
			continue
		}
		delete(t.sessions, key)
		if len(known.paths) > 0 || !known.closed {
			r.Sessions = append(r.Sessions, &supervisorv1.SessionFiles{
				AgentId: key.agent, SessionId: key.session, Removed: slices.Sorted(maps.Keys(known.paths)), Closed: true,
			})
		}
	}
	return r, cooling
}

// take counts a change as sent, and returns it as a message.
func (s *sentSession) take(c heat.Change) *supervisorv1.SessionFiles {
	changed := &supervisorv1.SessionFiles{Files: c.Files, Removed: slices.DeleteFunc(c.Cold, func(path string) bool { return !s.knows(path) })}
	if c.Whole {
		there := make(map[string]struct{}, len(c.Files))
		for _, file := range c.Files {
			there[file.GetPath()] = struct{}{}
		}
		for path := range s.paths {
			if _, ok := there[path]; !ok {
				changed.Removed = append(changed.Removed, path)
			}
		}
		s.paths = there
	} else {
		for _, file := range c.Files {
			s.paths[file.GetPath()] = struct{}{}
		}
	}
	for _, path := range changed.GetRemoved() {
		delete(s.paths, path)
	}
	slices.Sort(changed.GetRemoved())
	s.mark = c.Mark
	return changed
}

func (s *sentSession) knows(path string) bool {
	_, ok := s.paths[path]
	return ok
}
