// Package session keeps the state of each session of one agent: roots, mode, turn and tool calls. The link records each
// message here in the order of the wire, so that a decision uses the state at the time of the agent's request.
//
// The package decides nothing. It must not know routes or handlers.
package session

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/ordered"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// Limits on the state of one session, so that an agent cannot make the supervisor grow without bound.
const (
	maxToolCalls     = 4096
	maxToolCallBytes = 32 << 20
)

// ErrUnknown means that a call names an unknown session.
var ErrUnknown = errors.New("unknown session")

// Options configure a Table.
type Options struct {
	// Agent is the agent's configured name.
	Agent string
	// ExtraRoots are added to the roots of every session.
	ExtraRoots []*acpv1.Root
	// Opened and Closed, if set, are called once each for a scope when it begins and ends, from the goroutine that
	// records the message. They must not block, nor call the Table.
	Opened, Closed func(scope string)
	// TurnEnded, if set, is called at the end of each prompt, under the same conditions.
	TurnEnded func(scope string)
	// Changed, if set, is called after each change of the set of sessions, of their roots and modes, and of turns,
	// under the same conditions.
	Changed func()
	// Now returns the time; time.Now if nil.
	Now func() time.Time
}

// Table holds the sessions of one agent. It is safe for concurrent use. Messages must be recorded in the order of the
// wire.
type Table struct {
	opts Options

	mu       sync.Mutex
	turns    uint64 // number of turns in all sessions
	version  uint32
	sessions ordered.Map[string, *state]
	opening  map[string]*state
	prompts  map[string]*state          // by the canonical id of the client's session/prompt
	settings map[string]setting         // by the canonical id of the client's session/set_mode
	children ordered.Map[string, child] // by the id of the child session
	past     ordered.Map[string, bool]  // ids of ended sessions
}

// state is the state of one session. The Table's mu guards its fields.
type state struct {
	id      string
	scope   string
	home    string // the first root at opening, which selects the session's handlers
	roots   []*acpv1.Root
	mode    string
	started time.Time
	// replaying counts the unanswered requests that load the session. Until they are answered, all updates are history.
	replaying int
	isNew     bool // the request that creates it is not answered yet
	unproved  bool // it is being loaded, and may not exist at the agent
	turns     uint64
	newest    uint64 // the number of its newest turn, in Table.turns
	prompting int
	foreign   bool // the current turn is not the client's own
	accepted  int  // those of prompting whose prompts are answered, and that end when the session is idle
	givenUp   bool // the client has cancelled the current turn
	stop      string
	cancelled bool // the last turn was cancelled: its open tool calls never end
	updates   uint64

	tools     ordered.Map[string, *tool]
	revision  uint64 // the last assigned revision
	toolBytes int
	digests   map[string]string
}

// New returns an empty Table.
func New(o Options) *Table {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Table{
		opts:     o,
		version:  1,
		opening:  map[string]*state{},
		prompts:  map[string]*state{},
		settings: map[string]setting{},
	}
}

// change locks the Table for a change that affects decisions. end reports the change and unlocks the Table.
func (t *Table) change() (end func()) {
	t.mu.Lock()
	return func() {
		t.changed()
		t.mu.Unlock()
	}
}

func (t *Table) changed() {
	if t.opts.Changed != nil {
		t.opts.Changed()
	}
}

// SetProtocolVersion records the protocol version of the agent's answer. Handlers get it with every call.
func (t *Table) SetProtocolVersion(v int) {
	defer t.change()()
	if v > 0 {
		t.version = uint32(v)
	}
}

// Opening records a client's request that opens a session. reqID is the canonical id of the request.
func (t *Table) Opening(reqID, method string, o acp.Opening) {
	defer t.change()()
	switch method {
	case acp.MethodSessionNew, acp.MethodSessionFork:
		st := t.newState("")
		st.setRoots(t.rootsOf(o))
		st.isNew = true
		t.opening[reqID] = st
	default: // load, resume: the id is known, and the roots replace the earlier ones
		st := t.sessions.At(o.SessionID)
		if st == nil {
			st = t.newState(o.SessionID)
			st.unproved = true
			t.adopt(st, o.SessionID)
		}
		st.setRoots(t.rootsOf(o))
		st.replaying++
		t.opening[reqID] = st
	}
}

// setRoots sets the roots. The first root of a session remains its home.
func (s *state) setRoots(roots []*acpv1.Root) {
	s.roots = roots
	if s.home == "" && len(roots) > 0 {
		s.home = roots[0].GetPath()
	}
}

// Opened records the agent's answer to such a request. failed: the answer is an error.
func (t *Table) Opened(reqID string, o acp.Opened, failed bool) {
	defer t.change()()
	st := t.opening[reqID]
	if st == nil {
		return
	}
	delete(t.opening, reqID)
	made := st.isNew
	st.isNew = false
	if !made && st.replaying > 0 {
		st.replaying--
	}
	if failed {
		if made || st.unproved && st.replaying == 0 {
			t.close(st)
		}
		return
	}
	st.unproved = false
	if made && o.SessionID != "" && st.id != o.SessionID {
		// A call may have arrived before this answer and named the session already. A new session with the id of an
		// open session replaces it: the old scope ends, so that its state is not reachable from the new session.
		t.adopt(st, o.SessionID)
	}
	if o.Mode != "" {
		st.mode = o.Mode
	}
}

