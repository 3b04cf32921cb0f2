package e2e

import (
	"github.com/acphost/acphost/test/wire"
)

// Reads is the agent's request for a file, for a session.
func (s *Fixture) Reads(session, path string) *wire.Call {
	s.T.Helper()
	return s.Agent.Send("fs/read_text_file", map[string]any{"sessionId": session, "path": path})
}
