package e2e

// Terminal starts a command, and returns the line in which agents show it.
func (s *Fixture) Terminal(line string) (id, mention string) {
	s.T.Helper()
	s.Agent.Notify("session/update", Params("update", map[string]any{"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Run it", "kind": "execute", "status": "pending"}))
	s.Expect("session/update")
	var made struct{ TerminalID string }
	s.Agent.Request("terminal/create", Params("command", line), &made)
	return made.TerminalID, `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"status":"in_progress","x":1.0,"sessionUpdate":"tool_call_update","toolCallId":"c","content":[{"type":"terminal","terminalId":"` + made.TerminalID + `"}]}}}`
}

// ShowsTerminals are the capabilities of a client that shows agents' terminals.
const ShowsTerminals = `{"_meta":{"terminal_output":true}}`