// Closed records the end of a session (session/close, session/delete).
func (t *Table) Closed(sessionID string) { t.with(sessionID, t.close) }

// with calls do with a session, if the session is known.
func (t *Table) with(sessionID string, do func(*state)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if st := t.sessions.At(sessionID); st != nil {
		do(st)
	}
}

// CloseAll ends every session, because the agent has ended.
func (t *Table) CloseAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, st := range t.opening {
		t.close(st)
	}
	for _, st := range t.sessions.All() {
		t.close(st)
	}
	clear(t.opening)
	clear(t.prompts)
	clear(t.settings)
}

// Prompted records a session/prompt of the client, or of another caller (foreign). It returns true if a turn begins. It
// returns false during a turn of another caller. The client's own prompts may overlap; the agent decides whether they
// can.
func (t *Table) Prompted(reqID, sessionID string, foreign bool) (begins bool) {
	begins = true
	t.with(sessionID, func(st *state) {
		if st.prompting > 0 && (foreign || st.foreign) {
			begins = false
			return
		}
		st.foreign = foreign
		if st.prompting == 0 {
			t.dropTools(st)
		}
		st.prompting++
		st.turns++
		t.turns++
		st.newest = t.turns
		st.givenUp = false
		t.prompts[reqID] = st
		t.changed()
	})
	return begins
}

// Cancelled records that the client has cancelled the current turn.
func (t *Table) Cancelled(sessionID string) {
	t.with(sessionID, func(st *state) {
		st.givenUp = st.givenUp || st.prompting > 0
		t.changed()
	})
}

// GivenUp reports whether the client has cancelled the current turn, and the agent has not ended it yet.
func (t *Table) GivenUp(sessionID string) (is bool) {
	t.with(sessionID, func(st *state) { is = st.givenUp && st.prompting > 0 })
	return is
}

// TurnEnded records the agent's message that a session's turn has ended, before the answer to the prompt or instead of
// it.
func (t *Table) TurnEnded(sessionID, stopReason string) {
	t.mu.Lock()
	var ended []string
	for id, st := range t.prompts {
		if st.id == sessionID {
			ended = append(ended, id)
		}
	}
	t.mu.Unlock()
	for _, id := range ended {
		t.PromptEnded(id, stopReason)
	}
	t.Idle(sessionID, stopReason)
}

// PromptAccepted records the answer to a session/prompt of ACP v2: the turn continues until the session is idle.
func (t *Table) PromptAccepted(reqID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if st := t.prompts[reqID]; st != nil {
		delete(t.prompts, reqID)
		st.accepted++
	}
}

// Idle records the agent's message that a session is idle. It ends the turns whose prompts the agent accepted.
func (t *Table) Idle(sessionID, stopReason string) {
	t.with(sessionID, func(st *state) {
		if st.accepted > 0 && st.replaying == 0 {
			n := st.accepted
			st.accepted = 0
			t.ended(st, n, stopReason)
		}
	})
}

// PromptEnded records the answer to a session/prompt. stopReason is empty for an error.
func (t *Table) PromptEnded(reqID, stopReason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	st := t.prompts[reqID]
	if st == nil {
		return
	}
	delete(t.prompts, reqID)
	t.ended(st, 1, stopReason)
}

// ended ends n turns of a session.
func (t *Table) ended(st *state, n int, stopReason string) {
	st.prompting -= n
	st.stop = stopReason
	st.cancelled = st.cancelled || stopReason == "cancelled"
	t.changed()
	if st.prompting == 0 && st.scope != "" && t.opts.TurnEnded != nil {
		t.opts.TurnEnded(st.scope)
	}
}

// Updated counts n session/update notifications.
func (t *Table) Updated(sessionID []byte, n uint64) {
	t.mu.Lock()
	if st := t.sessions.At(string(sessionID)); st != nil {
		st.updates += n
	}
	t.mu.Unlock()
}

// Only returns the id of the only session, for a message that names none. open is the number of open sessions,
// including those that are being opened. The id is empty unless there is exactly one.
func (t *Table) Only() (id string, open int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	open = t.sessions.Len()
	for _, st := range t.opening {
		if st.id == "" {
			open++
		}
	}
	if open == 1 && t.sessions.Len() == 1 {
		id = t.sessions.Oldest()
	}
	return id, open
}

// Open returns the ids of the open sessions.
func (t *Table) Open() (ids []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.sessions.All() {
		ids = append(ids, id)
	}
	return ids
}

