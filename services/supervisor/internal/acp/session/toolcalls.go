package session

import (
	"bytes"
	"cmp"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// revision is the latest change of a tool call's subject.
type revision struct {
	n  uint64 // 0: none
	at time.Time
}

// tool is a tool call, with the latest change of its subject.
type tool struct {
	acp.ToolCall
	changed revision
}

// ToolCall records a report of a tool call (the update of a session/update, or the toolCall of a permission question),
// and returns a copy of the merged tool call. For an unknown session it returns the report alone. A tool call that
// begins with the id of an ended one is new and starts empty, because models may choose ids.
func (t *Table) ToolCall(sessionID string, report []byte) acp.ToolCall {
	id := acp.ToolCallID(report)
	t.mu.Lock()
	defer t.mu.Unlock()
	st := t.lookup(sessionID)
	if st == nil || id == "" {
		var tc acp.ToolCall
		tc.Merge(report)
		return tc
	}
	tc := st.tools.At(id)
	if tc == nil {
		tc = &tool{ToolCall: acp.ToolCall{ID: id}}
		st.tools.Set(id, tc)
	} else {
		st.toolBytes -= tc.Size()
	}
	before := tc.ToolCall
	if acp.ToolCallEnded(tc.Status) && acp.BeginsToolCall(report) {
		tc.ToolCall = acp.ToolCall{ID: id}
	}
	tc.Merge(report)
	if tc.changed.n == 0 || !sameSubject(&before, &tc.ToolCall) {
		st.revision++
		tc.changed = revision{n: st.revision, at: t.opts.Now()}
	}
	st.toolBytes += tc.Size()
	for (st.tools.Len() > maxToolCalls || st.toolBytes > maxToolCallBytes) && st.tools.Oldest() != id {
		st.dropTool(st.tools.Oldest())
	}
	return tc.ToolCall
}

func (s *state) dropTool(id string) { s.toolBytes -= s.tools.Delete(id).Size() }

// reportGrace is how long a tool call may still change after a person was asked about it, because a person cannot read
// and answer in that time. Agents that report a tool call in pieces, as their model writes it, ask before the last
// pieces are sent.
const reportGrace = 500 * time.Millisecond

// Subject is the subject of a tool call when it was judged.
type Subject struct {
	call     acp.ToolCall
	revision uint64
}

// Subject returns the subject of a tool call that ToolCall just returned.
func (t *Table) Subject(sessionID string, tc acp.ToolCall) Subject {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Subject{call: tc}
	if st := t.sessions.At(sessionID); st != nil {
		if known := st.tools.At(tc.ID); known != nil {
			s.revision = known.changed.n
		}
	}
	return s
}

// Stands reports whether a person who answers now, and was asked at the given time, has seen the tool call as it was
// judged. It also returns a copy of the current tool call. The tool call stands if its subject has not changed since
// (its status does not count), or if the changes ended within reportGrace and the subject is the same again.
func (t *Table) Stands(sessionID string, s Subject, asked time.Time) (now acp.ToolCall, stands bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := &tool{}
	if st := t.sessions.At(sessionID); st != nil {
		known = cmp.Or(st.tools.At(s.call.ID), known)
	}
	now = known.ToolCall
	if known.changed.n == s.revision {
		return now, true
	}
	settled := asked.Add(reportGrace)
	return now, known.changed.n != 0 && sameSubject(&now, &s.call) && !known.changed.at.After(settled) && t.opts.Now().After(settled)
}

// sameSubject reports whether two states of a tool call have the same subject.
func sameSubject(a, b *acp.ToolCall) bool {
	return a.Title == b.Title && a.Name == b.Name && a.Kind == b.Kind && a.Ambiguous == b.Ambiguous &&
		bytes.Equal(a.Content, b.Content) && bytes.Equal(a.Locations, b.Locations) && bytes.Equal(a.RawInput, b.RawInput)
}

// dropTools removes the tool calls of earlier turns, except those in progress.
func (t *Table) dropTools(st *state) {
	for id, tc := range st.tools.All() {
		if st.cancelled || acp.ToolCallEnded(tc.Status) {
			st.dropTool(id)
		}
	}
	st.cancelled = false
}
