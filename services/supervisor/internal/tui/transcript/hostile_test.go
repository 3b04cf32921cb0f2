package transcript

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
)

// hostile is text that a terminal would obey, that turns what follows around, and that is HTML and Markdown.
const hostile = "\x1b[31mred\x1b]0;title\x07\u202egnp.exe\u202c <script>alert(1)</script> ![x](http://tracker/x.png) [x](javascript:alert(1)) ```\n# heading\n</pre></details></main>\n- <img src=x onerror=alert(1)> **<b>** `</code><script>`\n| <i> | <u> |\n|---|---|\n| {{.}} | &lt;script&gt; |\n~~~\n</style><link rel=stylesheet href=//x>\n~~~\n> <meta http-equiv=refresh>"

// hostileFile is a session in which all names and texts that other parties choose are hostile.
func hostileFile(t *testing.T) journal.Session {
	t.Helper()
	q, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	x := string(q)
	var b strings.Builder
	fmt.Fprintf(&b, `{"t":"2026-03-01T12:00:00Z","journal":{"version":1,"session":%s,"agent":%s,"agent_id":"a","cwd":%s,"acphost":%s,"instance":"i","pid":1,"content":true}}`+"\n", x, x, x, x)
	n := 0
	add := func(dir, handler, rest string) {
		n++
		fmt.Fprintf(&b, `{"t":"2026-03-01T12:00:01Z","n":%d,"dir":%q,"handler":%s,%s}`+"\n", n, dir, handler, strings.ReplaceAll(rest, "$X", x))
	}
	update := func(u string) {
		add("agent-to-front", `""`, `"method":"session/update","frame":{"method":"session/update","params":{"sessionId":$X,"update":`+u+`}}`)
	}
	add("front-to-agent", `""`, `"method":"session/prompt","frame":{"id":1,"method":"session/prompt","params":{"sessionId":$X,"prompt":[{"type":"text","text":$X},{"type":"image","mimeType":$X,"data":"AAAA"},{"type":"resource_link","uri":$X,"name":$X}]}}`)
	for _, kind := range []string{"user_message_chunk", "agent_message_chunk", "agent_thought_chunk"} {
		update(`{"sessionUpdate":"` + kind + `","content":{"type":"text","text":$X}}`)
	}
	update(`{"sessionUpdate":"plan","entries":[{"content":$X,"priority":$X,"status":$X}]}`)
	update(`{"sessionUpdate":"tool_call","toolCallId":$X,"title":$X,"name":$X,"kind":$X,"status":$X,"rawInput":$X,"rawOutput":{$X:$X},"locations":[{"path":$X}],` +
		`"content":[{"type":"diff","path":$X,"oldText":$X,"newText":"x"},{"type":"content","content":{"type":"text","text":$X}},{"type":$X}]}`)
	update(`{"sessionUpdate":"tool_call","toolCallId":"ran","title":$X,"kind":"execute","status":"completed","rawOutput":{"stdout":$X,"exit_code":1}}`)
	update(`{"sessionUpdate":"tool_call","toolCallId":"ran2","title":$X,"kind":"execute","status":"completed","_meta":{"terminal_output":{"terminal_id":$X,"data":$X},"terminal_exit":{"terminal_id":$X,"signal":$X}}}`)
	add("agent-to-front", `""`, `"method":"session/request_permission","frame":{"id":2,"method":"session/request_permission","params":{"sessionId":$X,"toolCall":{"toolCallId":"other","title":$X,"kind":$X,"rawInput":{"command":$X},"content":[{"type":"diff","path":$X,"newText":$X}]},"options":[{"optionId":$X,"name":$X,"kind":$X}]}}`)
	add("front-to-agent", x, `"answers":"session/request_permission","frame":{"id":2,"result":{"outcome":{"outcome":"selected","optionId":$X}}}`)
	add("agent-to-front", `""`, `"method":"elicitation/create","frame":{"id":3,"method":"elicitation/create","params":{"sessionId":$X,"mode":"url","message":$X,"url":$X,"requestedSchema":{$X:1}}}`)
	add("agent-to-handler", x, `"method":"fs/read_text_file","frame":{"id":4,"method":"fs/read_text_file","params":{"sessionId":$X,"path":$X}}`)
	add("handler-to-agent", x, `"answers":"fs/read_text_file","frame":{"id":4,"error":{"code":-1,"message":$X}}`)
	add("agent-to-handler", x, `"method":"terminal/create","frame":{"id":5,"method":"terminal/create","params":{"sessionId":$X,"command":$X,"args":[$X]}}`)
	add("handler-to-agent", x, `"answers":"terminal/create","frame":{"id":5,"result":{"terminalId":$X}}`)
	add("agent-to-handler", x, `"method":"terminal/output","frame":{"id":6,"method":"terminal/output","params":{"sessionId":$X,"terminalId":$X}}`)
	add("handler-to-agent", x, `"answers":"terminal/output","frame":{"id":6,"result":{"output":$X,"truncated":true,"exitStatus":{"signal":$X}}}`)
	update(`{"sessionUpdate":"notice","severity":$X,"title":$X,"description":$X}`)
	update(`{"sessionUpdate":$X,"x":$X}`)
	update(`{"sessionUpdate":"current_mode_update","currentModeId":$X}`)
	update(`{"sessionUpdate":"session_info_update","title":$X}`)
	update(`{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":1,"currency":$X}}`)
	update(`{"sessionUpdate":"compaction_update","compactionId":$X,"status":"failed","error":$X}`)
	add("agent-to-front", `"refused"`, `"frame":$X`)
	fmt.Fprintf(&b, `{"t":"2026-03-01T12:00:02Z","n":%d,"dropped":1,"bytes":2,"from":"2026-03-01T12:00:01Z","to":"2026-03-01T12:00:01Z","why":%s}`+"\n"+`{"t":"2026-03-01T12:00:02Z","note":%s}`+"\n", n, x, x)
	add("agent-to-front", `""`, `"answers":"session/prompt","frame":{"id":1,"result":{"stopReason":$X}}`)
	return written(t, []byte(b.String()))
}

