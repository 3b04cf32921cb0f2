package intent

import (
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

func TestOpenCode_UnclearIsUnparsed(t *testing.T) {
	file := func(members string) string {
		return `{"kind":"edit","rawInput":{"filepath":"a","files":[{"filePath":"/ws/a"` + members + `}]},"content":[` + diff("/ws/a") + `]}`
	}
	for _, tt := range []struct {
		name, report string
		want         seen
	}{
		{"a command in a folder that is named", `{"kind":"execute","rawInput":{"command":"ls > a","workdir":"sub"}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, cwd: "/ws/sub", paths: []string{"w /ws/sub/a"}}},
		{"a command in a folder that a report names", `{"kind":"execute","rawInput":{"command":"ls","cwd":"/ws"}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, cwd: "/ws"}},
		{"a command in a folder with an empty name", `{"kind":"execute","rawInput":{"command":"ls","workdir":"","cwd":null}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, unparsed: "in which directory"}},
		{"a command in a folder that is no text", `{"kind":"execute","rawInput":{"command":"ls","workdir":["/"]}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, unparsed: "in which directory"}},
		{"a command that leaves its folder", `{"kind":"other","rawInput":{"command":"ls","directories":["/etc","/var"],"cwd":"/ws"},"locations":[{"path":"/etc"}]}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, cwd: "/ws", paths: []string{"w /etc outside", "w /var outside"}, unparsed: "that the command does not name"}},
		{"a command that is another tool's", `{"kind":"other","rawInput":{"command":"ls","directories":[],"patterns":[],"cwd":"/ws","host":"prod"},"locations":[]}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, cwd: "/ws", unparsed: "does not call this one"}},
		{"a file that a patch changes", file(`,"type":"update"`), seen{kind: "tool.edit", paths: []string{"w /ws/a"}}},
		{"a file that a patch adds", file(`,"type":"add","movePath":null`), seen{kind: "tool.edit", paths: []string{"w /ws/a"}}},
		{"a file that a patch deletes", file(`,"type":"delete"`), seen{kind: "tool.edit", paths: []string{"w /ws/a"}, unparsed: "deletes a file"}},
		{"a file that a patch moves", file(`,"type":"update","movePath":"/etc/a"`),
			seen{kind: "tool.edit", paths: []string{"w /ws/a", "w /etc/a outside"}, unparsed: "moves a file"}},
		{"a file that a patch moves nobody knows where", file(`,"type":"move"`), seen{kind: "tool.edit", paths: []string{"w /ws/a"}, unparsed: "moves a file"}},
		{"a file that a patch moves to what is no path", file(`,"type":"move","movePath":{}`),
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}, unparsed: "movePath cannot be read"}},
		{"a file that something is done to", file(`,"type":"chmod"`), seen{kind: "tool.edit", paths: []string{"w /ws/a"}, unparsed: "not said"}},
		{"a file that nothing is said of", file(``), seen{kind: "tool.edit", paths: []string{"w /ws/a"}, unparsed: "not said"}},
		{"a patch of what are no files", `{"kind":"edit","rawInput":{"files":[{"filePath":"/ws/a","type":"add"},"/etc/b"]},"content":[` + diff("/ws/a") + `]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}, unparsed: "files cannot be read"}},
		{"files that are names", `{"kind":"read","rawInput":{"files":["/ws/a","/etc/b"]}}`,
			seen{kind: "tool.read", paths: []string{"r /ws/a", "r /etc/b outside"}}},
		{"a folder that is no text", `{"kind":"other","rawInput":{"filepath":"/etc/a","parentDir":1}}`,
			seen{kind: "tool.other", paths: []string{"w /etc/a outside"}, unparsed: "parentdir cannot be read"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tc := acp.ToolCall{ID: "c"}
			tc.Merge([]byte(tt.report))
			tt.want.check(t, Question(inSession("OpenCode"), tc))
		})
	}
}

func TestOpenCode_DirectoryFromMatchingReport(t *testing.T) {
	const report = `{"sessionUpdate":"tool_call_update","toolCallId":"c","rawInput":`
	for _, tt := range []struct {
		name, report string
		want         seen
	}{
		{"the model's directory", `{"command":"ls","workdir":"/etc","cwd":"/ws"}`, seen{kind: "tool.execute", commands: []string{"ls"}, cwd: "/etc"}},
		{"the session's", `{"command":"ls","cwd":"/ws"}`, seen{kind: "tool.execute", commands: []string{"ls"}, cwd: "/ws"}},
		{"another command's", `{"command":"ls -l","cwd":"/ws"}`, seen{kind: "tool.execute", commands: []string{"ls"}, unparsed: "in which directory"}},
		{"no command's yet", `{"cwd":"/ws"}`, seen{kind: "tool.execute", commands: []string{"ls"}, unparsed: "in which directory"}},
		{"none", `{"command":"ls","workdir":["/"]}`, seen{kind: "tool.execute", commands: []string{"ls"}, unparsed: "in which directory"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tc := acp.ToolCall{ID: "c"}
			tc.Merge([]byte(report + tt.report + `}`))
			tc.Merge([]byte(`{"toolCallId":"c","kind":"execute","rawInput":{"command":"ls"}}`))
			tt.want.check(t, Question(inSession("OpenCode"), tc))
		})
	}
}
