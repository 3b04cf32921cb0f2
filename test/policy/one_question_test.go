package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

// TestTerminalTools_AskOnce: an agent started by a preset with terminal tools describes a command in text only, and
// then calls terminal/create.
func TestTerminalTools_AskOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		entry string // of agents.json, beside the command
		flags []string
		twice bool
	}{
		"the preset":     {`"terminal_tools": {"versions": ["0.1"], "titles": ["Bash"]}`, []string{"--agent", "wordy"}, false},
		"other versions": {`"terminal_tools": {"versions": ["0.2"], "titles": ["Bash"]}`, []string{"--agent", "wordy"}, true},
		"no preset":      {`"terminal_tools": {"versions": ["0.1"], "titles": ["Bash"]}`, []string{"--agent-name", "wordy"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			st := p.Stage(t)
			command := st.Command
			if tt.flags[0] == "--agent" {
				command = nil
			}
			cmd, err := json.Marshal(st.Command[0])
			if err != nil {
				t.Fatal(err)
			}
			args, err := json.Marshal(st.Command[1:])
			if err != nil {
				t.Fatal(err)
			}
			binary := `{"cmd": ` + string(cmd) + `, "args": ` + string(args) + `}`
			p.File(t, "../.config/acphost/agents.json", `{"agents": [{"id": "wordy", "distribution": {"binary": {"linux-x86_64": `+binary+`, "linux-aarch64": `+binary+
				`, "darwin-aarch64": `+binary+`}}, "acphost": {`+tt.entry+`}}]}`)
			h := p.Start(t, append(p.Policy(t, e2e.Rules, ""), tt.flags...), command)
			s := &e2e.Fixture{Host: h, Agent: st.Play(t)}
			call := h.Initialize(`{}`)
			s.Agent.Reply(s.Agent.Expect("initialize"), map[string]any{"protocolVersion": 1, "agentInfo": map[string]any{"name": "puppet", "version": "0.1"}})
			call.Result(nil)
			s.Open("s1")
			asked := s.Ask(map[string]any{"toolCallId": "0:t", "title": "Bash", "content": []any{map[string]any{
				"type": "content", "content": map[string]any{"type": "text", "text": "Requesting approval to Running: touch x"}}}}, e2e.Options)
			if tt.twice {
				s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
			}
			if got := e2e.Chosen(t, asked); got != "yes" {
				t.Fatalf("the request was answered with %s", got)
			}
			created := s.Agent.Send("terminal/create", map[string]any{"sessionId": "s1", "command": "/bin/sh", "args": []string{"-c", "cd '" + s.Work + "' && touch x"}, "cwd": s.Work})
			question := s.Expect("session/request_permission")
			if text := string(question.Params); !strings.Contains(text, "touch x") || strings.Contains(text, "not checked") == tt.twice {
				t.Errorf("the question is %s", text)
			}
			s.Reply(question, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "allow_once"}})
			created.Result(nil)
			s.Finish()
		})
	}
}
