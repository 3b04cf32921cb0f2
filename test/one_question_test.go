package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// An agent that is started by a preset with terminal tools names a command in words only, and then calls terminal/create.
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
			p := newPlace(t)
			st := p.newStage(t)
			command := st.command
			if tt.flags[0] == "--agent" {
				command = nil
			}
			cmd, err := json.Marshal(st.command[0])
			if err != nil {
				t.Fatal(err)
			}
			args, err := json.Marshal(st.command[1:])
			if err != nil {
				t.Fatal(err)
			}
			binary := `{"cmd": ` + string(cmd) + `, "args": ` + string(args) + `}`
			p.file(t, "../.config/acphost/agents.json", `{"agents": [{"id": "wordy", "distribution": {"binary": {"linux-x86_64": `+binary+`, "linux-aarch64": `+binary+
				`, "darwin-aarch64": `+binary+`}}, "acphost": {`+tt.entry+`}}]}`)
			h := p.start(t, append(p.policy(t, rules, ""), tt.flags...), command)
			s := &scene{host: h, agent: st.play(t)}
			call := h.initialize(`{}`)
			s.agent.Reply(s.agent.Expect("initialize"), map[string]any{"protocolVersion": 1, "agentInfo": map[string]any{"name": "puppet", "version": "0.1"}})
			call.Result(nil)
			s.open("s1")
			asked := s.ask(map[string]any{"toolCallId": "0:t", "title": "Bash", "content": []any{map[string]any{
				"type": "content", "content": map[string]any{"type": "text", "text": "Requesting approval to Running: touch x"}}}}, options)
			if tt.twice {
				s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
			}
			if got := chosen(t, asked); got != "yes" {
				t.Fatalf("the request was answered with %s", got)
			}
			created := s.agent.Send("terminal/create", map[string]any{"sessionId": "s1", "command": "/bin/sh", "args": []string{"-c", "cd '" + s.work + "' && touch x"}, "cwd": s.work})
			question := s.Expect("session/request_permission")
			if text := string(question.Params); !strings.Contains(text, "touch x") || strings.Contains(text, "not checked") == tt.twice {
				t.Errorf("the question is %s", text)
			}
			s.Reply(question, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "allow_once"}})
			created.Result(nil)
			s.finish()
		})
	}
}
