package e2e

import (
	"fmt"
)

// ForwardsError has the editor answer a request of the agent's with an error code, which must arrive as it was sent.
func (s *Scene) ForwardsError(code int) {
	s.T.Helper()
	s.Agent.Write(`{"jsonrpc":"2.0","id":"e","method":"_a.example/ask"}`)
	s.Expect("_a.example/ask")
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":"e","error":{"code":%d,"message":"x"}}`, code)
	s.Write(answer)
	if got := string(s.Agent.Next().Raw); got != answer {
		s.T.Errorf("the agent got %s, want %s", got, answer)
	}
}

// Printed runs a terminal of the agent's, and returns its output.
func (s *Scene) Printed(with ...any) string {
	s.T.Helper()
	var made struct{ TerminalID string }
	s.Agent.Request("terminal/create", Params(with...), &made)
	s.Agent.Request("terminal/wait_for_exit", Params("terminalId", made.TerminalID), nil)
	var output struct{ Output string }
	s.Agent.Request("terminal/output", Params("terminalId", made.TerminalID), &output)
	return output.Output
}
