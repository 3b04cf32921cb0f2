// Package session is what the supervisor knows of each ACP session of one agent: its roots, mode, turn and tool calls,
// folded from the messages that pass, in wire order. It decides nothing, and it knows neither routes nor handlers.
package session

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"time"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// Bounds on what is kept of one session, so that no agent can make the supervisor grow without end.
const (
	maxToolCalls     = 4096
	maxToolCallBytes = 32 << 20
)

// ErrUnknown says that a call names a session that is not known here.
var ErrUnknown = errors.New("unknown session")

// Options say how a Book is kept.
type Options struct {
	// Agent is the agent's configured name.
	Agent string
	// ExtraRoots are added to every session's own.
	ExtraRoots []*acpv1.Root
	// Opened and Closed, if set, are told of each scope's life, once each, from the goroutine that folds. They must
	// not block, nor call the Book.
	Opened, Closed func(scope string)
	// TurnEnded, if set, is told of each prompt's end, likewise.
	TurnEnded func(scope string)
	// Now tells the time; time.Now if nil.
	Now func() time.Time
}

// Book holds the sessions of one agent. Safe for concurrent use; what folds is expected to come in wire order.
type Book struct {
	opts Options

	mu       sync.Mutex
	version  uint32
	sessions map[string]*state
	order    []string // session ids, oldest first
	opening  map[string]*state
	prompts  map[string]*state  // by the canonical id of the front's session/prompt
	settings map[string]setting // by that of its session/set_mode
}

// state is one session. Its fields are guarded by the Book's mu.
type state struct {
	id      string
	scope   string
	roots   []*acpv1.Root
	mode    string
	started time.Time
	// replaying counts the requests that load the session and are not answered: until then all updates are history.
	replaying int
	isNew     bool // it is being made: its request is not answered yet
	unproved  bool // it is being loaded: whether the agent has it is not known yet
	turns     uint64
	prompting int
	stop      string
	cancelled bool // the last turn was: tool calls that it left open never end
	updates   uint64

	tools     map[string]*acp.ToolCall
	revisions map[string]revision // of the tool calls in tools
	revision  uint64              // the last one given
	toolOrder []string
	toolBytes int
	digests   map[string]string
}

// New returns an empty Book.
func New(o Options) *Book {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Book{
		opts:     o,
		version:  1,
		sessions: map[string]*state{},
		opening:  map[string]*state{},
		prompts:  map[string]*state{},
		settings: map[string]setting{},
	}
}

// SetProtocolVersion records the version that the agent answered; handlers see it in every call.
func (b *Book) SetProtocolVersion(v int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if v > 0 {
		b.version = uint32(v)
	}
}

// Opening folds a front's request that opens a session: reqID is the canonical id of the request.
func (b *Book) Opening(reqID, method string, o acp.Opening) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch method {
	case acp.MethodSessionNew, acp.MethodSessionFork:
		st := b.newState("")
		st.roots = b.rootsOf(o)
		st.isNew = true
		b.opening[reqID] = st
	default: // load, resume: the id is known at once, and the roots replace whatever stood
		st := b.sessions[o.SessionID]
		if st == nil {
			st = b.newState(o.SessionID)
			st.unproved = true
			b.adopt(st, o.SessionID)
		}
		st.roots = b.rootsOf(o)
		st.replaying++
		b.opening[reqID] = st
	}
}

// Opened folds the agent's answer to such a request; failed is true for an error.
func (b *Book) Opened(reqID string, o acp.Opened, failed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.opening[reqID]
	if st == nil {
		return
	}
	delete(b.opening, reqID)
	made := st.isNew
	st.isNew = false
	if !made && st.replaying > 0 {
		st.replaying--
	}
	if failed {
		if made || st.unproved && st.replaying == 0 {
			b.close(st)
		}
		return
	}
	st.unproved = false
	if made && o.SessionID != "" && st.id != o.SessionID {
		// A call may have come before this answer and named the session already. A new session that takes the id of
		// one that lives replaces it: the old scope ends, so that nothing of it can be reached under the new one.
		b.adopt(st, o.SessionID)
	}
	if o.Mode != "" {
		st.mode = o.Mode
	}
}

// Closed folds the end of a session (session/close, session/delete).
func (b *Book) Closed(sessionID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if st := b.sessions[sessionID]; st != nil {
		b.close(st)
	}
}

// CloseAll ends every session: the agent is gone.
func (b *Book) CloseAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, st := range b.opening {
		b.close(st)
	}
	for _, st := range b.sessions {
		b.close(st)
	}
	clear(b.opening)
	clear(b.prompts)
	clear(b.settings)
}

// Prompted folds a front's session/prompt: a turn begins.
func (b *Book) Prompted(reqID, sessionID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.sessions[sessionID]
	if st == nil {
		return
	}
	if st.prompting == 0 {
		b.dropTools(st)
	}
	st.prompting++
	st.turns++
	b.prompts[reqID] = st
}

