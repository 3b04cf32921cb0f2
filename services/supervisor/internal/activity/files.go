package activity

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// filesGap is how long after a response of WatchFiles the next one is sent, so that many changes make one.
const filesGap = 100 * time.Millisecond

// ListFiles lists the files that agents work with. An agent is meant by its id or its name.
func (h *Hub) ListFiles(ctx context.Context, req *supervisorv1.ListFilesRequest) (*supervisorv1.ListFilesResponse, error) {
	if err := h.Sync(ctx); err != nil {
		return nil, err
	}
	return &supervisorv1.ListFilesResponse{Sessions: h.files(req.GetAgentId(), req.GetSessionId())}, nil
}

// files are those that are not cold now.
func (h *Hub) files(agent, session string) []*supervisorv1.SessionFiles {
	h.mu.Lock()
	meant := map[string]bool{}
	for id, p := range h.ports {
		meant[id] = agent == "" || agent == id || agent == p.agent.Load().Name
	}
	h.mu.Unlock()
	return h.fold.Files(func(agentID, sessionID string) bool {
		return meant[agentID] && (session == "" || session == sessionID)
	})
}

// WatchFiles sends the files that agents work with: all of them, then what has changed since, until ctx ends or send fails.
// While send waits for a slow reader nothing is queued: what it is sent then is the difference to what it has. Nil: the Hub
// was closed.
func (h *Hub) WatchFiles(ctx context.Context, req *supervisorv1.WatchFilesRequest, send func(*supervisorv1.WatchFilesResponse) error) error {
	h.watchesFiles(1)
	defer h.watchesFiles(-1)
	if err := h.Sync(ctx); err != nil {
		return err
	}
	told := toldFiles{}
	for first := true; ; first = false {
		changed := h.filesChanged()
		response, cooling := told.difference(h.files(req.GetAgentId(), req.GetSessionId()))
		if first || len(response.GetSessions()) > 0 {
			if err := send(response); err != nil {
				return err
			}
		}
		if !h.pause(ctx) {
			return ctx.Err()
		}
		if cooling { // it is looked at again after each pause
			continue
		}
		select {
		case <-changed:
		case <-h.ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pause waits for filesGap; false: there is no reason to go on.
func (h *Hub) pause(ctx context.Context) bool {
	timer := time.NewTimer(filesGap)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-h.ended:
	case <-ctx.Done():
	}
	return false
}

// watchesFiles counts those who watch files. Calls of agents do not rest while there are any.
func (h *Hub) watchesFiles(more int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.filers += more; h.resting {
		h.awake()
	}
}

// filesChanged returns what is closed once files may have changed otherwise than by cooling down.
func (h *Hub) filesChanged() <-chan struct{} {
	h.tell.Lock()
	defer h.tell.Unlock()
	if h.filed == nil {
		h.filed = make(chan struct{})
	}
	return h.filed
}

// tellFiles wakes those who watch files. tell is held.
func (h *Hub) tellFiles() {
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

// toldFiles are the sessions that a watcher knows.
type toldFiles map[sessionKey]toldSession

// toldSession is what a watcher knows of a session: its files by path, and how full its context is.
type toldSession struct {
	files map[string]toldFile
	usage *supervisorv1.ContextUsage
}

// toldFile is what may change of a file.
type toldFile struct {
	heat                    float64
	reads, writes, reported uint32
	seconds                 int64
	nanos                   int32
	action, refused         supervisorv1.FileAction
	inContext               bool
}

func toldOf(f *supervisorv1.TouchedFile) toldFile {
	return toldFile{
		heat: f.GetHeat(), reads: f.GetReads(), writes: f.GetWrites(), reported: f.GetReported(),
		seconds: f.GetTime().GetSeconds(), nanos: f.GetTime().GetNanos(), action: f.GetAction(), refused: f.GetRefused(), inContext: f.GetInContext(),
	}
}

// difference is what a watcher does not know yet of all files, and counts as told. cooling: some change by themselves.
func (t toldFiles) difference(all []*supervisorv1.SessionFiles) (r *supervisorv1.WatchFilesResponse, cooling bool) {
	r = &supervisorv1.WatchFilesResponse{}
	there := map[sessionKey]bool{}
	for _, s := range all {
		key := sessionKey{s.GetAgentId(), s.GetSessionId()}
		there[key] = true
		known, old := t[key]
		now := toldSession{make(map[string]toldFile, len(s.GetFiles())), s.GetUsage()}
		changed := &supervisorv1.SessionFiles{AgentId: s.GetAgentId(), SessionId: s.GetSessionId(), Roots: s.GetRoots()}
		for _, file := range s.GetFiles() {
			cooling = cooling || !file.GetInContext()
			is := toldOf(file)
			now.files[file.GetPath()] = is
			if was, told := known.files[file.GetPath()]; !told || was != is {
				changed.Files = append(changed.Files, file)
			}
		}
		changed.Removed = gone(known.files, now.files)
		if !proto.Equal(known.usage, now.usage) {
			changed.Usage = now.usage
		}
		t[key] = now
		if !old || len(changed.GetFiles())+len(changed.GetRemoved()) > 0 || changed.GetUsage() != nil {
			r.Sessions = append(r.Sessions, changed)
		}
	}
	for key, known := range t {
		if there[key] {
			continue
		}
		delete(t, key)
		if removed := gone(known.files, nil); len(removed) > 0 {
			r.Sessions = append(r.Sessions, &supervisorv1.SessionFiles{AgentId: key.agent, SessionId: key.session, Removed: removed})
		}
	}
	return r, cooling
}

// gone are the files of before that are not there any more.
func gone(before, now map[string]toldFile) (paths []string) {
	for path := range before {
		if _, there := now[path]; !there {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}
