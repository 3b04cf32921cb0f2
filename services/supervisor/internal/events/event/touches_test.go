package event

import (
	"fmt"
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

// touched returns the files that the events of a frame show in use.
func touched(events []*supervisorv1.Event) string {
	var out []string
	for _, e := range events {
		for _, file := range e.GetTouches() {
			out = append(out, fmt.Sprintf("%s %s", strings.ToLower(strings.TrimPrefix(file.GetAction().String(), "FILE_ACTION_")), file.GetPath()))
		}
	}
	return strings.Join(out, ", ")
}

// working is a wire with a session that works in /w.
func working(t *testing.T) *wire {
	w := newWire(t)
	w.pass(frame.ClientToAgent, "", asks("90", "session/new", `{"cwd":"/w"}`))
	w.pass(frame.AgentToClient, "", answers("90", `{"sessionId":"s"}`))
	return w
}

func update(members string) string {
	return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{` + members + `}}}`
}

func TestTouches_FromPromptsAndToolCalls(t *testing.T) {
	for _, c := range []struct{ name, line, want string }{
		{"a prompt", asks("1", "session/prompt", `{"sessionId":"s","prompt":[{"type":"text","text":"look at @src/a.go, @\"b c.md\" and ask @bob"},`+
			`{"type":"resource_link","uri":"file:///w/d%20e.md","name":"x"},{"type":"resource","resource":{"uri":"file:///w/f","text":"x"}},`+
			`{"type":"resource_link","uri":"https://example.com/g","name":"x"}]}`),
			"user_referenced /w/src/a.go, user_referenced /w/b c.md, user_referenced /w/d e.md, user_provided /w/f"},
		{"a tool call that waits", update(`"sessionUpdate":"tool_call","toolCallId":"1","kind":"read","locations":[{"path":"/w/a"}]`), ""},
		{"a read", update(`"sessionUpdate":"tool_call","toolCallId":"2","kind":"read","status":"in_progress","locations":[{"path":"a"}],"rawInput":{"path":"/w/b"}`), "read /w/a, read /w/b"},
		{"an edit", update(`"sessionUpdate":"tool_call","toolCallId":"3","kind":"edit","status":"completed","locations":[{"path":"/w/a"}],"content":[{"type":"diff","path":"/w/a","newText":"x"}]`), "write /w/a"},
		{"a search", update(`"sessionUpdate":"tool_call","toolCallId":"4","kind":"search","status":"completed","rawInput":{"path":"/w/src","pattern":"x"}`), "search /w/src"},
		{"a command", update(`"sessionUpdate":"tool_call","toolCallId":"5","kind":"execute","status":"completed","rawInput":{"command":"cat a.go && touch b.go && ls src"}`), "read /w/a.go, write /w/b.go, search /w/src"},
		{"a redirection", update(`"sessionUpdate":"tool_call","toolCallId":"7","kind":"execute","status":"completed","rawInput":{"command":"echo a > f < g"}`), "write /w/f, read /w/g"},
		{"commands that are not known completely", update(`"sessionUpdate":"tool_call","toolCallId":"8","kind":"execute","status":"completed","rawInput":{"command":"sed -i s/a/b/ f.go && cp a b; mv c d; cd sub && rm e && git add h && python3 i"}`),
			"write /w/f.go, read /w/a, write /w/b, write /w/c, write /w/d, search /w/sub, write /w/sub/e, read /w/sub/h, read /w/sub/i"},
		{"one that fails", update(`"sessionUpdate":"tool_call","toolCallId":"6","kind":"read","status":"failed","locations":[{"path":"/w/a"}]`), ""},
	} {
		w := working(t)
		direction := frame.AgentToClient
		if c.name == "a prompt" {
			direction = frame.ClientToAgent
		}
		if got := touched(w.pass(direction, "", c.line)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestTouches_FilesOfTerminalCommand(t *testing.T) {
	for method, params := range map[string]string{
		"terminal/create": `"command":"cp","args":["a","b"],"cwd":"/w/sub"`,
		"terminal/run":    `"command":"cp a b","cwd":"/w/sub"`,
	} {
		w := working(t)
		w.pass(frame.AgentToHandler, "terminal", asks("1", method, `{"sessionId":"s",`+params+`}`))
		got := touched(w.pass(frame.HandlerToAgent, "terminal", answers("1", `{"terminalId":"t"}`)))
		if want := "read /w/sub/a, write /w/sub/b"; got != want {
			t.Errorf("%s: %s, want %s", method, got, want)
		}
	}
}

func TestTouches_FollowReferenceGrammar(t *testing.T) {
	there := map[string]bool{"/w/src/plain.go": true, "/w/src/back.py": true, "/w/notes.md": true, "/w/a:10": true, "/w/Makefile": true}
	for text, want := range map[string]string{
		"@f8.ts:10-20 (@f11.ts#L5) `@f3.ts`": "/w/f8.ts, /w/f11.ts, /w/f3.ts",
		"src/plain.go and `src/back.py:12`":  "/w/src/plain.go, /w/src/back.py",
		"[notes](notes.md) [n](missing.md)":  "/w/notes.md",
		"file:///w/x.go#L5":                  "/w/x.go",
		"@a:10 @Makefile @bob @types/node":   "/w/a:10, /w/Makefile",
		"and/or src/missing.go v1.2":         "",
	} {
		w := working(t)
		w.d.Present = func(folders []string, file string) bool {
			if len(folders) != 1 || folders[0] != "/w" {
				t.Errorf("a file is looked for in %q", folders)
			}
			return there[file]
		}
		line := asks("1", "session/prompt", fmt.Sprintf(`{"sessionId":"s","prompt":[{"type":"text","text":%q}]}`, text))
		got := strings.ReplaceAll(touched(w.pass(frame.ClientToAgent, "", line)), "user_referenced ", "")
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestTouches_RefusedFilesAreBlocked(t *testing.T) {
	const options = `"options":[{"optionId":"y","kind":"allow_once","name":"y"},{"optionId":"n","kind":"reject_once","name":"n"}]`
	question := asks("1", "session/request_permission", `{"sessionId":"s","toolCall":{"toolCallId":"t","kind":"edit","content":[{"type":"diff","path":"/w/.env","newText":"x"}]},`+options+`}`)
	failed := update(`"sessionUpdate":"tool_call_update","toolCallId":"t","status":"failed"`)
	for _, c := range []struct {
		name   string
		asked  frame.Direction
		by     string
		answer string
		ours   frame.Direction
		want   string
	}{
		{"by a policy", frame.AgentToHandler, "gate", "n", frame.OursToAgent, "blocked /w/.env"},
		{"by the user", frame.AgentToClient, "", "n", frame.ClientToAgent, "blocked /w/.env"},
		{"without a handler", frame.AgentToHandler, "gate", "y", frame.OursToAgent, ""},
	} {
		w := working(t)
		w.pass(c.asked, c.by, question)
		events := w.pass(c.ours, "", answers("1", `{"outcome":{"outcome":"selected","optionId":"`+c.answer+`"}}`))
		if got := touched(append(events, w.pass(frame.AgentToClient, "", failed)...)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	silent := working(t) // an agent that never reports what was denied
	silent.pass(frame.ClientToAgent, "", asks("9", "session/prompt", `{"sessionId":"s","prompt":[]}`))
	silent.pass(frame.AgentToHandler, "gate", question)
	silent.pass(frame.OursToAgent, "", answers("1", `{"outcome":{"outcome":"selected","optionId":"n"}}`))
	if got := touched(silent.pass(frame.AgentToClient, "", answers("9", `{"stopReason":"end_turn"}`))); got != "blocked /w/.env" {
		t.Errorf("at the turn's end: %q", got)
	}
	w := working(t)
	for _, c := range []struct{ to, by, want string }{
		{"gate", "gate", "blocked /w/.env"}, {"fs", "gate", "blocked /w/.env"},
		{"gate", "", ""}, {"fs", "", ""}, // withdrawn, or too many
	} {
		w.pass(frame.AgentToHandler, c.to, asks("2", "fs/read_text_file", `{"sessionId":"s","path":"/w/.env"}`))
		if got := touched(w.pass(frame.OursToAgent, c.by, fails("2", `{"code":-32603,"message":"denied"}`))); got != c.want {
			t.Errorf("a call to %s that %q denies: %q, want %q", c.to, c.by, got, c.want)
		}
	}
	for fault, want := range map[string]string{
		`{"code":-32603,"message":"outside","data":{"code":"PERMISSION_DENIED","handler":"fs"}}`: "blocked /etc/shadow",
		`{"code":-32603,"message":"broken","data":{"code":"UNAVAILABLE","handler":"fs"}}`:        "",
	} {
		w.pass(frame.AgentToHandler, "fs", asks("3", "fs/read_text_file", `{"sessionId":"s","path":"/etc/shadow"}`))
		events := w.pass(frame.HandlerToAgent, "fs", fails("3", fault))
		if got := touched(events); got != want {
			t.Errorf("a call that fails with %s: %s, want %s", fault, got, want)
		}
		for _, touch := range events[len(events)-1].GetTouches() {
			if touch.GetRefused() != reads {
				t.Errorf("a rejected access is %v, want a read", touch.GetRefused())
			}
		}
	}
}

func TestTouches_LimitsFiles(t *testing.T) {
	for _, c := range []struct {
		name              string
		files, size, want int
	}{
		{"many", 3 * maxTouches, 10, maxTouches},
		{"long paths", 200, 1000, maxTouchBytes / 1000},
		{"many long paths", 3000, 1000, maxTouchBytes / 1000},
		{"a path that is too long", 1, maxKept + 1, 0},
	} {
		var at strings.Builder
		for i := range c.files {
			fmt.Fprintf(&at, `,{"path":"/%0*d"}`, c.size-1, i)
		}
		w := working(t)
		line := update(`"sessionUpdate":"tool_call","toolCallId":"1","kind":"read","status":"completed","locations":[` + at.String()[1:] + `]`)
		got := 0
		for _, e := range w.pass(frame.AgentToClient, "", line) {
			got += len(e.GetTouches())
		}
		if got != c.want {
			t.Errorf("%s: %d files are shown in use, want %d", c.name, got, c.want)
		}
	}
}

func TestTouches_ReplacesInvalidUTF8(t *testing.T) {
	w := working(t)
	line := asks("1", "session/prompt", `{"sessionId":"s","prompt":[{"type":"resource_link","uri":"file:///w/%ff%fe","name":"x"},{"type":"resource_link","uri":"file:///w/%fe","name":"x"}]}`)
	if got, want := touched(w.pass(frame.ClientToAgent, "", line)), "user_referenced /w/\ufffd"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