// ours are the elements of a page, each as acphost writes it.
var ours = regexp.MustCompile(`^</?(?:!DOCTYPE html|html(?: lang="en")?|head|meta charset="utf-8"|meta http-equiv="Content-Security-Policy" content="[-a-z0-9A-Z' ;&#/=]+"|` +
	`meta name="referrer" content="no-referrer"|meta name="viewport" content="[-a-z=0-9, ]+"|title|style|body|header|h1|h4|h2 id="turn-[0-9]+"|h2|nav|a(?: href="#turn-[0-9]+")?|dl|dt|dd|main|footer|code|b|p|strong|em|del|ul|ol|li|hr|br|blockquote|table|tr|th|td|pre|div|span|summary|article|details|time` +
	`|(?:p|pre|span|div|article|details|summary|ul|li) class="[a-z_ ]*"(?: open)?|time datetime="[-0-9T:.Z]+"|ol start="[0-9]+")>$`)

func TestTranscript_EscapesHostileText(t *testing.T) {
	f := hostileFile(t)
	for format, write := range formats {
		got := write(t, []journal.Session{f}, true)
		if !utf8.ValidString(got) {
			t.Errorf("%s: it is not text", format)
		}
		for _, bad := range []string{"\x1b", "\x07", "\u202e", "\u202c"} {
			if strings.Contains(got, bad) {
				t.Errorf("%s: %q is in it", format, bad)
			}
		}
		switch format {
		case "md":
			for _, bad := range []string{"\n# heading", "\n<script", "> <img", "\n</pre>"} {
				if strings.Contains(got, bad) {
					t.Errorf("%s: %q is in it", format, bad)
				}
			}
			if n := strings.Count(outsideCode(got), "![x]("); n > 0 {
				t.Errorf("%d pictures would be loaded", n)
			}
		case "html":
			page := regexp.MustCompile(`(?s)<style>.*?</style>`).ReplaceAllString(got, "")
			elementsAreOurs(t, page)
			for element, n := range map[string]int{"<main>": 1, "</main>": 1, "</body>": 1, "<style>": 1, "</style>": 1} {
				if c := strings.Count(got, element); c != n {
					t.Errorf("%s is there %d times", element, c)
				}
			}
		}
	}
}

var element = regexp.MustCompile(`<[^>]*>`)