// Current reports whether the scope and the roots of a CallContext are up to date.
func (t *Table) Current(cc *acpv1.CallContext) (is bool) {
	t.with(cc.GetSessionId(), func(st *state) {
		is = st.scope == cc.GetScope() && slices.EqualFunc(st.roots, cc.GetRoots(), func(a, b *acpv1.Root) bool {
			return a == b || a.GetPath() == b.GetPath() && a.GetReadOnly() == b.GetReadOnly()
		})
	})
	return is
}

// Home returns the first root that a session was opened with, even if its roots have changed; empty: it has no root, or
// is unknown.
func (t *Table) Home(sessionID string) (dir string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if st := t.lookup(sessionID); st != nil {
		dir = st.home
	}
	return dir
}

// Replaying reports whether the messages of a session are history.
func (t *Table) Replaying(sessionID string) (is bool) {
	t.with(sessionID, func(st *state) { is = st.replaying > 0 })
	return is
}

// Turn returns the scope and the number of the latest turn of a session. The scope is empty for an unknown session.
func (t *Table) Turn(sessionID string) (scope string, turn uint64) {
	t.with(sessionID, func(st *state) { scope, turn = st.scope, st.turns })
	return scope, turn
}

// Prompting returns the ids of the sessions with a turn in progress. The session with the newest turn is the first.
func (t *Table) Prompting() (ids []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var sessions []*state
	for _, st := range t.sessions.All() {
		if st.prompting > 0 {
			sessions = append(sessions, st)
		}
	}
	slices.SortFunc(sessions, func(a, b *state) int { return cmp.Compare(b.newest, a.newest) })
	for _, st := range sessions {
		ids = append(ids, st.id)
	}
	return ids
}

// Context returns the CallContext for a routed call of a session. An unknown session has the roots of the only
// session/new in progress, if there is exactly one; otherwise the error is ErrUnknown. The caller owns the message.
func (t *Table) Context(sessionID string) (*acpv1.CallContext, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	st := t.lookup(sessionID)
	if st == nil {
		return nil, ErrUnknown
	}
	return &acpv1.CallContext{
		SessionId:       sessionID,
		Scope:           st.scope,
		Roots:           st.roots,
		Agent:           t.opts.Agent,
		Mode:            st.mode,
		ProtocolVersion: t.version,
	}, nil
}

// Read stores the digest of a file that was read completely.
func (t *Table) Read(scope, path, digest string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if st := t.ofScope(scope); st != nil {
		if len(st.digests) >= maxToolCalls {
			clear(st.digests)
		}
		st.digests[path] = digest
	}
}

// Digest returns the digest of a path that Read stored; "": none.
func (t *Table) Digest(scope, path string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if st := t.ofScope(scope); st != nil {
		return st.digests[path]
	}
	return ""
}

// ofScope returns the session with a scope; nil: none.
func (t *Table) ofScope(scope string) *state {
	for _, st := range t.sessions.All() {
		if st.scope == scope {
			return st
		}
	}
	return nil
}

// lookup finds a session by its id. If the id is unknown and exactly one session/new is in progress, it assigns the id
// to that session.
func (t *Table) lookup(sessionID string) *state {
	if st := t.sessions.At(sessionID); st != nil {
		return st
	}
	if sessionID == "" {
		return nil
	}
	var only *state
	for _, st := range t.opening {
		if st.isNew && st.id == "" {
			if only != nil {
				return nil
			}
			only = st
		}
	}
	if only != nil {
		t.adopt(only, sessionID)
	}
	return only
}

func (t *Table) newState(id string) *state {
	st := &state{id: id, scope: NewScope(), started: t.opts.Now(), digests: map[string]string{}}
	if t.opts.Opened != nil {
		t.opts.Opened(st.scope)
	}
	return st
}

// adopt sets the id of a session. Another session with the id ends. The session's earlier id becomes unknown.
func (t *Table) adopt(st *state, id string) {
	if old := t.sessions.At(id); old != nil && old != st {
		t.close(old)
	}
	if st.id != "" && t.sessions.At(st.id) == st && st.id != id {
		t.sessions.Delete(st.id)
	}
	st.id = id
	t.children.Delete(id) // it is the client's own session now
	t.past.Delete(id)
	t.sessions.Set(id, st)
	t.changed()
}

func (t *Table) close(st *state) {
	if t.sessions.At(st.id) == st {
		t.sessions.Delete(st.id)
		t.endChildren(st.id)
	}
	scope := st.scope
	st.scope = ""
	t.changed()
	if scope != "" && t.opts.Closed != nil {
		t.opts.Closed(scope)
	}
}

func (t *Table) rootsOf(o acp.Opening) []*acpv1.Root {
	var roots []*acpv1.Root
	if o.Cwd != "" {
		roots = append(roots, &acpv1.Root{Path: o.Cwd})
	}
	for _, d := range o.AdditionalDirectories {
		roots = append(roots, &acpv1.Root{Path: d})
	}
	return append(roots, t.opts.ExtraRoots...)
}

// NewScope returns 128 random bits in lower-case hexadecimal, for identifiers that must not be guessable.
func NewScope() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails: see crypto/rand
	return hex.EncodeToString(raw[:])
}