// PromptEnded folds the answer to a session/prompt. stopReason is empty for an error.
func (b *Book) PromptEnded(reqID, stopReason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.prompts[reqID]
	if st == nil {
		return
	}
	delete(b.prompts, reqID)
	st.prompting--
	st.stop = stopReason
	st.cancelled = st.cancelled || stopReason == "cancelled"
	if st.prompting == 0 && st.scope != "" && b.opts.TurnEnded != nil {
		b.opts.TurnEnded(st.scope)
	}
}

// Updated counts n session/update notifications.
func (b *Book) Updated(sessionID []byte, n uint64) {
	b.mu.Lock()
	if st := b.sessions[string(sessionID)]; st != nil {
		st.updates += n
	}
	b.mu.Unlock()
}

// Current tells whether a CallContext still says who its session is and where its roots are.
func (b *Book) Current(cc *acpv1.CallContext) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.sessions[cc.GetSessionId()]
	return st != nil && st.scope == cc.GetScope() && slices.EqualFunc(st.roots, cc.GetRoots(), func(a, b *acpv1.Root) bool {
		return a == b || a.GetPath() == b.GetPath() && a.GetReadOnly() == b.GetReadOnly()
	})
}

// Replaying tells whether what passes of a session is history.
func (b *Book) Replaying(sessionID string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.sessions[sessionID]
	return st != nil && st.replaying > 0
}

// Turn returns the scope and the number of the latest turn of a session; an empty scope for one that is not known.
func (b *Book) Turn(sessionID string) (scope string, turn uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.sessions[sessionID]
	if st == nil {
		return "", 0
	}
	return st.scope, st.turns
}

// Prompting returns the ids of the sessions that a turn is under way in, oldest first.
func (b *Book) Prompting() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []string
	for _, id := range b.order {
		if b.sessions[id].prompting > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// Context returns the CallContext for a routed call of a session. A session that is not known yet has the roots of the
// one session/new in flight, if there is exactly one; else the error is ErrUnknown. The message is the caller's own.
func (b *Book) Context(sessionID string) (*acpv1.CallContext, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.lookup(sessionID)
	if st == nil {
		return nil, ErrUnknown
	}
	return &acpv1.CallContext{
		SessionId:       sessionID,
		Scope:           st.scope,
		Roots:           st.roots,
		Agent:           b.opts.Agent,
		Mode:            st.mode,
		ProtocolVersion: b.version,
	}, nil
}

// Read remembers the digest of a file that was read whole, Digest returns it; "" where there is none.
func (b *Book) Read(scope, path, digest string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, st := range b.sessions {
		if st.scope == scope {
			if len(st.digests) >= maxToolCalls {
				clear(st.digests)
			}
			st.digests[path] = digest
			return
		}
	}
}

// Digest returns what Read remembered of a path; "" where there is nothing.
func (b *Book) Digest(scope, path string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, st := range b.sessions {
		if st.scope == scope {
			return st.digests[path]
		}
	}
	return ""
}

// lookup finds a session by its id, or takes the one session/new in flight as the one that is meant, and remembers so.
func (b *Book) lookup(sessionID string) *state {
	if st := b.sessions[sessionID]; st != nil {
		return st
	}
	if sessionID == "" {
		return nil
	}
	var only *state
	for _, st := range b.opening {
		if st.isNew && st.id == "" {
			if only != nil {
				return nil
			}
			only = st
		}
	}
	if only != nil {
		b.adopt(only, sessionID)
	}
	return only
}

func (b *Book) newState(id string) *state {
	st := &state{id: id, scope: newScope(), started: b.opts.Now(), tools: map[string]*acp.ToolCall{}, revisions: map[string]revision{}, digests: map[string]string{}}
	if b.opts.Opened != nil {
		b.opts.Opened(st.scope)
	}
	return st
}

// adopt gives a session its id. Whoever had the id ends; so does what the session was called before.
func (b *Book) adopt(st *state, id string) {
	if old := b.sessions[id]; old != nil && old != st {
		b.close(old)
	}
	if st.id != "" && b.sessions[st.id] == st && st.id != id {
		b.forget(st.id)
	}
	st.id = id
	b.sessions[id] = st
	b.order = append(b.order, id)
}

func (b *Book) close(st *state) {
	if b.sessions[st.id] == st {
		b.forget(st.id)
	}
	if st.scope != "" && b.opts.Closed != nil {
		b.opts.Closed(st.scope)
	}
	st.scope = ""
}

func (b *Book) forget(id string) {
	delete(b.sessions, id)
	for i, o := range b.order {
		if o == id {
			b.order = append(b.order[:i:i], b.order[i+1:]...)
			break
		}
	}
}

func (b *Book) rootsOf(o acp.Opening) []*acpv1.Root {
	var roots []*acpv1.Root
	if o.Cwd != "" {
		roots = append(roots, &acpv1.Root{Path: o.Cwd})
	}
	for _, d := range o.AdditionalDirectories {
		roots = append(roots, &acpv1.Root{Path: d})
	}
	return append(roots, b.opts.ExtraRoots...)
}

// newScope mints 128 random bits.
func newScope() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails: see crypto/rand
	return hex.EncodeToString(raw[:])
}
