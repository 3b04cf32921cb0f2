package event

import (
	"strings"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/ordered"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/events/heat"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"google.golang.org/protobuf/proto"
)

// Limits of the kept state, so that an agent cannot make a Fold grow without limit.
const (
	maxSessions  = 100_000
	maxClosed    = 1000      // closed sessions, which may be opened again
	maxFoldBytes = 256 << 20 // of all sessions, approximately
	maxTitle     = 4 << 10   // bytes of a title, a name, an id
	maxItems     = 1000      // of a list
	maxItemBytes = 256 << 10 // of a list
	maxNames     = 256       // distinct names that are counted
)

// Fold is the known state of each session of each agent, computed from events; Show returns it. It keeps at most
// 100,000 sessions, of which 1,000 are closed, and about 256 MiB; it evicts the sessions without an event for the
// longest time. Safe for concurrent use; the events of an agent must be in order.
//
// It keeps and shows parts of events without a copy, so nothing may change them.
type Fold struct {
	// Now is the clock for the heat of files. Nil: the system's.
	Now func() time.Time

	mu       sync.Mutex
	sessions ordered.Map[sessionKey, *known]   // the session with the latest event is the newest
	closed   ordered.Map[sessionKey, struct{}] // the session that was closed last is the newest
	size     int
}

type sessionKey struct{ agent, session string }

// known is the state of a session.
type known struct {
	key  sessionKey
	size int // its share of the Fold's size

	is        supervisorv1.Session // shown unchanged; its model is the agent's model outside of its options
	pending   pending
	files     heat.Files
	roots     []string
	tools     tools
	listBytes int // of the lists that are replaced as a whole: modes, options, models, plan, commands
	sizes     [5]int
}

// The lists that are replaced as a whole.
const (
	listModes = iota
	listOptions
	listModels
	listPlan
	listCommands
)

// NewFold returns an empty Fold.
func NewFold() *Fold { return &Fold{} }

// Apply applies an event. An event without a session has no effect, except lost events and the end of an agent.
func (f *Fold) Apply(e *supervisorv1.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch v := e.GetEvent().(type) {
	case *supervisorv1.Event_Gap:
		f.gap(e)
		return
	case *supervisorv1.Event_Agent:
		f.agent(v.Agent, e.GetTime().AsTime())
		return
	case *supervisorv1.Event_SessionClosed:
		if v.SessionClosed.GetReason() == "session/delete" {
			f.forget(f.sessions.At(sessionKey{e.GetAgentId(), e.GetSessionId()}))
			return
		}
	}
	if e.GetSessionId() == "" || len(e.GetSessionId()) > maxKept {
		return
	}
	k := f.get(sessionKey{e.GetAgentId(), e.GetSessionId()})
	if e.GetCursor() != "" {
		k.is.Cursor = e.GetCursor()
	}
	k.apply(e)
	if touches := e.GetTouches(); len(touches) > 0 && !e.GetHistory() {
		for _, t := range touches {
			k.files.Touch(e.GetTime().AsTime(), t)
		}
	}
	f.grown(k)
	switch e.GetEvent().(type) {
	case *supervisorv1.Event_SessionOpened:
		f.closed.Delete(k.key)
	case *supervisorv1.Event_SessionClosed:
		f.closed.Set(k.key, struct{}{})
		for f.closed.Len() > maxClosed {
			oldest := f.closed.Oldest()
			f.closed.Delete(oldest)
			f.forget(f.sessions.At(oldest))
		}
	}
}

func (f *Fold) now() time.Time {
	if f.Now == nil {
		return time.Now()
	}
	return f.Now()
}

// Open returns the ids of an agent's open sessions, the oldest first.
func (f *Fold) Open(agentID string) (ids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.sessions.All() {
		if _, closed := f.closed.Get(key); key.agent == agentID && !closed {
			ids = append(ids, key.session)
		}
	}
	return ids
}

// Forget removes all sessions of an agent.
func (f *Fold) Forget(agentID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, k := range f.sessions.All() {
		if key.agent == agentID {
			f.forget(k)
		}
	}
}

// get returns the state of a session, and makes it the newest.
func (f *Fold) get(key sessionKey) *known {
	if k := f.sessions.At(key); k != nil {
		f.sessions.Renew(key)
		return k
	}
	k := &known{key: key}
	f.sessions.Set(key, k)
	return k
}

// grown updates the size of a session, and evicts others above the limit.
func (f *Fold) grown(k *known) {
	size := k.weight()
	f.size += size - k.size
	k.size = size
	for f.sessions.Len() > maxSessions || f.size > maxFoldBytes && f.sessions.Len() > 1 {
		f.forget(f.sessions.At(f.sessions.Oldest()))
	}
}

func (f *Fold) forget(k *known) {
	if k == nil {
		return
	}
	f.size -= k.size
	f.sessions.Delete(k.key)
	f.closed.Delete(k.key)
}

// gap marks state that may be outdated: of a session, of all sessions of an agent, or of all.
func (f *Fold) gap(e *supervisorv1.Event) {
	if e.GetSessionId() != "" {
		if k := f.sessions.At(sessionKey{e.GetAgentId(), e.GetSessionId()}); k != nil {
			k.is.Incomplete = true
		}
		return
	}
	for key, k := range f.sessions.All() {
		if e.GetAgentId() == "" || key.agent == e.GetAgentId() {
			k.is.Incomplete = true
		}
	}
}

