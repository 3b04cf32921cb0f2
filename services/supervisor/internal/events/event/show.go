package event

import (
	"cmp"
	"maps"
	"slices"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/heat"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// categoryModel and categoryMode are the categories of the options for the model and for the mode.
const (
	categoryModel = "model"
	categoryMode  = "mode"
)

// Show sets the known state of the session that s names: the fields from agent_id on, and tool_calls, where it
// completes the tool calls in s and adds missing ones of the current turn. Other fields are unchanged, except an empty
// mode and a lower number of turns. For an unknown session it sets only agent_id. The state is shared: it must not be
// changed. The heat of files is that of the current time.
func (f *Fold) Show(agentID string, s *supervisorv1.Session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.AgentId = agentID
	k := f.sessions.At(sessionKey{agentID, s.GetSessionId()})
	if k == nil {
		return
	}
	mode := cmp.Or(s.GetMode(), k.is.GetMode())
	k.is.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		s.ProtoReflect().Set(field, value)
		return true
	})
	s.Mode = mode
	s.Turns = max(s.GetTurns(), uint64(k.tools.turns)) // turns of the agent's earlier processes count, too
	s.Model = k.currentModel()
	s.PendingRequests = k.pending.list()
	s.Files = k.files.Latest(f.now(), maxFiles)
	s.ToolKinds = maps.Clone(k.tools.kinds)
	s.Tools = maps.Clone(k.tools.names)
	k.tools.show(s)
}

// Files returns the files that are not cold now, by session: of all sessions that are open or have such files. which
// selects the sessions. The session with the latest use of a file is the first.
func (f *Fold) Files(which func(agentID, sessionID string) bool) []*supervisorv1.SessionFiles {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	var out []*supervisorv1.SessionFiles
	for key, k := range f.sessions.Backward() {
		if !which(key.agent, key.session) {
			continue
		}
		files := k.files.Hot(now)
		if _, closed := f.closed.Get(key); !closed || len(files) > 0 {
			out = append(out, &supervisorv1.SessionFiles{
				AgentId: key.agent, SessionId: key.session, Roots: k.roots, Files: files, Usage: k.is.GetUsage(),
			})
		}
	}
	LatestFirst(out)
	return out
}

// KnownFiles are the files of a session, valid during the call of show in EachFiles.
type KnownFiles struct {
	AgentID, SessionID string
	// Closed reports whether the session is closed.
	Closed bool

	known *known
	now   time.Time
}

// Since returns the changes of the files since a mark.
func (k *KnownFiles) Since(m heat.Mark) heat.Change { return k.known.files.Since(m, k.now) }

// Roots returns the session's roots, which must not be changed.
func (k *KnownFiles) Roots() []string { return k.known.roots }

// Usage returns the usage of the context; nil: unknown. If the agent reports only the usage of turns, it is their sum,
// and the size is 0. It must not be changed.
func (k *KnownFiles) Usage() *supervisorv1.ContextUsage {
	if k.known.is.GetUsage() != nil || k.known.is.GetTokens() == nil {
		return k.known.is.GetUsage()
	}
	tokens := k.known.is.GetTokens()
	return &supervisorv1.ContextUsage{Used: cmp.Or(tokens.GetTotal(), tokens.GetInput()+tokens.GetOutput())}
}

// EachFiles shows the files of each known session. It allocates nothing, so that idle sessions cost very little.
func (f *Fold) EachFiles(show func(k *KnownFiles)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := KnownFiles{now: f.now()}
	for key, known := range f.sessions.Backward() {
		k.AgentID, k.SessionID, k.known = key.agent, key.session, known
		_, k.Closed = f.closed.Get(key)
		show(&k)
	}
}

// LatestFirst sorts sessions by the last use of a file, the latest first.
func LatestFirst(sessions []*supervisorv1.SessionFiles) {
	slices.SortStableFunc(sessions, func(a, b *supervisorv1.SessionFiles) int { return lastUse(b).Compare(lastUse(a)) })
}

func lastUse(s *supervisorv1.SessionFiles) (last time.Time) {
	for _, file := range s.GetFiles() {
		if at := file.GetTime().AsTime(); at.After(last) {
			last = at
		}
	}
	return last
}

// currentModel returns the model: that of an option, if the agent has an option for it.
func (k *known) currentModel() string {
	for _, o := range k.is.GetOptions() {
		if cmp.Or(o.GetCategory(), o.GetId()) == categoryModel && o.GetValue() != "" {
			return o.GetValue()
		}
	}
	return k.is.GetModel()
}

// optionMode sets the mode from the options, if they contain one. A later change of mode by another update takes
// precedence again.
func (k *known) optionMode() {
	for _, o := range k.is.GetOptions() {
		if cmp.Or(o.GetCategory(), o.GetId()) == categoryMode && o.GetValue() != "" {
			k.is.Mode = safetext.Cut(o.GetValue(), maxTitle)
			return
		}
	}
}

// show merges the tool calls into those of s.
func (t *tools) show(s *supervisorv1.Session) {
	has := make(map[string]bool, len(s.GetToolCalls()))
	for i, c := range s.GetToolCalls() {
		has[c.GetToolCallId()] = true
		if more := t.known.At(c.GetToolCallId()); more != nil {
			s.ToolCalls[i] = merged(c, more.shown)
		}
	}
	for id, c := range t.known.All() {
		if !has[id] && (c.turn == t.turns || !c.done()) {
			s.ToolCalls = append(s.ToolCalls, c.shown)
		}
	}
	if over := len(s.GetToolCalls()) - maxTools; over > 0 {
		s.ToolCalls = slices.Clip(s.ToolCalls[over:])
	}
}

// merged returns a tool call with more known members. The members of c take precedence: they were folded on the data
// path itself.
func merged(c, more *supervisorv1.ToolCall) *supervisorv1.ToolCall {
	out := copyOf(more)
	out.ToolCallId = c.GetToolCallId()
	out.Title = cmp.Or(c.GetTitle(), more.GetTitle())
	out.Kind = cmp.Or(c.GetKind(), more.GetKind())
	out.Status = cmp.Or(c.GetStatus(), more.GetStatus())
	out.Name = cmp.Or(c.GetName(), more.GetName())
	if ids := c.GetTerminalIds(); len(ids) > 0 {
		out.TerminalIds = ids
	}
	if paths := c.GetPaths(); len(paths) > 0 {
		out.Paths = paths
	}
	return out
}
