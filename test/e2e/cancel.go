package e2e

import (
	"encoding/json"
)

// Withdraw is the agent's $/cancel_request.
func (s *Fixture) Withdraw(id string) {
	s.T.Helper()
	s.Agent.Notify("$/cancel_request", map[string]any{"requestId": json.RawMessage(id)})
}
