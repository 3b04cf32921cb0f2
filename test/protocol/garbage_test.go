package protocol_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

func TestGarbage_FromAgentLosesNothing(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "a\n")
	s := p.Fixture(t, nil)
	read := fmt.Sprintf(`"params":{"sessionId":"s1","path":%q}`, p.Path("a.txt"))
	for _, c := range []struct {
		name, line string
		code       int    // of the answer to the agent; 0: none
		id         string // of that answer
	}{
		{name: "no JSON at all", line: `Loading model ...`},
		{name: "half an object", line: `{"jsonrpc":"2.0","id":1,`},
		{name: "a blank line", line: ``},
		{name: "an answer without a request", line: `{"jsonrpc":"2.0"}`},
		{name: "a batch", line: `[{"jsonrpc":"2.0","id":5,"method":"fs/read_text_file",` + read + `}]`, code: -32600, id: "null"},
		{name: "two ids", line: `{"jsonrpc":"2.0","id":5,"id":6,"method":"fs/read_text_file",` + read + `}`, code: -32600},
		{name: "names that differ in case", line: `{"jsonrpc":"2.0","id":5,"method":"_x","Method":"fs/read_text_file",` + read + `}`, code: -32600, id: "5"},
		{name: "an id that is an object", line: `{"jsonrpc":"2.0","id":{},"method":"fs/read_text_file",` + read + `}`, code: -32600},
		{name: "a path twice", line: fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{"sessionId":"s1","path":%q,"path":"/etc/passwd"}}`, p.Path("a.txt")), code: -32600, id: "7"},
		{name: "a path in another case", line: fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{"sessionId":"s1","path":%q,"PATH":"/etc/passwd"}}`, p.Path("a.txt")), code: -32600, id: "7"},
		{name: "a path that is a number", line: `{"jsonrpc":"2.0","id":"n","method":"fs/read_text_file","params":{"sessionId":"s1","path":1}}`, code: -32602, id: `"n"`},
		{name: "no path", line: `{"jsonrpc":"2.0","id":8,"method":"fs/read_text_file","params":{"sessionId":"s1"}}`, code: -32602, id: "8"},
		{name: "no params", line: `{"jsonrpc":"2.0","id":8,"method":"fs/read_text_file"}`, code: -32602, id: "8"},
		{name: "a session below an unknown one", line: fmt.Sprintf(`{"jsonrpc":"2.0","id":8,"method":"fs/read_text_file","params":{"sessionId":"other","parentSessionId":"none","path":%q}}`, p.Path("a.txt")), code: -32602, id: "8"},
		{name: "a lone surrogate", line: `{"jsonrpc":"2.0","id":8,"method":"fs/write_text_file","params":{"sessionId":"s1","path":"` + p.Path("b.txt") + `","content":"\ud800"}}`, code: -32602, id: "8"},
		{name: "a forbidden context", line: `{"jsonrpc":"2.0","id":9,"method":"fs/read_text_file","params":{"sessionId":"s1","path":"/etc/hostname","context":{"roots":[{"path":"/"}]},"":{"roots":[{"path":"/"}]}}}`, code: -32602, id: "9"},
		{name: "no options", line: `{"jsonrpc":"2.0","id":9,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"t"},"options":7}}`, code: -32602, id: "9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.Agent.Write(c.line)
			if c.code != 0 {
				m := s.Agent.Next()
				if m.Error == nil || m.Error.Code != c.code {
					t.Errorf("it was answered with %s, want %d", m.Raw, c.code)
				}
				if c.id != "" && string(m.ID) != c.id {
					t.Errorf("it was answered under the id %s, want %s", m.ID, c.id)
				}
			}
			if got := e2e.Content(s.Read("a.txt")); got != "a\n" {
				t.Errorf("after it a read gave %q", got)
			}
		})
	}
	s.ExpectQuiet()
	s.Finish()
}

