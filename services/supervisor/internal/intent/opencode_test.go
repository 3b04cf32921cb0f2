package intent

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// question is what a recorded question is about, told from the tool call that the agent's reports and questions made.
type question struct {
	title string
	seen  seen
}

// replayed folds recorded frames as a session does, and normalises each question among them.
func replayed(t *testing.T, file, agent string, want []question) {
	t.Helper()
	frames, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]*acp.ToolCall{}
	questions := 0
	for frame := range bytes.Lines(frames) {
		frame = bytes.TrimSpace(frame)
		method, _ := acp.String(acp.Get(frame, "method"))
		isQuestion := method == "session/request_permission"
		report := acp.Get(frame, "params", "update")
		if isQuestion {
			report = acp.Get(frame, "params", "toolCall")
		}
		id := acp.ToolCallID(report)
		if id == "" {
			t.Fatalf("a frame is about no tool call: %s", frame)
		}
		if calls[id] == nil {
			calls[id] = &acp.ToolCall{}
		}
		calls[id].Merge(report)
		if !isQuestion {
			continue
		}
		if questions == len(want) {
			t.Fatalf("one more question than the %d that are expected: %s", len(want), report)
		}
		q := want[questions]
		questions++
		t.Run(q.title, func(t *testing.T) {
			a := Question(inSession(agent), *calls[id])
			if !strings.HasPrefix(a.GetTitle(), q.title) {
				t.Errorf("the question's title is %q, want %q", a.GetTitle(), q.title)
			}
			q.seen.check(t, a)
		})
	}
	if questions != len(want) {
		t.Errorf("%d questions, want %d", questions, len(want))
	}
}

func TestWhatOpenCodeAsksIsNormalised(t *testing.T) {
	replayed(t, "opencode.ndjson", "OpenCode", []question{
		{"read", seen{kind: "tool.read", paths: []string{"r /ws/pets.txt"}}},
		{"echo hi > out.txt", seen{kind: "tool.execute", commands: []string{"echo hi", "cd sub", "rm -f x.txt in /ws/sub"}, paths: []string{"w /ws/out.txt"}, cwd: "/ws"}},
		// It runs in another folder, of which only the report before tells.
		{"touch wd.txt", seen{kind: "tool.execute", commands: []string{"touch wd.txt"}, cwd: "/ws/sub"}},
		{"cat /outside/f > /outside/g", seen{kind: "tool.execute", commands: []string{"cat /outside/f"}, paths: []string{"w /outside outside", "w /outside/g outside"}, cwd: "/ws"}},
		{"cat /outside/f > /outside/g", seen{kind: "tool.execute", commands: []string{"cat /outside/f"}, paths: []string{"w /outside/g outside"}, cwd: "/ws"}},
		{"/ws/pets.txt", seen{kind: "tool.edit", paths: []string{"w /ws/pets.txt"}}},
		{"/ws/new.txt", seen{kind: "tool.edit", paths: []string{"w /ws/new.txt"}}},
		{"/outside", seen{kind: "tool.other", paths: []string{"w /outside/w.txt outside", "w /outside outside"}}},
		{"/outside/w.txt", seen{kind: "tool.edit", paths: []string{"w /outside/w.txt outside"}}},
		{"/outside", seen{kind: "tool.other", paths: []string{"w /outside/f outside", "w /outside outside"}}},
		// What it asked about the folder stands for the file, since it says nothing more.
		{"read", seen{kind: "tool.read", paths: []string{"r /outside/f outside", "r /outside outside"}}},
		{"todowrite", seen{kind: "tool.other"}},
		{"cat", seen{kind: "tool.search", paths: []string{"r /outside outside"}}},
		{"/outside", seen{kind: "tool.other", paths: []string{"w /outside outside"}}},
		{"**/*.txt", seen{kind: "tool.search", paths: []string{"r /ws"}}},
		{"http://127.0.0.1:8080/x", seen{kind: "tool.fetch"}},
		// A sub-agent's own questions never come.
		{"task", seen{kind: "tool.think", unparsed: "the agent starts another"}},
		{"skill", seen{kind: "tool.other"}},
		{"read", seen{kind: "tool.read", paths: []string{"r /ws/.env"}}},
		// Patches.
		{"pets.txt", seen{kind: "tool.edit", paths: []string{"w /ws/pets.txt"}}},
		{"4 files", seen{kind: "tool.edit", paths: []string{"w /ws/moved.txt", "w /ws/p2.txt", "w /ws/added.txt", "w /ws/sub/x.txt", "w /ws/pets.txt"},
			unparsed: "the patch moves a file; the patch deletes a file"}},
		{"/outside", seen{kind: "tool.other", paths: []string{"w /outside/p.txt outside", "w /outside outside"}}},
		{"../outside/p.txt", seen{kind: "tool.edit", paths: []string{"w /outside/p.txt outside"}}},
		{"p2.txt", seen{kind: "tool.edit", paths: []string{"w /ws/p2.txt"}, unparsed: "deletes a file"}},
		{"todowrite", seen{kind: "tool.other"}},
	})
}

func TestOpenCodeIsUnderstoodOnlyWhereItIsClear(t *testing.T) {
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
			seen{kind: "tool.execute", commands: []string{"ls"}, cwd: "/ws", paths: []string{"w /etc outside", "w /var outside"}}},
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

func TestWhereOpenCodeRunsACommandIsTakenFromTheReportOfJustThat(t *testing.T) {
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
