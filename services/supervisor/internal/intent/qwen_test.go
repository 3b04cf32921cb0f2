package intent

import (
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

func TestWhatQwenCodeAsksIsNormalised(t *testing.T) {
	replayed(t, "qwen.ndjson", "qwen-code", []question{
		{"echo hi > out.txt", seen{kind: "tool.execute", commands: []string{"echo hi", "cd sub", "rm -f x.txt in /ws/sub"}, paths: []string{"w /ws/out.txt"}}},
		{"touch wd.txt [in /ws/sub]", seen{kind: "tool.execute", commands: []string{"touch wd.txt"}, cwd: "/ws/sub"}},
		{"cat /outside/f > /outside/g", seen{kind: "tool.execute", commands: []string{"cat /outside/f"}, paths: []string{"w /outside/g outside"}}},
		{"> pets2.txt", seen{kind: "tool.execute", commands: []string{""}, paths: []string{"w /ws/pets2.txt"}}},
		{"sleep 300 [background]", seen{kind: "tool.execute", commands: []string{"sleep 300"}}},
		{"pets.txt", seen{kind: "tool.edit", paths: []string{"w /ws/pets.txt"}}},
		{"Writing to new.txt", seen{kind: "tool.edit", paths: []string{"w /ws/new.txt"}}},
		{"Writing to /outside/w.txt", seen{kind: "tool.edit", paths: []string{"w /outside/w.txt outside"}}},
		{"/outside/f", seen{kind: "tool.read", paths: []string{"r /outside/f outside"}}},
		{"'cat' in /outside", seen{kind: "tool.search", paths: []string{"r /outside outside"}}},
		{"Fetching content from http://127.0.0.1:8080/x", seen{kind: "tool.fetch"}},
		{"d", seen{kind: "tool.other"}},
		// Who allows it answers nothing, so that nobody but a person should.
		{"Ask user 1 question", seen{kind: "tool.think", unparsed: "a question of its own"}},
		{"Plan:", seen{kind: "tool.switch_mode"}},
		{"touch mark-plan2", seen{kind: "tool.execute", commands: []string{"touch mark-plan2"}}},
		// Its own model could not say whether it is safe.
		{"echo hi > out.txt", seen{kind: "tool.execute", commands: []string{"echo hi", "cd sub", "rm -f x.txt in /ws/sub"}, paths: []string{"w /ws/out.txt"}}},
		// The tool of an MCP server, which runs it on another machine.
		{`{"host":"prod","command":"ls"}`, seen{kind: "tool.execute", commands: []string{"ls"}, unparsed: "does not call this one"}},
	})
}

func TestQwenCodeIsUnderstoodOnlyWhereItIsClear(t *testing.T) {
	for _, tt := range []struct {
		name, report string
		want         seen
	}{
		{"a command in a folder outside", `{"kind":"execute","rawInput":{"command":"ls > a","directory":"/etc","is_background":false}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, cwd: "/etc", paths: []string{"w /etc/a outside"}}},
		{"a command in a folder that is no text", `{"kind":"execute","rawInput":{"command":"ls","directory":["/etc"]}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, unparsed: "directory cannot be read"}},
		{"a command that a sub-agent does not tell", `{"kind":"execute","title":"Shell: ls"}`,
			seen{kind: "tool.execute", unparsed: "does not say which"}},
		{"an edit whose diff has a name alone", `{"kind":"edit","rawInput":{"file_path":"/ws/sub/a"},"content":[` + diff("a") + `],"locations":[{"path":"/ws/sub/a"}]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a", "w /ws/sub/a"}}},
		{"a question of its own", `{"kind":"think","rawInput":{"questions":[]}}`, seen{kind: "tool.think", unparsed: "a question of its own"}},
		{"a question of its own, in another case", `{"kind":"think","rawInput":{"Questions":[{}]}}`, seen{kind: "tool.think", unparsed: "a question of its own"}},
		{"a command in a search", `{"kind":"search","rawInput":{"command":"ls"}}`, seen{kind: "tool.execute", commands: []string{"ls"}, unparsed: "does not call this one"}},
		{"a thought", `{"kind":"think","rawInput":{"thought":"x"}}`, seen{kind: "tool.think"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tc := acp.ToolCall{ID: "c"}
			tc.Merge([]byte(tt.report))
			tt.want.check(t, Question(inSession("qwen-code"), tc))
		})
	}
}
