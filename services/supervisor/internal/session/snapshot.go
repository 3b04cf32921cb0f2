package session

import (
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// maxShown is how many tool calls of a session are shown; the newest.
const maxShown = 1000

// Snapshot returns what is known of every session, oldest first.
func (b *Book) Snapshot() []*supervisorv1.Session {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]*supervisorv1.Session, 0, len(b.order))
	for _, id := range b.order {
		out = append(out, b.sessions[id].snapshot())
	}
	return out
}

// SessionOf returns the ACP session id that a scope belongs to; "" for none.
func (b *Book) SessionOf(scope string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, st := range b.sessions {
		if st.scope == scope {
			return id
		}
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
	order := s.toolOrder
	if len(order) > maxShown {
		order = order[len(order)-maxShown:]
	}
	for _, id := range order {
		out.ToolCalls = append(out.ToolCalls, shown(s.tools[id]))
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
