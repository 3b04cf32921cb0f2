package protocol_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

// TestDescriptions_DifferencesFromACP checks the differences in docs/decisions/seeds.md.
func TestDescriptions_DifferencesFromACP(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "one\n")
	st := p.Stage(t)
	h := p.Start(t, nil, st.Command)
	s := &e2e.Fixture{Host: h, Agent: st.Play(t)}

	call := s.Initialize(`{"textFiles":{"read":true},"terminals":true}`)
	got := s.Agent.Expect("initialize")
	var offered struct{ ClientCapabilities map[string]any }
	got.Decode(t, &offered)
	if want := map[string]any{"textFiles": map[string]any{"read": true}, "terminals": true, "terminal": true,
		"fs": map[string]any{"readTextFile": true, "writeTextFile": true}}; !e2e.EqualJSON(t, offered.ClientCapabilities, want) {
		t.Errorf("the agent was offered %v, want %v", offered.ClientCapabilities, want)
	}
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1,"serverInfo":{"name":"a","version":"1"},"capabilities":{"x":1}}}`, got.ID)
	s.Agent.Write(answer)
	if got := string(call.Answer().Raw); got != answer {
		t.Errorf("the editor got %s, want %s", got, answer)
	}

	s.Open("s1")
	read := map[string]any{"path": p.Path("a.txt")}
	if got := e2e.Content(s.Agent.Send("fs/read_text_file", read)); got != "one\n" {
		t.Errorf("a read without a session got %q", got)
	}
	s.Agent.Send("fs/read_text_file", map[string]any{"path": p.Path("none.txt")}).Refused(-32002)
	s.Agent.Send("terminal/output", e2e.Params("terminalId", "none")).Refused(-32002)
	forwardsError(s, -32001)
	s.Agent.Send("terminal/run", e2e.Params("terminalId", "t", "command", "touch ran")).Refused(-32602)
	if _, err := os.Stat(p.Path("ran")); err == nil {
		t.Error("terminal/run in a terminal that exists has run its command")
	}

	for _, limit := range []string{"outputByteLimit", "maxOutputBytes"} {
		var made struct{ TerminalID string }
		s.Agent.Request("terminal/create", e2e.Params("command", "printf 0123456789", limit, 4), &made)
		terminal := e2e.Params("terminalId", made.TerminalID)
		s.Agent.Request("terminal/wait_for_exit", terminal, nil)
		var output struct {
			Output    string
			Truncated bool
		}
		s.Agent.Request("terminal/output", terminal, &output)
		if output.Output != "6789" || !output.Truncated {
			t.Errorf("with %s, the output is %+v, want the last bytes", limit, output)
		}
		for range 2 {
			s.Agent.Request("terminal/release", terminal, nil)
		}
		s.Agent.Send("terminal/output", terminal).Refused(-32002)
	}

	call = s.Send("newSession", map[string]any{"workingDirectory": p.Work, "mcpServers": []any{}})
	s.Agent.Reply(s.Agent.Expect("newSession"), map[string]any{"sessionId": "s2"})
	call.Result(nil)
	if got := e2e.Content(s.Agent.Send("fs/read_text_file", map[string]any{"sessionId": "s2", "path": p.Path("a.txt")})); got != "one\n" {
		t.Errorf("a read in a session with a workingDirectory got %q", got)
	}
	s.Agent.Send("fs/read_text_file", read).Refused(-32602)
	s.Finish()
}

func TestDescriptions_Terminals(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)
	tool := p.File(t, "my tool", "#!/bin/sh\necho \"tool $# $1\"\n")
	if err := os.Chmod(tool, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		with []any
		want string
	}{
		{"a line runs in sh", []any{"command", "echo $0; echo two"}, "sh\ntwo\n"},
		{"an agent names bash", []any{"command", "bash", "args", []string{"-c", "echo ${BASH_VERSION:+bash}"}}, "bash\n"},
		{"args are no line", []any{"command", "printf", "args", []string{"%s|", "a b", "$HOME", ";"}}, "a b|$HOME|;|"},
		{"command with args is not split", []any{"command", tool, "args", []string{"x y"}}, "tool 1 x y\n"},
		{"command without args is not split", []any{"command", tool}, "tool 0 \n"},
		{"command without args is a line", []any{"command", "echo 'a  b'"}, "a  b\n"},
		{"env is a list", []any{"command", "echo $A-$B", "env", []any{e2e.Params("name", "A", "value", "1"), e2e.Params("name", "B", "value", "x y")}}, "1-x y\n"},
		{"env is an object", []any{"command", "echo $A-$B", "env", map[string]any{"A": "1", "B": "x y"}}, "1-x y\n"},
	} {
		if got := printed(s, c.with...); got != c.want {
			t.Errorf("%s: the output is %q, want %q", c.name, got, c.want)
		}
	}
	s.Finish()
}

func TestDescriptions_EmptyResultsAndSessionsWithoutRoots(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "one\n")
	s := p.Fixture(t, nil)
	var made struct{ TerminalID string }
	s.Agent.Request("terminal/create", e2e.Params("command", "sleep 600"), &made)
	terminal := e2e.Params("terminalId", made.TerminalID)
	for _, call := range []struct {
		method string
		params map[string]any
	}{
		{"fs/write_text_file", e2e.Params("path", p.Path("b.txt"), "content", "x")}, {"terminal/kill", terminal}, {"terminal/release", terminal},
	} {
		if m := s.Agent.Send(call.method, call.params).Answer(); string(m.Result) != "{}" {
			t.Errorf("%s: the result is %s, want {}", call.method, m.Raw)
		}
	}

	opened := s.Send("session/new", map[string]any{"mcpServers": []any{}})
	s.Agent.Reply(s.Agent.Expect("session/new"), map[string]any{"sessionId": "rootless"})
	opened.Result(nil)
	for method, more := range map[string]map[string]any{
		"fs/read_text_file":  {"path": p.Path("a.txt")},
		"fs/write_text_file": {"path": p.Path("c.txt"), "content": "x"},
		"terminal/create":    {"command": "touch " + p.Path("c.txt")},
	} {
		more["sessionId"] = "rootless"
		s.Agent.Send(method, more).Refused(-32602)
	}
	if _, err := os.Stat(p.Path("c.txt")); err == nil {
		t.Error("a session without roots has made a file")
	}
	s.Finish()
}

func TestDescriptions_MCPServersAndDebugFromEditor(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	st := p.Stage(t)
	shows := append([]string{"sh", "-c", `printf %s "$DEBUG" >debug; exec "$@"`, "sh"}, st.Command...)
	s := &e2e.Fixture{Host: p.Start(t, nil, shows, "DEBUG=acp:*")}
	s.Agent = st.Play(t)
	call := s.Initialize(`{}`)
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":20250101}}`, s.Agent.Expect("initialize").ID)
	s.Agent.Write(answer)
	if got := string(call.Answer().Raw); got != answer {
		t.Errorf("the editor got %s, want %s", got, answer)
	}
	e2e.ExpectFile(t, p.Path("debug"), "acp:*")
	servers := []any{map[string]any{"name": "x", "command": "npx", "args": []string{"-y", "server"}, "env": []any{}}}
	s.Send("session/new", map[string]any{"cwd": p.Work, "mcpServers": servers})
	var got struct{ MCPServers []any }
	if s.Agent.Expect("session/new").Decode(t, &got); !e2e.EqualJSON(t, got.MCPServers, servers) {
		t.Errorf("the agent got the servers %v, want %v", got.MCPServers, servers)
	}
	if log := s.Stderr(); strings.Contains(log, "session/new") {
		t.Errorf("with DEBUG=acp:*, acphost logs messages:\n%s", log)
	}
	s.Finish()
}

