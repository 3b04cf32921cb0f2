package e2e_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
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

// printed runs a terminal of the agent's, and returns its output.
func (s *scene) printed(with ...any) string {
	s.t.Helper()
	var made struct{ TerminalID string }
	s.agent.Request("terminal/create", params(with...), &made)
	s.agent.Request("terminal/wait_for_exit", params("terminalId", made.TerminalID), nil)
	var output struct{ Output string }
	s.agent.Request("terminal/output", params("terminalId", made.TerminalID), &output)
	return output.Output
}

func TestDescriptions_Terminals(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, nil)
	tool := p.file(t, "my tool", "#!/bin/sh\necho \"tool $# $1\"\n")
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
		{"env is a list", []any{"command", "echo $A-$B", "env", []any{params("name", "A", "value", "1"), params("name", "B", "value", "x y")}}, "1-x y\n"},
		{"env is an object", []any{"command", "echo $A-$B", "env", map[string]any{"A": "1", "B": "x y"}}, "1-x y\n"},
	} {
		if got := s.printed(c.with...); got != c.want {
			t.Errorf("%s: the output is %q, want %q", c.name, got, c.want)
		}
	}
	s.finish()
}

func TestDescriptions_EmptyResultsAndSessionsWithoutRoots(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "a.txt", "one\n")
	s := p.scene(t, nil)
	var made struct{ TerminalID string }
	s.agent.Request("terminal/create", params("command", "sleep 600"), &made)
	terminal := params("terminalId", made.TerminalID)
	for _, call := range []struct {
		method string
		params map[string]any
	}{
		{"fs/write_text_file", params("path", p.path("b.txt"), "content", "x")}, {"terminal/kill", terminal}, {"terminal/release", terminal},
	} {
		if m := s.agent.Send(call.method, call.params).Answer(); string(m.Result) != "{}" {
			t.Errorf("%s: the result is %s, want {}", call.method, m.Raw)
		}
	}

	opened := s.Send("session/new", map[string]any{"mcpServers": []any{}})
	s.agent.Reply(s.agent.Expect("session/new"), map[string]any{"sessionId": "rootless"})
	opened.Result(nil)
	for method, more := range map[string]map[string]any{
		"fs/read_text_file":  {"path": p.path("a.txt")},
		"fs/write_text_file": {"path": p.path("c.txt"), "content": "x"},
		"terminal/create":    {"command": "touch " + p.path("c.txt")},
	} {
		more["sessionId"] = "rootless"
		s.agent.Send(method, more).Refused(-32602)
	}
	if _, err := os.Stat(p.path("c.txt")); err == nil {
		t.Error("a session without roots has made a file")
	}
	s.finish()
}

func TestDescriptions_MCPServersAndDebugFromAnEditor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	st := p.newStage(t)
	shows := append([]string{"sh", "-c", `printf %s "$DEBUG" >debug; exec "$@"`, "sh"}, st.command...)
	s := &scene{host: p.start(t, nil, shows, "DEBUG=acp:*")}
	s.agent = st.play(t)
	call := s.initialize(`{}`)
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":20250101}}`, s.agent.Expect("initialize").ID)
	s.agent.Write(answer)
	if got := string(call.Answer().Raw); got != answer {
		t.Errorf("the editor got %s, want %s", got, answer)
	}
	expectFile(t, p.path("debug"), "acp:*")
	servers := []any{map[string]any{"name": "x", "command": "npx", "args": []string{"-y", "server"}, "env": []any{}}}
	s.Send("session/new", map[string]any{"cwd": p.work, "mcpServers": servers})
	var got struct{ MCPServers []any }
	if s.agent.Expect("session/new").Decode(t, &got); !equalJSON(t, got.MCPServers, servers) {
		t.Errorf("the agent got the servers %v, want %v", got.MCPServers, servers)
	}
	if log := s.Stderr(); strings.Contains(log, "session/new") {
		t.Errorf("with DEBUG=acp:*, acphost logs messages:\n%s", log)
	}
	s.finish()
}

func TestDescriptions_OverGRPC(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	type started struct {
		agent *supervisorv1.Agent
		err   error
	}
	start := func(version int) (*pupil, started) {
		t.Helper()
		st := p.newStage(t)
		done := make(chan started, 1)
		go func() {
			resp, err := s.agents.StartAgent(s.ctx, &supervisorv1.StartAgentRequest{Command: st.command, Cwd: p.work, Separate: true})
			done <- started{resp.GetAgent(), err}
		}()
		agent := st.play(t)
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
		t.Fatal(explain(good.err))
	}
	_, err := s.sessions.NewSession(s.ctx, &supervisorv1.NewSessionRequest{AgentId: good.agent.GetId(), Cwd: p.work, McpServers: []*supervisorv1.McpServer{
		{Name: "x", Transport: &supervisorv1.McpServer_Stdio{Stdio: &supervisorv1.McpStdio{Command: "npx"}}},
	}})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "npx") {
		t.Errorf("an MCP server npx: %v, want INVALID_ARGUMENT and its name", err)
	}
	// An agent is told nothing before it is stopped: its input ends.
	if _, err := s.agents.StopAgent(s.ctx, &supervisorv1.StopAgentRequest{AgentId: good.agent.GetId()}); err != nil {
		t.Error(explain(err))
	}
	agent.ExpectEnd()
	if said := agent.Waiting(); len(said) > 0 {
		t.Errorf("before it was stopped the agent got %s, want nothing", said[0].Raw)
	}
	s.finish()
}