// elementsAreOurs checks that HTML has no elements except acphost's own, each with its end tag.
func elementsAreOurs(t *testing.T, page string) {
	t.Helper()
	var open []string
	for _, e := range element.FindAllString(page, -1) {
		if !ours.MatchString(e) {
			t.Errorf("%q is an element that acphost does not write", e)
			continue
		}
		name, _, _ := strings.Cut(strings.Trim(e, "</>"), " ")
		switch {
		case name == "meta" || name == "br" || name == "hr" || name == "!DOCTYPE":
		case e[1] != '/':
			open = append(open, name)
		case len(open) == 0 || open[len(open)-1] != name:
			t.Errorf("%s ends what is not open: %v", e, open)
			return
		default:
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Errorf("%v have no end", open)
	}
}

func TestMarkdown_KeepsOnlyCertainCode(t *testing.T) {
	const x = "<x>"
	for _, tt := range []struct {
		name, text string
		code       bool
	}{
		{"text", x, false},
		{"code", "```html\n" + x + "\n```", true},
		{"code between tildes", "~~~\n```\n" + x, true},
		{"code with a shorter fence in it", "````\n```\n" + x, true},
		{"after code", "```\na\n```\n" + x, false},
		{"after code with a longer fence", "```\na\n`````\n" + x, false},
		{"a fence in a list", "- ```\n" + x, false},
		{"a fence that is further in", "  ```\n" + x, false},
		{"a fence that may end it or not", "```\na\n    ```\n" + x, false},
		{"and one after that", "```\na\n\t```\n```\n" + x, false},
		{"after two fences on a line, which end nothing", "```\n``` ```\n```\n" + x, false},
		{"after two fences with a tab between them", "~~~\n~~~\t~~~\n~~~\n" + x, false},
		{"after a fence with blanks after it", "```\na\n``` \t\n" + x, false},
		{"after a fence that ends one further in", "  ```\n```\n" + x, false},
		{"after a list's code that its list ends", "- a\n  ```\ntext\n  ```\n```\n" + x, false},
		{"after code of a list that ends further in", "- a\n  ```\n   ```\n```\n" + x, false},
		{"code after a list's", "- a\n\n  ```js\n    y\n\n  ```\n- b\n\n```\n" + x + "\n```", true},
		{"a list's code", "- a\n  ```\n  " + x + "\n  ```", false},
		{"a span of code", "```a```\n" + x, false},
	} {
		if got := strings.Contains(quoted(tt.text), x); got != tt.code {
			t.Errorf("%s: it is left as it is: %v", tt.name, got)
		}
	}
}

// outsideCode is Markdown without its blocks and spans of code.
func outsideCode(text string) string {
	text = regexp.MustCompile("(?ms)^ *(````+|```)[a-z]*$.*?^ *(````+|```)$").ReplaceAllString(text, "")
	return regexp.MustCompile("````.*?````|`[^`]*`").ReplaceAllString(text, "")
}

func FuzzReader(f *testing.F) {
	f.Add("agent-to-front", "", `{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call","toolCallId":"t","content":[{"type":"diff"}]}}}`)
	f.Add("front-to-agent", "fs", `{"id":1,"result":{"outcome":{"outcome":"selected","optionId":"o"}}}`)
	f.Add("agent-to-front", "", `{"method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"- a\n  1. *b*\n> | x | y |\n|-|-|"}}}}`)
	f.Add("agent-to-handler", "terminal", `{"id":1,"method":"terminal/create","params":{"command":"x"}}`)
	f.Fuzz(func(t *testing.T, dir, handler, message string) {
		e := entry(dir, handler, message)
		for format, write := range writers {
			var b strings.Builder
			tell, end := write(&b)
			r := NewReader()
			for range 2 {
				if err := each(r.Read(e), tell); err != nil {
					t.Error(err)
				}
			}
			if err := each(r.Close(), tell); err != nil {
				t.Error(err)
			}
			if err := end(); err != nil {
				t.Error(err)
			}
			if strings.ContainsAny(b.String(), "\x1b\u202e\x07") || !utf8.ValidString(b.String()) {
				t.Errorf("%s: %q is not harmless", format, b.String())
			}
		}
	})
}
