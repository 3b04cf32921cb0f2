package event

import (
	"strings"
	"sync"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/heat"
	"github.com/acphost/acphost/services/supervisor/internal/ordered"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
	"google.golang.org/protobuf/proto"
)

// Bounds on what is kept, so that no agent can make a Fold grow without end.
const (
	maxSessions  = 100_000
	maxClosed    = 1000      // of those that are closed, and may be opened again
	maxFoldBytes = 256 << 20 // of all sessions, roughly
	maxTitle     = 4 << 10   // bytes of a title, a name, an id
	maxItems     = 1000      // of a list
	maxItemBytes = 256 << 10 // of a list
	maxNames     = 256       // names that are counted
)

// Fold is what is known of each session of each agent, put together from events: what Show fills in. It keeps at most
// 100,000 sessions, 1,000 closed ones among them, and about 256 MiB; whatever had no event for the longest time is forgotten first. Safe for concurrent
// use; events of an agent are expected in their order.
//
// What an event holds is kept, and shown, without being copied: nobody may change it.
type Fold struct {
	// Now is the clock that the heat of files goes by. Nil: the system's.
	Now func() time.Time

	mu       sync.Mutex
	sessions ordered.Map[sessionKey, *known]   // the one that something happened in last is the newest
	closed   ordered.Map[sessionKey, struct{}] // of the sessions, the one that was closed last is the newest
	size     int
}

type sessionKey struct{ agent, session string }

// known is what is known of a session.
type known struct {
	key  sessionKey
	size int // as counted in the Fold's

	is        supervisorv1.Session // what is shown as it is; its model is the one that the agent has apart from its options
	pending   pending
	files     heat.Files
	roots     []string
	tools     tools
	listBytes int // of what is replaced as a whole: modes, options, models, plan, commands
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

// NewFold returns a Fold that knows nothing.
func NewFold() *Fold { return &Fold{} }

// Apply folds an event. One that is about no session changes nothing, but for the loss of events and the end of an agent.
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

// Open are the ids of an agent's sessions that are not closed, the oldest first.
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

// Forget forgets all sessions of an agent.
func (f *Fold) Forget(agentID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, k := range f.sessions.All() {
		if key.agent == agentID {
			f.forget(k)
		}
	}
}

// get returns what is known of a session, the latest that something happened in.
func (f *Fold) get(key sessionKey) *known {
	if k := f.sessions.At(key); k != nil {
		f.sessions.Renew(key)
		return k
	}
	k := &known{key: key}
	f.sessions.Set(key, k)
	return k
}

// grown counts what a session takes, and forgets others if there is too much.
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

// gap marks what may be out of date: a session, or all of an agent, or all.
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

// agent ends what waits for an agent that does not run any more.
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

// apply folds an event of the session.
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
		if v.TurnEnded.GetStopReason() == "cancelled" { // what it left open was cancelled with it, and some agents never say so
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

// opened folds that a session is there: what the agent says of it then is how it is.
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

// other folds an update that ACP v1 does not have, if it tells the model: agents differ in how they say it.
func (k *known) other(u *supervisorv1.OtherUpdate, update string) {
	if len(update) > maxMerged || snake(u.GetKind()) != kindCurrentModel {
		return
	}
	if id, ok := acp.ModelOf([]byte(update)); ok {
		k.is.Model = safetext.Cut(id, maxTitle)
	}
}

// keep returns what is kept of a list, its first items, and counts it as list of the session.
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

// weight is roughly what the session takes, in bytes.
func (k *known) weight() int {
	return 1024 + 2*len(k.key.session) + len(k.is.Title) + len(k.is.Mode) + len(k.is.Model) + len(k.is.Usage.GetCurrency()) +
		k.listBytes + k.pending.size + k.files.Size() + k.tools.size
}
