package e2e

import (
	"strings"
)

// ExpectNothing makes sure that nothing of the agent's reached the editor: a message that passes comes next.
func (s *Scene) ExpectNothing(what string) {
	s.T.Helper()
	const mark = "a word of the agent's"
	s.Agent.Notify("session/update", Params("update", map[string]any{"sessionUpdate": "agent_message_chunk", "content": map[string]any{"type": "text", "text": mark}}))
	if m := s.Next(); !strings.Contains(string(m.Raw), mark) {
		s.T.Fatalf("%s reached the editor: %s", what, m.Raw)
	}
}

// HandleOf is what a question is called for those who may not answer.
func HandleOf(id string) string { return id[:max(0, strings.LastIndexByte(id, '.'))] }