func TestDescriptions_OverGRPC(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	type started struct {
		agent *supervisorv1.Agent
		err   error
	}
	start := func(version int) (*e2e.ScriptedAgent, started) {
		t.Helper()
		st := p.Stage(t)
		done := make(chan started, 1)
		go func() {
			resp, err := s.Agents.StartAgent(s.Ctx, &supervisorv1.StartAgentRequest{Command: st.Command, Cwd: p.Work, Separate: true})
			done <- started{resp.GetAgent(), err}
		}()
		agent := st.Play(t)
		asked := agent.Expect("initialize")
		var offered struct{ ProtocolVersion int }
		if asked.Decode(t, &offered); offered.ProtocolVersion != 1 {
			t.Errorf("acphost asks for version %d, want 1", offered.ProtocolVersion)
		}
		agent.Reply(asked, map[string]any{"protocolVersion": version})
		return agent, <-done
	}
	_, wrong := start(20250101)
	if wrong.err == nil || !strings.Contains(wrong.err.Error(), "20250101") {
		t.Errorf("an agent of version 20250101 is started with %v, want an error that names the version", wrong.err)
	}

	agent, good := start(1)
	if good.err != nil {
		t.Fatal(e2e.Explain(good.err))
	}
	_, err := s.Sessions.NewSession(s.Ctx, &supervisorv1.NewSessionRequest{AgentId: good.agent.GetId(), Cwd: p.Work, McpServers: []*supervisorv1.McpServer{
		{Name: "x", Transport: &supervisorv1.McpServer_Stdio{Stdio: &supervisorv1.McpStdio{Command: "npx"}}},
	}})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "npx") {
		t.Errorf("an MCP server npx: %v, want INVALID_ARGUMENT and its name", err)
	}
	// An agent receives no message before it is stopped: its input ends.
	if _, err := s.Agents.StopAgent(s.Ctx, &supervisorv1.StopAgentRequest{AgentId: good.agent.GetId()}); err != nil {
		t.Error(e2e.Explain(err))
	}
	agent.ExpectEnd()
	if messages := agent.Waiting(); len(messages) > 0 {
		t.Errorf("before it was stopped the agent got %s, want nothing", messages[0].Raw)
	}
	s.Finish()
}

// forwardsError has the editor answer a request of the agent with an error code, which must arrive unchanged.
func forwardsError(s *e2e.Fixture, code int) {
	s.T.Helper()
	s.Agent.Write(`{"jsonrpc":"2.0","id":"e","method":"_a.example/ask"}`)
	s.Expect("_a.example/ask")
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":"e","error":{"code":%d,"message":"x"}}`, code)
	s.Write(answer)
	if got := string(s.Agent.Next().Raw); got != answer {
		s.T.Errorf("the agent got %s, want %s", got, answer)
	}
}

// printed runs a terminal of the agent, and returns its output.
func printed(s *e2e.Fixture, with ...any) string {
	s.T.Helper()
	var made struct{ TerminalID string }
	s.Agent.Request("terminal/create", e2e.Params(with...), &made)
	s.Agent.Request("terminal/wait_for_exit", e2e.Params("terminalId", made.TerminalID), nil)
	var output struct{ Output string }
	s.Agent.Request("terminal/output", e2e.Params("terminalId", made.TerminalID), &output)
	return output.Output
}
