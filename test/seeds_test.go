package e2e_test

import (
	"fmt"
	"os"
	"testing"
)

// TestDescriptionsThatDisagreeWithACP holds what docs/decisions/seeds.md says.
func TestDescriptionsThatDisagreeWithACP(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "a.txt", "one\n")
	st := p.newStage(t)
	h := p.start(t, nil, st.command)
	s := &scene{host: h, agent: st.play(t)}

	call := s.initialize(`{"textFiles":{"read":true},"terminals":true}`)
	got := s.agent.Expect("initialize")
	var offered struct{ ClientCapabilities map[string]any }
	got.Decode(t, &offered)
	if want := map[string]any{"textFiles": map[string]any{"read": true}, "terminals": true, "terminal": true,
		"fs": map[string]any{"readTextFile": true, "writeTextFile": true}}; !equalJSON(t, offered.ClientCapabilities, want) {
		t.Errorf("the agent was offered %v, want %v", offered.ClientCapabilities, want)
	}
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1,"serverInfo":{"name":"a","version":"1"},"capabilities":{"x":1}}}`, got.ID)
	s.agent.Write(answer)
	if got := string(call.Answer().Raw); got != answer {
		t.Errorf("the editor got %s, want %s", got, answer)
	}

	s.open("s1")
	read := map[string]any{"path": p.path("a.txt")}
	if got := content(s.agent.Send("fs/read_text_file", read)); got != "one\n" {
		t.Errorf("a read without a session got %q", got)
	}
	s.agent.Send("fs/read_text_file", map[string]any{"path": p.path("none.txt")}).Refused(-32002)
	s.agent.Send("terminal/output", params("terminalId", "none")).Refused(-32002)
	s.forwardsError(-32001)
	s.agent.Send("terminal/run", params("terminalId", "t", "command", "touch ran")).Refused(-32602)
	if _, err := os.Stat(p.path("ran")); err == nil {
		t.Error("terminal/run in a terminal that exists has run its command")
	}

	for _, limit := range []string{"outputByteLimit", "maxOutputBytes"} {
		var made struct{ TerminalID string }
		s.agent.Request("terminal/create", params("command", "printf 0123456789", limit, 4), &made)
		terminal := params("terminalId", made.TerminalID)
		s.agent.Request("terminal/wait_for_exit", terminal, nil)
		var output struct {
			Output    string
			Truncated bool
		}
		s.agent.Request("terminal/output", terminal, &output)
		if output.Output != "6789" || !output.Truncated {
			t.Errorf("with %s, the output is %+v, want the last bytes", limit, output)
		}
		for range 2 {
			s.agent.Request("terminal/release", terminal, nil)
		}
		s.agent.Send("terminal/output", terminal).Refused(-32002)
	}

	call = s.Send("newSession", map[string]any{"workingDirectory": p.work, "mcpServers": []any{}})
	s.agent.Reply(s.agent.Expect("newSession"), map[string]any{"sessionId": "s2"})
	call.Result(nil)
	if got := content(s.agent.Send("fs/read_text_file", map[string]any{"sessionId": "s2", "path": p.path("a.txt")})); got != "one\n" {
		t.Errorf("a read in a session with a workingDirectory got %q", got)
	}
	s.agent.Send("fs/read_text_file", read).Refused(-32602)
	s.finish()
}

// forwardsError has the editor answer a request of the agent's with an error code, which must arrive as it was sent.
func (s *scene) forwardsError(code int) {
	s.t.Helper()
	s.agent.Write(`{"jsonrpc":"2.0","id":"e","method":"_a.example/ask"}`)
	s.Expect("_a.example/ask")
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":"e","error":{"code":%d,"message":"x"}}`, code)
	s.Write(answer)
	if got := string(s.agent.Next().Raw); got != answer {
		s.t.Errorf("the agent got %s, want %s", got, answer)
	}
}
