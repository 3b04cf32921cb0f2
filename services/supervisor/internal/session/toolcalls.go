package session

import (
	"bytes"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// revision is the latest change of what a tool call is about.
type revision struct {
	n  uint64 // 0: there is none
	at time.Time
}

// ToolCall folds a report of a tool call (the update of a session/update, or the toolCall of a permission question) and
// returns a copy of what is known of it now. For an unknown session it returns the report alone. A tool call that begins
// with the id of one that has ended is another one, of which nothing is known yet: ids may be the model's to choose.
func (b *Book) ToolCall(sessionID string, report []byte) acp.ToolCall {
	id := acp.ToolCallID(report)
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.lookup(sessionID)
	if st == nil || id == "" {
		var tc acp.ToolCall
		tc.Merge(report)
		return tc
	}
	tc := st.tools[id]
	var before acp.ToolCall
	if tc != nil {
		before = *tc
		if tc.Ended() && acp.BeginsToolCall(report) {
			st.toolBytes -= tc.Size()
			*tc = acp.ToolCall{ID: id}
			st.toolBytes += tc.Size()
		}
	}
	if tc == nil {
		tc = &acp.ToolCall{ID: id}
		st.tools[id] = tc
		st.toolOrder = append(st.toolOrder, id)
	} else {
		st.toolBytes -= tc.Size()
	}
	tc.Merge(report)
	if st.revisions[id].n == 0 || !sameSubject(&before, tc) {
		st.revision++
		st.revisions[id] = revision{n: st.revision, at: b.opts.Now()}
	}
	st.toolBytes += tc.Size()
	for len(st.toolOrder) > 1 && (len(st.toolOrder) > maxToolCalls || st.toolBytes > maxToolCallBytes) && st.toolOrder[0] != id {
		old := st.toolOrder[0]
		st.toolBytes -= st.tools[old].Size()
		delete(st.tools, old)
		delete(st.revisions, old)
		st.toolOrder = st.toolOrder[1:]
	}
	return *tc
}

// settling is how long a tool call may still change after a person was asked about it: nobody reads and answers in that
// time. Agents that report a tool call in pieces, as their model writes it, ask while the last pieces are on their way.
const settling = 500 * time.Millisecond

// Subject is what a tool call was about when it was judged.
type Subject struct {
	call     acp.ToolCall
	revision uint64
}

// Subject returns what a tool call, as ToolCall returned it just now, is about.
func (b *Book) Subject(sessionID string, tc acp.ToolCall) Subject {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Subject{call: tc}
	if st := b.sessions[sessionID]; st != nil {
		s.revision = st.revisions[tc.ID].n
	}
	return s
}

// Stands tells whether a person who is answering now, and was asked at the time given, has seen the tool call as it was
// judged: nothing changed what it is about (its status does not), or what did was over within settling, and it is about
// the same again.
func (b *Book) Stands(sessionID string, s Subject, asked time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	var now revision
	var tc *acp.ToolCall
	if st := b.sessions[sessionID]; st != nil {
		now, tc = st.revisions[s.call.ID], st.tools[s.call.ID]
	}
	if now.n == s.revision {
		return true
	}
	settled := asked.Add(settling)
	return tc != nil && sameSubject(tc, &s.call) && !now.at.After(settled) && b.opts.Now().After(settled)
}

// sameSubject tells whether two states of a tool call are about the same thing.
func sameSubject(a, b *acp.ToolCall) bool {
	return a.Title == b.Title && a.Name == b.Name && a.Kind == b.Kind && a.Ambiguous == b.Ambiguous &&
		bytes.Equal(a.Content, b.Content) && bytes.Equal(a.Locations, b.Locations) && bytes.Equal(a.RawInput, b.RawInput)
}

// dropTools forgets the tool calls of turns before, but for those that still run.
func (b *Book) dropTools(st *state) {
	var kept []string
	all := st.cancelled
	st.cancelled = false
	for _, id := range st.toolOrder {
		tc := st.tools[id]
		if all || tc.Ended() {
			st.toolBytes -= tc.Size()
			delete(st.tools, id)
			delete(st.revisions, id)
			continue
		}
		kept = append(kept, id)
	}
	st.toolOrder = kept
}