// agent ends open requests of an agent that has ended.
func (f *Fold) agent(a *supervisorv1.Agent, at time.Time) {
	switch a.GetState() {
	case supervisorv1.AgentState_AGENT_STATE_BACKOFF, supervisorv1.AgentState_AGENT_STATE_FAILED, supervisorv1.AgentState_AGENT_STATE_STOPPED:
	default:
		return
	}
	for key, k := range f.sessions.All() {
		if key.agent == a.GetId() {
			k.pending.clear()
			k.files.Stop(at)
		}
	}
}

// apply applies an event of the session.
func (k *known) apply(e *supervisorv1.Event) {
	switch v := e.GetEvent().(type) {
	case *supervisorv1.Event_ToolCall:
		k.tools.report(v.ToolCall, true, e.GetHistory(), &k.files)
	case *supervisorv1.Event_ToolCallUpdate:
		k.tools.report(v.ToolCallUpdate, false, e.GetHistory(), &k.files)
	case *supervisorv1.Event_Plan:
		k.is.Plan = keep(k, listPlan, v.Plan.GetEntries())
	case *supervisorv1.Event_AvailableCommands:
		k.is.Commands = keep(k, listCommands, v.AvailableCommands.GetCommands())
	case *supervisorv1.Event_CurrentMode:
		k.is.Mode = safetext.Cut(v.CurrentMode.GetModeId(), maxTitle)
	case *supervisorv1.Event_ConfigOptions:
		k.is.Options = keep(k, listOptions, v.ConfigOptions.GetOptions())
		k.optionMode()
	case *supervisorv1.Event_SessionInfo:
		if v.SessionInfo.Title != nil {
			k.is.Title = safetext.Cut(v.SessionInfo.GetTitle(), maxTitle)
		}
	case *supervisorv1.Event_Usage:
		k.is.Usage = client.LatestUsage(k.is.Usage, v.Usage)
		if !e.GetHistory() {
			k.files.Filled(e.GetTime().AsTime(), v.Usage.GetUsed())
		}
	case *supervisorv1.Event_OtherUpdate:
		k.other(v.OtherUpdate, e.GetRaw())
	case *supervisorv1.Event_TurnStarted:
		k.tools.turn()
		k.files.Turn(e.GetTime().AsTime(), true)
	case *supervisorv1.Event_TurnEnded:
		k.files.Turn(e.GetTime().AsTime(), false)
		k.is.Tokens = client.AddTokens(k.is.Tokens, v.TurnEnded.GetUsage())
		// Tool calls are cancelled with the turn, and some agents do not report that.
		if v.TurnEnded.GetStopReason() == "cancelled" {
			k.tools.broken = true
		}
		switch v.TurnEnded.GetError().GetKind() {
		case supervisorv1.ErrorKind_ERROR_KIND_CRASHED, supervisorv1.ErrorKind_ERROR_KIND_STOPPED:
			k.tools.broken = true
		}
	case *supervisorv1.Event_SessionOpened:
		k.opened(v.SessionOpened)
	case *supervisorv1.Event_SessionClosed:
		k.pending.clear()
		k.files.Stop(e.GetTime().AsTime())
	case *supervisorv1.Event_QuestionAsked:
		k.pending.asked(v.QuestionAsked)
	case *supervisorv1.Event_QuestionAnswered:
		k.pending.remove(v.QuestionAnswered.GetId())
	case *supervisorv1.Event_CallStarted:
		k.pending.called(e, v.CallStarted)
	case *supervisorv1.Event_CallEnded:
		if r := k.pending.remove(callKey(v.CallEnded.GetId())); r != nil && v.CallEnded.GetError() == "" {
			called(&k.files, r.shown.GetMethod(), r.path)
		}
	}
}

// opened applies the opening of a session, with the state that the agent reports.
func (k *known) opened(o *supervisorv1.SessionOpened) {
	k.is.Incomplete = false
	if roots := o.GetRoots(); len(roots) <= maxNames && len(strings.Join(roots, "")) <= maxItemBytes {
		k.roots = roots
	}
	if o.GetModeId() != "" || len(o.GetModes()) > 0 {
		k.is.Mode = safetext.Cut(o.GetModeId(), maxTitle)
		k.is.Modes = keep(k, listModes, o.GetModes())
	}
	if len(o.GetOptions()) > 0 {
		k.is.Options = keep(k, listOptions, o.GetOptions())
		k.optionMode()
	}
	if o.GetModelId() != "" || len(o.GetModels()) > 0 {
		k.is.Model = safetext.Cut(o.GetModelId(), maxTitle)
		k.is.Models = keep(k, listModels, o.GetModels())
	}
}

// other applies an update that is not of ACP v1, if it contains the model; agents use different forms.
func (k *known) other(u *supervisorv1.OtherUpdate, update string) {
	if len(update) > maxMerged || snake(u.GetKind()) != kindCurrentModel {
		return
	}
	if id, ok := acp.ModelOf([]byte(update)); ok {
		k.is.Model = safetext.Cut(id, maxTitle)
	}
}

// keep returns the kept first items of a list, and updates the session's size.
func keep[M proto.Message](k *known, which int, items []M) []M {
	size, n := 0, 0
	for n < len(items) && n < maxItems {
		more := proto.Size(items[n]) + 64
		if size+more > maxItemBytes {
			break
		}
		size += more
		n++
	}
	k.listBytes += size - k.sizes[which]
	k.sizes[which] = size
	return items[:n:n]
}

// weight returns the approximate size of the session, in bytes.
func (k *known) weight() int {
	return 1024 + 2*len(k.key.session) + len(k.is.Title) + len(k.is.Mode) + len(k.is.Model) + len(k.is.Usage.GetCurrency()) +
		k.listBytes + k.pending.size + k.files.Size() + k.tools.size
}
