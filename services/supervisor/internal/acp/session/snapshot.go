package session

import (
	"slices"
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// maxShown limits the tool calls of a session in a snapshot; the newest are included.
const maxShown = 1000

// Snapshot returns the state of every session, oldest first.
func (t *Table) Snapshot() []*supervisorv1.Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*supervisorv1.Session, 0, t.sessions.Len())
	for _, st := range t.sessions.All() {
		out = append(out, st.snapshot())
	}
	return out
}

// Roots returns the roots of every session, each once.
func (t *Table) Roots() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for _, st := range t.sessions.All() {
		for _, r := range st.roots {
			if !slices.Contains(all, r.GetPath()) {
				all = append(all, r.GetPath())
			}
		}
	}
	return all
}

// SessionOf returns the ACP session id of a scope; "": none.
func (t *Table) SessionOf(scope string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if st := t.ofScope(scope); st != nil {
		return st.id
	}
	return ""
}

func (s *state) snapshot() *supervisorv1.Session {
	out := &supervisorv1.Session{
		SessionId:      strings.ToValidUTF8(s.id, "\uFFFD"), // an agent chooses it
		Mode:           s.mode,
		TurnActive:     s.prompting > 0,
		Turns:          s.turns,
		StartTime:      timestamppb.New(s.started),
		Updates:        s.updates,
		LastStopReason: s.stop,
	}
	for _, r := range s.roots {
		out.Roots = append(out.Roots, r.GetPath())
	}
	hidden := s.tools.Len() - maxShown
	for _, tc := range s.tools.All() {
		if hidden--; hidden < 0 {
			out.ToolCalls = append(out.ToolCalls, shown(&tc.ToolCall))
		}
	}
	return out
}

func shown(tc *acp.ToolCall) *supervisorv1.ToolCall {
	out := &supervisorv1.ToolCall{ToolCallId: tc.ID, Title: tc.Title, Kind: tc.Kind, Status: tc.Status}
	seen := map[string]bool{} // an edit names its file in its diff and in its locations
	path := func(p string) {
		if !seen[p] {
			seen[p] = true
			out.Paths = append(out.Paths, p)
		}
	}
	for _, it := range acp.ContentItems(tc.Content) {
		switch {
		case it.Type == "terminal" && it.TerminalID != "":
			out.TerminalIds = append(out.TerminalIds, it.TerminalID)
		case it.Type == "diff" && it.Path != "":
			path(it.Path)
		}
	}
	for _, p := range acp.LocationPaths(tc.Locations) {
		path(p)
	}
	return out
}