func TestRequest_RejectsIDInFlight(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)
	ask := `{"jsonrpc":"2.0","id":%s,"method":"_a/b","params":{"n":%d}}`
	s.Agent.Write(fmt.Sprintf(ask, `"x"`, 1))
	first := s.Expect("_a/b")
	s.Agent.Write(fmt.Sprintf(ask, `"\u0078"`, 2)) // the same id, spelled differently
	if m := s.Agent.Next(); m.Error == nil || m.Error.Code != -32600 || string(m.ID) != `"\u0078"` {
		t.Errorf("the second was answered with %s", m.Raw)
	}
	s.Reply(first, 1)
	if m := s.Agent.Next(); string(m.Result) != "1" || string(m.ID) != `"x"` {
		t.Errorf("the first was answered with %s", m.Raw)
	}
	// 1 and "1" are two ids.
	s.Agent.Write(fmt.Sprintf(ask, `1`, 3))
	s.Agent.Write(fmt.Sprintf(ask, `"1"`, 4))
	number, text := s.Expect("_a/b"), s.Expect("_a/b")
	s.Reply(text, 4)
	s.Reply(number, 3)
	if m := s.Agent.Next(); string(m.Raw) != `{"jsonrpc":"2.0","id":"1","result":4}` {
		t.Errorf("it was answered with %s", m.Raw)
	}
	if m := s.Agent.Next(); string(m.Raw) != `{"jsonrpc":"2.0","id":1,"result":3}` {
		t.Errorf("it was answered with %s", m.Raw)
	}
	s.Finish()
}

func TestGarbage_FromEditorLosesNothing(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)
	for _, c := range []struct {
		name, line, id string
		code           int
	}{
		{"no JSON at all", `GET / HTTP/1.1`, "null", -32700},
		{"half an object", `{"jsonrpc":"2.0","id":1,`, "null", -32700},
		{"a request without a method's name", `{"jsonrpc":"2.0","id":3,"method":7}`, "3", -32600},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.Write(c.line)
			if m := s.Next(); m.Error == nil || m.Error.Code != c.code || string(m.ID) != c.id {
				t.Errorf("it was answered with %s, want %d under %s", m.Raw, c.code, c.id)
			}
		})
	}
	s.Write(``)
	s.Write(`{"jsonrpc":"2.0","id":4711,"result":{}}`) // an answer without a request
	s.ExpectQuiet()
	s.Finish()
}

func TestLine_OverLimitIsRejected(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "a\n")
	s := p.Fixture(t, p.Config(t, "limits: {max_message_bytes: 65536}\n"))
	long := strings.Repeat("x", 200_000)
	s.Agent.Write(`{"jsonrpc":"2.0","method":"fs/write_text_file","params":{"sessionId":"s1","content":"` + long + `"},"id":"last"}`)
	if m := s.Agent.Next(); m.Error == nil || string(m.ID) != `"last"` || !strings.Contains(m.Error.Message, "65536") {
		t.Errorf("the agent's request was answered with %s", m.Raw)
	}
	s.Write(`{"jsonrpc":"2.0","method":"session/prompt","params":{"sessionId":"s1","prompt":"` + long + `"},"id":31}`)
	if m := s.Next(); m.Error == nil || string(m.ID) != "31" || !strings.Contains(m.Error.Message, "65536") {
		t.Errorf("the editor's request was answered with %s", m.Raw)
	}
	// An answer that is too long must not block the waiting request.
	prompt := s.Send("session/prompt", map[string]any{"sessionId": "s1", "prompt": []any{}})
	asked := s.Agent.Expect("session/prompt")
	s.Agent.Write(`{"jsonrpc":"2.0","id":` + string(asked.ID) + `,"result":{"stopReason":"` + long + `"}}`)
	prompt.Refused(-32603)
	call := s.Agent.Send("_x/y", map[string]any{})
	asked = s.Expect("_x/y")
	s.Write(`{"result":"` + long + `","id":` + string(asked.ID) + `}`)
	call.Refused(-32603)
	if got := e2e.Content(s.Read("a.txt")); got != "a\n" {
		t.Errorf("after that a read gave %q", got)
	}
	s.ExpectQuiet()
	s.Finish()
}

func TestAnswer_ReachesOnlyItsRequester(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "a\n")
	s := p.Fixture(t, nil)
	// Both sides use the same ids at once.
	call := s.Agent.SendAs("500", "_x/y", map[string]any{})
	asked := s.Expect("_x/y")
	prompt := s.SendAs("500", "session/prompt", map[string]any{"sessionId": "s1", "prompt": []any{}})
	prompted := s.Agent.Expect("session/prompt")
	s.Agent.Reply(prompted, map[string]any{"stopReason": "end_turn"})
	prompt.Result(nil)
	s.Reply(asked, "mine")
	if got := string(call.Result(nil).Result); got != `"mine"` {
		t.Errorf("the agent was answered %s", got)
	}
	// An editor cannot answer for a handler.
	read := s.Read("a.txt")
	s.Write(`{"jsonrpc":"2.0","id":` + read.ID() + `,"result":{"content":"forged"}}`)
	if got := e2e.Content(read); got != "a\n" {
		t.Errorf("the agent read %q", got)
	}
	s.ExpectQuiet()
	s.Finish()
}
