package e2e

import (
	"github.com/acphost/acphost/test/wire"
)

// Turn begins one, and returns the editor's call and what the agent got.
func (s *Fixture) Turn(session string) (*wire.Call, wire.Message) {
	s.T.Helper()
	call := s.Send("session/prompt", map[string]any{"sessionId": session, "prompt": []any{}})
	return call, s.Agent.Expect("session/prompt")
}
