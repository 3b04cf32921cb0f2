package transcript

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/services/supervisor/internal/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// entry is one of a frame; the method is found in it as the journal finds it.
func entry(dir, handler, frame string) *journal.Entry {
	e := &journal.Entry{Time: began, Dir: dir, Handler: handler, Frame: []byte(frame)}
	if _, after, ok := strings.Cut(frame, `"method":"`); ok {
		e.Method, _, _ = strings.Cut(after, `"`)
	}
	return e
}

func update(u string) *journal.Entry {
	return entry("agent-to-front", "", `{"method":"session/update","params":{"sessionId":"s","update":`+u+`}}`)
}

// told is what entries say, an item a line.
func told(entries ...*journal.Entry) string {
	r := NewReader()
	d := &Document{}
	for _, e := range entries {
		for _, it := range r.Read(e) {
			d.Add(it)
		}
	}
	var lines []string
	for _, it := range d.Items {
		line := strings.TrimRight(fmt.Sprintf("%s %s|%s|%s", it.Kind, it.Title, it.Status, it.Text), "| ")
		for _, diff := range it.Diffs {
			line += fmt.Sprintf(" %s+%d-%d", diff.Path, diff.Added, diff.Removed)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestEntriesSayWhatHappened(t *testing.T) {
	for _, tt := range []struct {
		name    string
		entries []*journal.Entry
		want    string
	}{
		{"pieces of a message are one", []*journal.Entry{
			update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"one "}}`),
			update(`{"sessionUpdate":"agentMessageChunk","content":{"type":"text","text":"two"}}`),
			update(`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`),
		}, "agent ||one two\nthought ||hm"},
		{"a prompt has blocks of all kinds", []*journal.Entry{
			entry("front-to-agent", "", `{"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"look"},{"type":"image","mimeType":"image/png","data":"AAAA"},{"type":"resource_link","uri":"file:///a"},{"type":"resource","resource":{"uri":"file:///b","text":"xyz"}},{"type":"hologram"}]}}`),
			entry("agent-to-front", "", `{"id":1,"result":{"stopReason":"max_tokens"}}`),
		}, "user ||look\n[image image/png, 3 bytes]\n[file:///a]\n[file:///b, 3 bytes]\n[hologram]\nend |max_tokens"},
		{"an error ends a turn", []*journal.Entry{
			entry("front-to-agent", "", `{"id":1,"method":"session/prompt","params":{"prompt":[]}}`),
			entry("ours-to-front", "", `{"id":1,"error":{"code":-32603,"message":"the agent is gone"}}`),
		}, "user\nend the agent is gone|error"},
		{"a tool call is brought up to date where it stands", []*journal.Entry{
			update(`{"sessionUpdate":"tool_call","toolCallId":"t","kind":"edit","status":"pending","title":"Edit"}`),
			update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"wait"}}`),
			update(`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed","content":[{"type":"diff","path":"/a","oldText":"1\n2\n3\n","newText":"1\nx\ny\n3\n"},{"type":"content","content":{"type":"text","text":"done"}}]}`),
		}, "tool Edit|completed|done /a+2-1\nagent ||wait"},
		{"a question is known by its tool call, and who answered it is told", []*journal.Entry{
			update(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Run make"}`),
			entry("agent-to-front", "", `{"id":7,"method":"session/request_permission","params":{"toolCall":{"toolCallId":"t"},"options":[{"optionId":"o","kind":"reject_once","name":"No"}]}}`),
			entry("front-to-agent", "", `{"id":7,"result":{"outcome":{"outcome":"selected","optionId":"o"}}}`),
			entry("agent-to-front", "", `{"id":8,"method":"session/request_permission","params":{"toolCall":{"toolCallId":"u","title":"Push"},"options":[]}}`),
			entry("ours-to-agent", "", `{"id":8,"result":{"outcome":{"outcome":"cancelled"}}}`),
			entry("agent-to-front", "", `{"id":9,"method":"elicitation/create","params":{"message":"Which branch?"}}`),
			entry("front-to-agent", "", `{"id":9,"result":{"action":"decline"}}`),
		}, "tool Run make\nquestion Run make|reject_once, by the client\nquestion Push|cancelled, by acphost\nquestion Which branch?|decline, by the client"},
		{"ids of the agent, the front and acphost are apart", []*journal.Entry{
			entry("front-to-agent", "", `{"id":1,"method":"session/prompt","params":{"prompt":[{"type":"text","text":"go"}]}}`),
			entry("agent-to-handler", "fs", `{"id":1,"method":"fs/read_text_file","params":{"path":"/a"}}`),
			entry("ours-to-front", "", `{"id":1,"method":"session/request_permission","params":{"toolCall":{"toolCallId":"x","title":"Read"},"options":[]}}`),
			entry("front-to-ours", "", `{"id":1,"result":{"outcome":{"outcome":"cancelled"}}}`),
			entry("handler-to-agent", "fs", `{"id":1,"error":{"code":-32002,"message":"Resource not found: /a"}}`),
			entry("agent-to-front", "", `{"id":1,"result":{"stopReason":"end_turn"}}`),
		}, "user ||go\nquestion Read|cancelled, by the client\nfile read_text_file /a|failed: Resource not found: /a\nend |end_turn"},
		{"a command, its output and its end", []*journal.Entry{
			entry("agent-to-handler", "terminal", `{"id":1,"method":"terminal/create","params":{"command":"go","args":["test"]}}`),
			entry("handler-to-agent", "terminal", `{"id":1,"result":{"terminalId":"T"}}`),
			entry("ours-to-front", "", `{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call_update","toolCallId":"t","_meta":{"terminal_output":{"terminal_id":"T","data":"ok\n"}}}}}`),
			entry("agent-to-handler", "terminal", `{"id":2,"method":"terminal/wait_for_exit","params":{"terminalId":"T"}}`),
			entry("handler-to-agent", "terminal", `{"id":2,"result":{"exitCode":1}}`),
		}, "terminal go test|exit 1|ok\n"},
		{"what is missing, noted or refused", []*journal.Entry{
			{Time: began, Dropped: 3, Bytes: 9, From: began, To: began.Add(time.Second), Why: "no room"},
			{Time: began, Note: "torn"},
			entry("agent-to-front", "refused", `"[1,2]"`),
		}, "lost 3 frames (9 bytes) from 12:00:00 to 12:00:01 are missing: no room\nnote torn\nnotice a line of 5 bytes was refused: [1,2]"},
		{"where content was not kept", []*journal.Entry{
			{Time: began, Dir: "front-to-agent", Method: "session/prompt", Size: 12},
			{Time: began, Dir: "agent-to-front", Method: "session/update", Tool: "t", Kind: "edit", Status: "failed"},
			{Time: began, Dir: "agent-to-front", Answers: "session/prompt"},
		}, "user ||[12 bytes, not kept]\ntool t|failed\nend |answered"},
	} {
		if got := told(tt.entries...); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

// hostile is text that a terminal would obey, that turns what follows around, and that is HTML and Markdown.
const hostile = "\x1b[31mred\x1b]0;title\x07\u202egnp.exe\u202c <script>alert(1)</script> ![x](http://tracker/x.png) ```\n# heading\n</pre>\xff"

func TestNothingThatAnAgentSaysIsObeyed(t *testing.T) {
	d := &Document{Header: journal.Header{Session: hostile, Agent: hostile, Cwd: hostile}}
	for _, kind := range []Kind{User, Agent, Thought, Tool, Question, Terminal, File, Plan, Notice, End, Lost, Note} {
		d.Add(Item{Kind: kind, Title: hostile, Text: hostile, Status: hostile, Tool: hostile, Diffs: []Diff{{Path: hostile, Old: hostile, New: "x" + hostile}}})
	}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"text":     func(b *bytes.Buffer) error { return Text(b, d) },
		"markdown": func(b *bytes.Buffer) error { return Markdown(b, d) },
		"html":     func(b *bytes.Buffer) error { return HTML(b, d) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		bad := map[string][]string{
			"text": {}, "markdown": {"\n# heading", "\n<script"}, "html": {"<script", "<img", "http-equiv=\"refresh", "<link"},
		}[name]
		for _, text := range append(bad, "\x1b", "\x07", "\u202e", "\u202c") {
			if strings.Contains(b.String(), text) {
				t.Errorf("%s: %q is in it", name, text)
			}
		}
		if !utf8.ValidString(b.String()) {
			t.Errorf("%s: it is not text", name)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add("agent-to-front", "", `{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call","toolCallId":"t","content":[{"type":"diff"}]}}}`)
	f.Add("front-to-agent", "fs", `{"id":1,"result":{"outcome":{"outcome":"selected","optionId":"o"}}}`)
	f.Fuzz(func(t *testing.T, dir, handler, frame string) {
		r := NewReader()
		d := &Document{}
		var p Printer
		for range 2 {
			for _, it := range r.Read(entry(dir, handler, frame)) {
				d.Add(it)
				for _, c := range p.Item(it) {
					if c == 0x1b || c == 0x202e {
						t.Errorf("%q is printed for %q", c, frame)
					}
				}
			}
		}
		var b bytes.Buffer
		for _, write := range []func() error{func() error { return Text(&b, d) }, func() error { return Markdown(&b, d) }, func() error { return HTML(&b, d) }} {
			if err := write(); err != nil {
				t.Error(err)
			}
		}
		if strings.ContainsAny(b.String(), "\x1b\u202e\x07") {
			t.Errorf("%q is not harmless", b.String())
		}
	})
}
