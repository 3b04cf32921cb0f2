package e2e

import (
	"fmt"
)

// Forwards sends a request of the agent's, expects it at the editor as it was sent, and the editor's answer at the agent.
func (s *Scene) Forwards(method, params string) {
	s.T.Helper()
	line := fmt.Sprintf(`{"jsonrpc":"2.0","id":"f","method":%q,"params":%s}`, method, params)
	s.Agent.Write(line)
	if got := s.Expect(method); string(got.Raw) != line {
		s.T.Errorf("the editor got\n%s\nwant\n%s", got.Raw, line)
	}
	answer := `{"id":"f","result":{"odd":` + Odd + `},"jsonrpc":"2.0"}`
	s.Write(answer)
	if got := s.Agent.Next(); string(got.Raw) != answer {
		s.T.Errorf("the agent got\n%s\nwant\n%s", got.Raw, answer)
	}
}
