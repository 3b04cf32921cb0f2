package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC // times are printed as the person's clock shows them
	goleak.VerifyTestMain(m)
}

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// file is a session's file with what testdata has.
func file(t *testing.T, name string) journal.Session {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return written(t, data)
}

func written(t *testing.T, data []byte) journal.Session {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.ndjson")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return journal.Session{File: path}
}

// withoutContent returns the same session as a journal without content records it.
func withoutContent(t *testing.T, whole journal.Session) journal.Session {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	at := began
	j, err := journal.Open(journal.Options{Dir: dir, Agent: "demoagent", Version: "v1", Instance: "i1", Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range journal.Read(whole.File) {
		if err == nil && e.Dir != "" {
			j.Frame(frame.Frame{Seq: e.N, Time: e.Time, Direction: frame.ParseDirection(e.Dir), Handler: e.Handler, Line: append(e.Message(), '\n')})
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := journal.Files(dir, false)
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	return journal.Session{File: files[0]}
}

// formats are the ways in which a session is written.
var formats = map[string]func(t *testing.T, files []journal.Session, history bool) string{
	"txt": func(t *testing.T, files []journal.Session, history bool) string {
		var b bytes.Buffer
		text := NewText(&b, render.Options{Cwd: "/work/app", History: history})
		if err := Read(files, nil, text.Write); err != nil {
			t.Fatal(err)
		}
		if err := text.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	},
	"md": func(t *testing.T, files []journal.Session, history bool) string {
		return paged(t, files, history, true)
	},
	"html": func(t *testing.T, files []journal.Session, history bool) string {
		return paged(t, files, history, false)
	},
}

func paged(t *testing.T, files []journal.Session, history, asMarkdown bool) string {
	t.Helper()
	var sum Summary
	if err := Read(files, nil, sum.Add); err != nil {
		t.Fatal(err)
	}
	begin := NewHTML
	if asMarkdown {
		begin = NewMarkdown
	}
	var b bytes.Buffer
	p, err := begin(&b, &sum, PageOptions{History: history})
	if err != nil {
		t.Fatal(err)
	}
	if err := Read(files, nil, p.Write); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	got = strings.Replace(got, "<style>"+strings.TrimRight(styleText, "\n"), "<style>[style.css]", 1) // once is enough
	testkit.Golden(t, name, got)
}

func TestTranscript_MatchesGoldenFiles(t *testing.T) {
	tour := file(t, "tour.ndjson")
	loaded := file(t, "loaded.ndjson") // it is torn
	for name, s := range map[string]struct {
		files   []journal.Session
		history bool
	}{
		"tour":     {files: []journal.Session{tour}},
		"metadata": {files: []journal.Session{withoutContent(t, tour)}},
		"loaded":   {files: []journal.Session{loaded}},
		"history":  {files: []journal.Session{loaded}, history: true},
		"hostile":  {files: []journal.Session{hostileFile(t)}},
	} {
		for format, write := range formats {
			t.Run(name+"."+format, func(t *testing.T) {
				golden(t, name+"."+format, write(t, s.files, s.history))
			})
		}
	}
}

// writers begin to write a session in each format; they return a function for each entry, and one for the end.
var writers = map[string]func(b *strings.Builder) (func(Entry) error, func() error){
	"txt": func(b *strings.Builder) (func(Entry) error, func() error) {
		t := NewText(b, render.Options{})
		return t.Write, t.Close
	},
	"md": func(b *strings.Builder) (func(Entry) error, func() error) {
		p, _ := NewMarkdown(b, &Summary{}, PageOptions{})
		return p.Write, p.Close
	},
	"html": func(b *strings.Builder) (func(Entry) error, func() error) {
		p, _ := NewHTML(b, &Summary{}, PageOptions{})
		return p.Write, p.Close
	},
}

// entry is one of a frame; the method is found in it as the journal finds it.
func entry(dir, handler, message string) *journal.Entry {
	e := &journal.Entry{Time: began, Dir: dir, Handler: handler, Frame: []byte(message)}
	if _, after, ok := strings.Cut(message, `"method":"`); ok {
		e.Method, _, _ = strings.Cut(after, `"`)
	}
	return e
}

func update(u string) *journal.Entry {
	return entry("agent-to-front", "", `{"method":"session/update","params":{"sessionId":"s","update":`+u+`}}`)
}

// shown returns entries as they are shown on a terminal.
func shown(t *testing.T, entries ...*journal.Entry) string {
	t.Helper()
	var b strings.Builder
	tell, end := writers["txt"](&b)
	r := NewReader()
	for _, e := range entries {
		if err := each(r.Read(e), tell); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(each(r.Close(), tell), end()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// items returns entries as they are shown on a page, one item per line.
func items(t *testing.T, entries ...*journal.Entry) string {
	t.Helper()
	return itemsWith(t, PageOptions{}, entries...)
}

func itemsWith(t *testing.T, o PageOptions, entries ...*journal.Entry) string {
	t.Helper()
	var lines []string
	s := newStory("", o, func(it *item) error {
		line := fmt.Sprintf("%s %s", it.Kind, it.Title)
		for _, text := range []string{it.Status, strings.TrimSpace(it.Said)} {
			if text != "" {
				line += "|" + text
			}
		}
		if it.Goes {
			line += " (goes on)"
		}
		if it.Rule != "" {
			line += " {" + it.Rule + "}"
		}
		for _, p := range it.Parts {
			line += fmt.Sprintf(" [%s %s]", p.Kind, strings.Join(strings.Fields(p.Title+" "+p.Status+" "+strings.ReplaceAll(p.Text, "\n", "/")), " "))
		}
		lines = append(lines, line)
		return nil
	})
	r := NewReader()
	for _, e := range entries {
		if err := each(r.Read(e), s.addEntry); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(each(r.Close(), s.addEntry), s.close()); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func TestEntries_Text(t *testing.T) {
	const prompt = `{"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"go"}]}}`
	create := func(id, command string) *journal.Entry {
		return entry("agent-to-handler", "terminal", `{"id":`+id+`,"method":"terminal/create","params":{"sessionId":"s","command":"`+command+`"}}`)
	}
	answer := func(id, result string) *journal.Entry {
		return entry("handler-to-agent", "terminal", `{"id":`+id+`,"result":`+result+`}`)
	}
	ask := func(id, method, terminal string) *journal.Entry {
		return entry("agent-to-handler", "terminal", `{"id":`+id+`,"method":"terminal/`+method+`","params":{"sessionId":"s","terminalId":"`+terminal+`"}}`)
	}
	piece := func(call, data string) *journal.Entry {
		return entry("ours-to-front", "", `{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"`+call+`","_meta":{"terminal_output":{"terminal_id":"T","data":"`+data+`"}}}}}`)
	}
	for _, tt := range []struct {
		name    string
		entries []*journal.Entry
		want    string
	}{
		{"pieces of a message are one, older agents' too", []*journal.Entry{
			update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"one "}}`),
			update(`{"sessionUpdate":"agentMessageChunk","content":{"type":"text","text":"two"}}`),
			update(`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`),
		}, "agent |one two\nthought |hm"},
		{"messages with other ids are separate", []*journal.Entry{
			update(`{"sessionUpdate":"agent_message_chunk","messageId":"1","content":{"type":"text","text":"one"}}`),
			update(`{"sessionUpdate":"agent_message_chunk","messageId":"2","content":{"type":"text","text":"two"}}`),
		}, "agent |one\nagent |two"},
		{"the agent's repetition of a prompt is not the prompt", []*journal.Entry{
			entry("front-to-agent", "", prompt),
			update(`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"go, it said"}}`),
			entry("agent-to-front", "", `{"id":1,"result":{"stopReason":"end_turn"}}`),
		}, "turn Turn 1\nuser |go\nuser |go, it said\nend Turn 1 ended after 0.0 s: end_turn"},
		{"an error ends a turn", []*journal.Entry{
			entry("front-to-agent", "", prompt),
			entry("ours-to-front", "", `{"id":1,"error":{"code":-32603,"message":"the agent is gone"}}`),
		}, "turn Turn 1\nuser |go\nend Turn 1 ended after 0.0 s: error|✗ session/prompt: the agent is gone"},
		{"the record ends within a turn", []*journal.Entry{entry("front-to-agent", "", prompt)},
			"turn Turn 1\nuser |go\nend The record ends here, within the turn."},
		{"a tool call is updated in its place", []*journal.Entry{
			update(`{"sessionUpdate":"tool_call","toolCallId":"t","kind":"edit","status":"pending","title":"Edit"}`),
			update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"wait"}}`),
			update(`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed","content":[{"type":"diff","path":"/a","oldText":"1\n","newText":"2\n"},{"type":"content","content":{"type":"text","text":"done"}}]}`),
		}, "tool Edit|completed [diff /a] [text done]\nagent |wait"},
		{"a change that a tool call takes back was made nevertheless", []*journal.Entry{
			update(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Edit","content":[{"type":"diff","path":"/a","newText":"2\n"}]}`),
			update(`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed","content":[{"type":"content","content":{"type":"text","text":"done"}}]}`),
			update(`{"sessionUpdate":"tool_call_update","toolCallId":"t","content":[]}`),
		}, "tool Edit|completed [diff /a new] [text done]"},
		{"the streamed output of a command that the agent runs itself", []*journal.Entry{
			update(`{"sessionUpdate":"tool_call","toolCallId":"t","kind":"execute","title":"ls","content":[{"type":"terminal","terminalId":"t"}],"_meta":{"terminal_info":{"terminal_id":"t"}}}`),
			update(`{"sessionUpdate":"tool_call_update","toolCallId":"t","_meta":{"terminal_output":{"terminal_id":"t","data":"one\r\n"}}}`),
			update(`{"sessionUpdate":"tool_call_update","toolCallId":"t","_meta":{"terminal_output":{"terminal_id":"t","data":"two\r\n"}}}`),
			update(`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"failed","rawOutput":{"output":"one\ntwo\n"},"_meta":{"terminal_exit":{"terminal_id":"t","exit_code":2,"signal":null}}}`),
		}, "tool ls|failed [output exit code 2 one/two/]"},
		{"the raw output of a command that the agent ran itself", []*journal.Entry{
			update(`{"sessionUpdate":"tool_call","toolCallId":"t","kind":"execute","title":"ls","rawInput":{"command":"ls"}}`),
			update(`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed","rawOutput":{"output":"a\n","metadata":{"exit":0,"output":"a\n"}}}`),
		}, `tool ls|completed [output exit code 0 a/] [raw input {"command":"ls"}]`},
		{"an output that the tool call shows is not repeated", []*journal.Entry{
			update(`{"sessionUpdate":"tool_call","toolCallId":"t","kind":"execute","title":"ls","status":"completed","rawOutput":"a\nb","content":[{"type":"content","content":{"type":"text","text":"` + "```console\\na\\nb\\n```" + `"}}]}`),
		}, "tool ls|completed [text ```console/a/b/```] [raw output \"a\\nb\"]"},
		{"cleared content is omitted", []*journal.Entry{
			update(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Edit","name":"edit","locations":[{"path":"/a"}],"content":[{"type":"content","content":{"type":"text","text":"on it"}}],"rawInput":{"p":1}}`),
			update(`{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"","status":"completed","locations":[],"content":[],"rawInput":{}}`),
		}, `tool edit|completed [raw input {"p":1}]`},
		{"a tool call with the id of one that has ended is another one", []*journal.Entry{
			update(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Edit","status":"completed","locations":[{"path":"/a"}]}`),
			update(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Run"}`),
		}, "tool Edit|completed [places /a]\ntool Run|pending"},
		{"a question names its tool call and the answerer", []*journal.Entry{
			update(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Run make"}`),
			entry("agent-to-front", "", `{"id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[{"optionId":"o","kind":"reject_once","name":"No"}]}}`),
			entry("front-to-agent", "cli", `{"id":7,"result":{"outcome":{"outcome":"selected","optionId":"o"}}}`),
			entry("agent-to-front", "", `{"id":8,"method":"elicitation/create","params":{"sessionId":"s","message":"Which branch?"}}`),
			entry("front-to-agent", "", `{"id":8,"result":{"action":"decline"}}`),
			entry("agent-to-front", "", `{"id":9,"method":"elicitation/create","params":{"sessionId":"s","message":"Which one?"}}`),
		}, "question The agent asks: Run make|denied (No) by cli\ntool Run make|pending\nquestion The agent asks: Which branch?|declined in the editor\nquestion The agent asks: Which one?|no answer is recorded"},
		{"ids of the agent, the front and acphost are apart", []*journal.Entry{
			entry("front-to-agent", "", prompt),
			entry("agent-to-handler", "fs", `{"id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/a"}}`),
			entry("ours-to-front", "", `{"id":1,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"x","title":"Read"},"options":[]}}`),
			entry("front-to-ours", "", `{"id":1,"result":{"outcome":{"outcome":"cancelled"}}}`),
			entry("handler-to-agent", "fs", `{"id":1,"error":{"code":-32002,"message":"Resource not found: /a"}}`),
			entry("agent-to-front", "", `{"id":1,"result":{"stopReason":"end_turn"}}`),
		}, "turn Turn 1\nuser |go\ncall fs/read_text_file /a|failed: Resource not found: /a\nquestion Read|cancelled in the editor\nend Turn 1 ended after 0.0 s: end_turn"},
		{"a command that a front was shown, and its end", []*journal.Entry{
			create("1", "go test"), answer("1", `{"terminalId":"T"}`),
			piece("t", `ok\n`), piece("u", `ok\n`), piece("t", `more\n`),
			ask("2", "wait_for_exit", "T"), answer("2", `{"exitCode":1}`),
		}, "command go test|exit code 1 [output ok/more/]"},
		{"repeatedly requested output is shown once", []*journal.Entry{
			create("1", "go test"), answer("1", `{"terminalId":"T"}`),
			ask("2", "output", "T"), answer("2", `{"output":"a\nb","truncated":false}`),
			ask("3", "output", "T"), answer("3", `{"output":"a\nb","truncated":false}`),
			ask("4", "output", "T"), answer("4", `{"output":"b and c\n","truncated":true}`),
			ask("5", "output", "T"), answer("5", `{"output":"d\n","truncated":true,"exitStatus":{"signal":"SIGKILL"}}`),
		}, "command go test|ended by SIGKILL [output a/b[earlier output is not recorded]/b and c/[earlier output is not recorded]/d/]"},
		{"where output was cut off at its beginning it continues where it stopped", []*journal.Entry{
			create("1", "go test"), answer("1", `{"terminalId":"T"}`),
			ask("2", "output", "T"), answer("2", `{"output":"a\nb\n","truncated":false}`),
			ask("3", "output", "T"), answer("3", `{"output":"xx a\nb\nc\n","truncated":true}`),
			ask("4", "release", "T"), answer("4", `{}`),
		}, "command go test|ended [output a/b/c/]"},
		{"a terminal belongs to the tool call that shows it", []*journal.Entry{
			update(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Test","status":"in_progress"}`),
			create("1", "go test"), answer("1", `{"terminalId":"T"}`),
			update(`{"sessionUpdate":"tool_call_update","toolCallId":"t","content":[{"type":"terminal","terminalId":"T"}]}`),
			ask("2", "output", "T"), answer("2", `{"output":"ok\n","truncated":false,"exitStatus":{"exitCode":0}}`),
			update(`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed","content":[]}`),
		}, "tool Test|completed [output go test exit code 0 ok/]"},
		{"a command from start to end in one call", []*journal.Entry{
			entry("agent-to-handler", "terminal", `{"id":1,"method":"terminal/run","params":{"sessionId":"s","command":"make"}}`),
			answer("1", `{"output":"made\n","truncated":false,"exitStatus":{"exitCode":0}}`),
		}, "command make|exit code 0 [output made/]"},
		{"a command that is not started", []*journal.Entry{
			create("1", "rm -rf /"), entry("ours-to-agent", "", `{"id":1,"error":{"code":-32000,"message":"denied"}}`),
		}, "command rm -rf /|failed: denied"},
		{"missing, noted or rejected frames", []*journal.Entry{
			{Time: began, Dropped: 3, Bytes: 9, From: began, To: began.Add(time.Second), Why: "no room"},
			{Time: began, Note: "torn"},
			entry("agent-to-front", "refused", `"[1,2]"`),
		}, "lost [at least 3 messages are missing here: 9 bytes, from 12:00:00 to 12:00:01 UTC: no room]\nlost [something is missing here: torn]\nnote warning (acphost): a line of 5 bytes from the agent was refused|[1,2]"},
		{"repeated history is omitted, with a note", []*journal.Entry{
			entry("front-to-agent", "", `{"id":1,"method":"session/load","params":{"sessionId":"s","cwd":"/w"}}`),
			update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"old"}}`),
			entry("agent-to-front", "", `{"id":1,"result":{}}`),
		}, "note What the agent told again when it loaded the session is left out (1 event).\nnote session s (session/load) in /w"},
		{"the busy state of an agent of ACP v2 is omitted", []*journal.Entry{update(`{"sessionUpdate":"state_update","state":"running"}`)}, ""},
		{"an unknown update is shown unchanged", []*journal.Entry{update(`{"sessionUpdate":"weather","sky":1}`)},
			`note [update "weather", which acphost does not know] [raw the update {"sessionUpdate":"weather","sky":1}]`},
	} {
		if got := items(t, tt.entries...); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

func TestToolCall_ShowsOutputOfCommand(t *testing.T) {
	got := shown(t,
		update(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Test","kind":"execute","status":"pending"}`),
		entry("agent-to-handler", "terminal", `{"id":1,"method":"terminal/create","params":{"sessionId":"s","command":"go","args":["test"]}}`),
		entry("handler-to-agent", "terminal", `{"id":1,"result":{"terminalId":"T"}}`),
		update(`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"in_progress","content":[{"type":"terminal","terminalId":"T"}]}`),
		entry("agent-to-handler", "terminal", `{"id":2,"method":"terminal/output","params":{"sessionId":"s","terminalId":"T"}}`),
		entry("handler-to-agent", "terminal", `{"id":2,"result":{"output":"ok\n","truncated":false,"exitStatus":{"exitCode":0}}}`),
	)
	const want = "○ $ Test\n◐ $ Test\n    │ $ go test\n    │ ok\n    │ exit code 0\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A turn without end must not be held.
func TestReader_LimitsHeldItems(t *testing.T) {
	for name, u := range map[string]string{
		"a message":         `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + strings.Repeat("x", 40<<10) + `"}}`,
		"many tool calls":   `{"sessionUpdate":"tool_call","toolCallId":"$N","title":"` + strings.Repeat("x", 40<<10) + `"}`,
		"one tool call":     `{"sessionUpdate":"tool_call_update","toolCallId":"t","content":[{"type":"diff","path":"/$N","newText":"` + strings.Repeat("x", 40<<10) + `"}]}`,
		"plans":             `{"sessionUpdate":"plan","entries":[{"content":"` + strings.Repeat("x", 40<<10) + `$N"}]}`,
		"unknown updates":   `{"sessionUpdate":"$N","x":"` + strings.Repeat("x", 40<<10) + `"}`,
		"many small things": `{"sessionUpdate":"current_mode_update","currentModeId":"$N"}`,
	} {
		s := newStory("", PageOptions{}, func(*item) error { return nil })
		r := NewReader()
		entries := 300 // more than the bound
		if len(u) < 1000 {
			entries = maxHeld + 100
		}
		for n := range entries {
			if err := each(r.Read(update(strings.ReplaceAll(u, "$N", strconv.Itoa(n)))), s.addEntry); err != nil {
				t.Fatal(err)
			}
			if len(s.items) > maxHeld+1 || s.weight > 2*maxHeldBytes {
				t.Fatalf("%s: %d items of %d bytes are held", name, len(s.items), s.weight)
			}
			total := 0
			if n%50 == 0 {
				for _, h := range s.items {
					total += h.words.Len() + len(h.output)
					if h.tool != nil {
						total += proto.Size(h.tool)
					}
				}
			}
			if total > 2*maxHeldBytes {
				t.Fatalf("%s: %d bytes are held, and %d are known of", name, total, s.weight)
			}
		}
	}
}

func TestTranscript_JoinsFilesOfSession(t *testing.T) {
	files := []journal.Session{file(t, "tour.ndjson"), file(t, "loaded.ndjson")}
	for format, wants := range map[string][]string{
		"txt":  {"session demo-1\n", "── turn 3 ended after 0.2 s: error ──", "── recorded again since 2026-03-02 09:00:00, by acphost v2 ──", "3 events", "(session/load)", "── turn 4, 2026-03-02 09:00:06 ──", "> go on"},
		"md":   {"- Turns: 4, with 5 tool calls and 3 questions\n", "## Turn 3", "recorded again from here on", "left out (3 events)", "## Turn 4", "> go on", "*The record ends here, within the turn.*"},
		"html": {"<dd>4, with 5 tool calls and 3 questions</dd>", "Turn 3", "recorded again from here on", "left out (3 events)", `<h2 id="turn-4">`, "go on"},
	} {
		rest := formats[format](t, files, false)
		for _, want := range wants {
			_, after, ok := strings.Cut(rest, want)
			if !ok {
				t.Fatalf("%s: %q is not there, or not behind what comes before it, in\n%s", format, want, rest)
			}
			rest = after
		}
	}
}
