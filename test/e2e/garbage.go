package e2e

// ExpectQuiet fails the test if the agent or the editor has an unread message.
func (s *Fixture) ExpectQuiet() {
	s.T.Helper()
	s.Write(`{"jsonrpc":"2.0","method":"_quiet"}`)
	if got := s.Agent.Next(); got.Method != "_quiet" {
		s.T.Errorf("the agent got %s", got.Raw)
	}
	s.Agent.Write(`{"jsonrpc":"2.0","method":"_quiet"}`)
	if got := s.Next(); got.Method != "_quiet" {
		s.T.Errorf("the editor got %s", got.Raw)
	}
}
