package e2e

// ExpectQuiet makes sure that nothing reached a peer that nobody took: a message of the other side's comes next.
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
