package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/acp-go-sdk"
)

// record is the stored state of a session.
type record struct {
	SessionID   acp.SessionId     `json:"sessionId"`
	Cwd         string            `json:"cwd"`
	Directories []string          `json:"additionalDirectories,omitempty"`
	Title       string            `json:"title,omitempty"`
	UpdatedAt   time.Time         `json:"updatedAt"`
	Settings    settings          `json:"settings"`
	Updates     []json.RawMessage `json:"updates"` // the session's history, as it was sent to the client
}

// Limits of a session's stored history: its latest updates, without huge ones.
const (
	mostUpdates   = 2000
	longestUpdate = 64 << 10
)

// session is an open session.
type session struct {
	id  acp.SessionId
	cwd string

	opened json.RawMessage // the _meta that it was opened with; nil: none

	mu        sync.Mutex
	record    record
	cancel    context.CancelFunc // of the turn under way
	turns     int                // that were begun
	cancelled int                // turns up to this one are cancelled when they begin
}

func newSession(r record) *session { return &session{id: r.SessionID, cwd: r.Cwd, record: r} }

// enter begins a turn; leave ends it.
func (s *session) enter(ctx context.Context) (turn context.Context, leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.turns++ // it has come, and is over
		return nil, nil, acp.NewInvalidRequest(object{"error": "the session has a turn under way"})
	}
	ctx, cancel := context.WithCancel(ctx)
	s.cancel = cancel
	if s.turns++; s.turns <= s.cancelled {
		cancel()
	}
	return ctx, func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cancel = nil
	}, nil
}

// stop cancels the active turn, if any, and those of the given number of received prompts, which the library begins
// later.
func (s *session) stop(prompts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelled = prompts
	if s.cancel != nil {
		s.cancel()
	}
}

// asked adds a prompt to the history and returns its text.
func (s *session) asked(blocks []json.RawMessage) (string, error) {
	var all strings.Builder
	for _, raw := range blocks {
		var b struct{ Type, Text string }
		if err := json.Unmarshal(raw, &b); err != nil {
			return "", acp.NewInvalidParams(object{"prompt": err.Error()})
		}
		if b.Type == "text" {
			all.WriteString(b.Text)
		}
		update, err := json.Marshal(object{"sessionUpdate": "user_message_chunk", "content": raw})
		if err != nil {
			return "", err
		}
		s.remember(update)
	}
	text := all.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.record.Title == "" {
		title, _, _ := strings.Cut(text, "\n")
		s.record.Title = string([]rune(title)[:min(60, len([]rune(title)))])
	}
	return text, nil
}

func (s *session) remember(update json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.UpdatedAt = time.Now().UTC().Truncate(time.Second)
	if len(update) > longestUpdate {
		return
	}
	if s.record.Updates = append(s.record.Updates, update); len(s.record.Updates) > mostUpdates {
		s.record.Updates = slices.Delete(s.record.Updates, 0, len(s.record.Updates)-mostUpdates)
	}
}

// snapshot is a copy of what is kept.
func (s *session) snapshot() record {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.record
	r.Updates = slices.Clone(r.Updates)
	return r
}

type sessionParams struct {
	SessionID acp.SessionId `json:"sessionId"`
}

type openParams struct {
	SessionID   acp.SessionId `json:"sessionId"`
	Cwd         string        `json:"cwd"`
	Directories []string      `json:"additionalDirectories"`

	Meta json.RawMessage `json:"_meta"`
}

func unknownSession(id acp.SessionId) error {
	return &acp.RequestError{Code: -32002, Message: "Resource not found: session " + string(id), Data: object{"sessionId": id}}
}

// session is the open session of that id.
func (a *agent) session(id acp.SessionId) (*session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.sessions[id]; s != nil {
		return s, nil
	}
	return nil, unknownSession(id)
}

// open makes a session of what is kept, and returns the answer that opens it.
func (a *agent) open(r record, meta json.RawMessage) (*session, object, error) {
	if err := a.authorized(); err != nil {
		return nil, nil, err
	}
	s := newSession(r)
	s.opened = meta
	s.turns = a.wire.prompted(s.id)
	a.mu.Lock()
	a.sessions[s.id] = s
	a.mu.Unlock()
	return s, a.offer(r.Settings), a.kept.save(s)
}

