package intent

import (
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

func TestQwenCode_UnclearIsUnparsed(t *testing.T) {
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
