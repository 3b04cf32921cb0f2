package intent

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// toolCall is what is known after some reports of a tool call.
func toolCall(reports ...string) acp.ToolCall {
	var tc acp.ToolCall
	for _, r := range reports {
		tc.Merge([]byte(r))
	}
	return tc
}

func TestContradicts_DetectsOtherCalls(t *testing.T) {
	const (
		command = `{"toolCallId":"t","kind":"execute","rawInput":{"command":"git status","cwd":"/ws/sub","env":["A=1"]}}`
		bare    = `{"toolCallId":"t","kind":"execute","rawInput":{"command":["bash","-lc","git status"]}}`
		diff    = `{"toolCallId":"t","kind":"edit","content":[{"type":"diff","path":"/ws/a","oldText":"one","newText":"two"}]}`
	)
	for name, tt := range map[string]struct {
		shown, update string
		want          bool
	}{
		"the same command":                {command, `{"rawInput":{"command":"git status","cwd":"/ws/sub","env":["A=1"],"more":1}}`, false},
		"a title, a status, a place":      {command, `{"title":"x","status":"in_progress","locations":[{"path":"/etc"}]}`, false},
		"the same in other words":         {command, `{"rawInput":{"cmd":["bash","-lc","git status"],"workdir":"sub/.","environment":{"A":"1"}}}`, false},
		"a shell around it":               {bare, `{"rawInput":{"command":"git status"}}`, false},
		"another command":                 {command, `{"rawInput":{"command":"git push"}}`, true},
		"more of a command":               {command, `{"rawInput":{"command":"git status; rm -rf ."}}`, true},
		"a beginning of the command":      {command, `{"rawInput":{"command":"git st"}}`, false},
		"an argument more":                {bare, `{"rawInput":{"command":["git","status","x"]}}`, true},
		"a directory where none was":      {bare, `{"rawInput":{"command":"git status","workdir":"/ws/sub"}}`, false},
		"another directory":               {command, `{"rawInput":{"command":"git status","cwd":"/ws"}}`, true},
		"another directory alone":         {command, `{"rawInput":{"cwd":"/ws"}}`, true},
		"two directories":                 {command, `{"rawInput":{"cwd":"/ws/sub","workdir":"/ws"}}`, true},
		"no variables":                    {command, `{"rawInput":{"command":"git status"}}`, false},
		"other variables":                 {command, `{"rawInput":{"command":"git status","env":["A=2"]}}`, true},
		"variables where none were":       {bare, `{"rawInput":{"command":"git status","env":["LD_PRELOAD=/x"]}}`, true},
		"harmless variables":              {bare, `{"rawInput":{"command":"git status","env":["NO_COLOR=1"]}}`, false},
		"a second command beside it":      {bare, `{"rawInput":{"command":"git status","cmd":"git push"}}`, true},
		"a command that cannot be read":   {bare, `{"rawInput":{"command":"git status","args":7}}`, true},
		"a name twice":                    {bare, `{"rawInput":{"command":"git status","command":"git push"}}`, true},
		"a report that reads in two ways": {bare, `{"rawInput":{"command":"git status"},"RawInput":{"command":"git push"}}`, true},
		"a command where none was":        {diff, `{"rawInput":{"command":"git push"}}`, false},

		"the same diff":                     {diff, `{"content":[{"type":"diff","path":"a","oldText":"one","newText":"two"},{"type":"terminal","terminalId":"x"}]}`, false},
		"no diff":                           {diff, `{"content":[]}`, false},
		"a diff of another file":            {diff, `{"content":[{"type":"diff","path":"/ws/b","oldText":"1","newText":"2"}]}`, false},
		"another new text":                  {diff, `{"content":[{"type":"diff","path":"/ws/a","oldText":"one","newText":"three"}]}`, true},
		"more of a new text":                {diff, `{"content":[{"type":"diff","path":"file:///ws/a","oldText":"one","newText":"two+"}]}`, true},
		"another old text":                  {diff, `{"content":[{"type":"diff","path":"/ws/./a","oldText":"zero","newText":"two"}]}`, true},
		"beginnings of the texts":           {diff, `{"content":[{"type":"diff","path":"/ws/a","oldText":null,"newText":"t"}]}`, false},
		"a second diff of the file":         {diff, `{"content":[{"type":"diff","path":"/ws/a","oldText":"one","newText":"two"},{"type":"diff","path":"/ws/a","oldText":"","newText":""}]}`, true},
		"a diff that reads in several ways": {diff, `{"content":[{"type":"diff","path":"/ws/a","oldText":"one","newText":"two","NewText":"three"}]}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := inSession("x").Contradicts(toolCall(tt.shown), toolCall(tt.shown, tt.update)); got != tt.want {
				t.Errorf("it contradicts: %v", got)
			}
		})
	}
}

func TestContradicts_RepeatedCommandIsSame(t *testing.T) {
	const (
		asked  = `{"toolCallId":"t","title":"git status","kind":"execute","rawInput":{"command":"git status"}}`
		report = `{"toolCallId":"t","sessionUpdate":"tool_call_update","rawInput":{"command":"git status","description":"Look.","cwd":"/ws"}}`
	)
	for name, tt := range map[string]struct {
		judged, now acp.ToolCall
		want        bool
	}{
		"with the directory that it was judged by": {toolCall(report, asked), toolCall(asked, report), true},
		"with one that came too late":              {toolCall(asked), toolCall(asked, report), false},
		"in another directory":                     {toolCall(report, asked), toolCall(asked, strings.ReplaceAll(report, "/ws", "/etc")), false},
		"in two":                                   {toolCall(report, asked), toolCall(asked, strings.ReplaceAll(report, `"cwd"`, `"workdir":"/etc","cwd"`)), false},
		"another command":                          {toolCall(report, asked), toolCall(asked, strings.ReplaceAll(report, "status", "push")), false},
		"a beginning of it":                        {toolCall(report, asked), toolCall(asked, strings.ReplaceAll(report, "git status", "git")), false},
		"with a variable":                          {toolCall(report, asked), toolCall(asked, strings.ReplaceAll(report, `"cwd"`, `"env":["A=1"],"cwd"`)), false},
		"with a member that nobody knows":          {toolCall(report, asked), toolCall(asked, strings.ReplaceAll(report, `"cwd"`, `"on":"/etc","cwd"`)), false},
		"with another title":                       {toolCall(report, asked), toolCall(asked, report, `{"toolCallId":"t","title":"git push"}`), false},
		"with a diff":                              {toolCall(report, asked), toolCall(asked, report, `{"content":[{"type":"diff","path":"/ws/a","newText":"x"}]}`), false},
		"what is no command": {toolCall(`{"toolCallId":"t","kind":"edit","rawInput":{"filePath":"/ws/a"}}`),
			toolCall(`{"toolCallId":"t","kind":"edit","rawInput":{"filePath":"/ws/a","content":"x"}}`), false},
	} {
		if got := inSession("OpenCode").Repeats(tt.judged, tt.now); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestContradicts_AcceptsRecordedReports has each report of a real agent come after the question about the same tool
// call, where it was recorded after it and where it was recorded before it: the last pieces may be late.
func TestContradicts_AcceptsRecordedReports(t *testing.T) {
	for _, recorded := range []struct{ file, agent string }{
		{"claude.ndjson", "@agentclientprotocol/claude-agent-acp"}, {"codex.ndjson", "@agentclientprotocol/codex-acp"},
		{"opencode.ndjson", "OpenCode"}, {"qwen.ndjson", "qwen-code"},
	} {
		t.Run(recorded.agent, func(t *testing.T) {
			frames, err := os.ReadFile(filepath.Join("testdata", recorded.file))
			if err != nil {
				t.Fatal(err)
			}
			reports := map[string][][]byte{}
			calls, asked := map[string]*acp.ToolCall{}, map[string][]acp.ToolCall{}
			for frame := range bytes.Lines(frames) {
				report := acp.Get(frame, "params", "update")
				question := report == nil
				if question {
					report = acp.Get(frame, "params", "toolCall")
				}
				id := acp.ToolCallID(report)
				if calls[id] == nil {
					calls[id] = &acp.ToolCall{}
				}
				if calls[id].Merge(report); question {
					asked[id] = append(asked[id], *calls[id])
				} else if !acp.BeginsToolCall(report) || asked[id] != nil { // nothing is asked about a call before it begins
					reports[id] = append(reports[id], report)
				}
			}
			for id, questions := range asked {
				for _, shown := range questions {
					now := shown
					for _, report := range reports[id] {
						if now.Merge(report); inSession(recorded.agent).Contradicts(shown, now) {
							t.Errorf("%s is contradicted by %s", shown.RawInput, report)
						}
					}
				}
			}
		})
	}
}