func (a *agent) create(r record, meta json.RawMessage) (any, error) {
	r.SessionID = acp.SessionId("demo-" + rand.Text())
	r.UpdatedAt = time.Now().UTC().Truncate(time.Second)
	s, answer, err := a.open(r, meta)
	if err != nil {
		return nil, err
	}
	answer["sessionId"] = s.id
	line, err := json.Marshal(object{"jsonrpc": "2.0", "method": acp.ClientMethodSessionUpdate, "params": object{
		"sessionId": s.id, "update": object{"sessionUpdate": "available_commands_update", "availableCommands": availableCommands()},
	}})
	if err != nil {
		return nil, err
	}
	a.wire.follow(string(s.id), append(line, '\n'))
	return answer, nil
}

func (a *agent) newSession(_ context.Context, p openParams) (any, error) {
	return a.create(record{Cwd: p.Cwd, Directories: p.Directories, Settings: defaultSettings()}, p.Meta)
}

// find finds a session that is open or stored.
func (a *agent) find(id acp.SessionId) (record, error) {
	if s, err := a.session(id); err == nil {
		return s.snapshot(), nil
	}
	return a.kept.load(id)
}

func (a *agent) resumeSession(_ context.Context, p openParams) (any, error) {
	_, answer, err := a.reopen(p)
	return answer, err
}

func (a *agent) loadSession(ctx context.Context, p openParams) (any, error) {
	s, answer, err := a.reopen(p)
	if err != nil {
		return nil, err
	}
	for _, update := range s.snapshot().Updates {
		if err := a.tell(ctx, s.id, update); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

func (a *agent) reopen(p openParams) (*session, object, error) {
	if err := a.authorized(); err != nil {
		return nil, nil, err
	}
	r, err := a.find(p.SessionID)
	if err != nil {
		return nil, nil, err
	}
	r.Cwd, r.Directories = p.Cwd, p.Directories
	return a.open(r, p.Meta)
}

func (a *agent) forkSession(_ context.Context, p openParams) (any, error) {
	r, err := a.find(p.SessionID)
	if err != nil {
		return nil, err
	}
	r.Title = "Fork of " + r.Title
	r.Cwd, r.Directories = p.Cwd, p.Directories
	return a.create(r, p.Meta)
}

// pageSize is small, so that a test with a few sessions gets a cursor.
const pageSize = 3

func (a *agent) listSessions(_ context.Context, p struct {
	Cwd    string `json:"cwd"`
	Cursor string `json:"cursor"`
}) (any, error) {
	all, err := a.kept.list()
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	for id, s := range a.sessions {
		if !slices.ContainsFunc(all, func(r record) bool { return r.SessionID == id }) {
			all = append(all, s.snapshot())
		}
	}
	a.mu.Unlock()
	all = slices.DeleteFunc(all, func(r record) bool { return p.Cwd != "" && r.Cwd != p.Cwd })
	slices.SortFunc(all, func(x, y record) int { return strings.Compare(string(x.SessionID), string(y.SessionID)) })
	from := 0
	if p.Cursor != "" {
		if from, err = strconv.Atoi(p.Cursor); err != nil || from < 0 || from > len(all) {
			return nil, acp.NewInvalidParams(object{"cursor": p.Cursor})
		}
	}
	to := min(from+pageSize, len(all))
	list := []object{}
	for _, r := range all[from:to] {
		info := object{"sessionId": r.SessionID, "cwd": r.Cwd, "title": r.Title, "updatedAt": r.UpdatedAt.Format(time.RFC3339)}
		if len(r.Directories) > 0 {
			info["additionalDirectories"] = r.Directories
		}
		list = append(list, info)
	}
	answer := object{"sessions": list}
	if to < len(all) {
		answer["nextCursor"] = strconv.Itoa(to)
	}
	return answer, nil
}

func (a *agent) closeSession(_ context.Context, p sessionParams) (any, error) {
	s, err := a.session(p.SessionID)
	if err != nil {
		return nil, err
	}
	s.stop(a.wire.prompted(s.id))
	a.mu.Lock()
	delete(a.sessions, s.id)
	a.mu.Unlock()
	return object{}, nil
}

func (a *agent) deleteSession(ctx context.Context, p sessionParams) (any, error) {
	_, err := a.closeSession(ctx, p)
	if deleted := a.kept.remove(p.SessionID); !errors.Is(deleted, fs.ErrNotExist) {
		err = deleted
	}
	return object{}, err
}
