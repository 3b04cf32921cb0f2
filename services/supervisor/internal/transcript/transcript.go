// Package transcript makes a session's journal readable: what was said, done, asked and answered, as text for a
// terminal, as Markdown, and as a page of HTML.
//
// It knows the messages of the protocol as far as a reader cares. Frames are an agent's and so hostile: whatever they
// hold is shown, and neither terminal nor browser takes it for an instruction.
package transcript

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/journal"
)

// Kind says what an Item is.
type Kind string

// The kinds of items.
const (
	User     Kind = "user"
	Agent    Kind = "agent"
	Thought  Kind = "thought"
	Tool     Kind = "tool"
	Question Kind = "question"
	Terminal Kind = "terminal"
	File     Kind = "file"
	Plan     Kind = "plan"
	Notice   Kind = "notice"
	End      Kind = "end"  // of a turn
	Lost     Kind = "lost" // frames that the journal lacks
	Note     Kind = "note" // of the journal's own
)

// Item is one thing that happened.
type Item struct {
	Time time.Time
	Kind Kind
	// ID is what later items of the same kind and id bring up to date; empty: it stands alone.
	ID string
	// Title is a line, Text is many. Status is a word: of a tool, of an answer, of an exit.
	Title, Text, Status string
	// Tool is the kind of a tool call.
	Tool  string
	Diffs []Diff
}

// Diff is a change of a file.
type Diff struct {
	Path           string
	Old, New       string
	Added, Removed int
}

// bounds on what is remembered, so that no session makes a reader grow without end.
const (
	maxTools     = 4096
	maxRequests  = 1 << 16
	maxTerminals = 1024
	maxOutput    = 256 << 10

	maxRefused = 200 // bytes that are shown of a line that was refused
)

// refused stands for the handler where a line reached nobody, since it is no message or can be read in two ways.
const refused = "refused"

// Reader turns entries into items. Not safe for concurrent use.
type Reader struct {
	tools     map[string]*acp.ToolCall
	requests  map[string]*asked
	terminals map[string]*terminal
}

type asked struct {
	method string
	params []byte
	item   Item
}

type terminal struct {
	command, output, status string
	polled                  bool // its output was asked for: what a front was shown of it does not count
}

// NewReader returns a Reader at a session's beginning.
func NewReader() *Reader {
	return &Reader{tools: map[string]*acp.ToolCall{}, requests: map[string]*asked{}, terminals: map[string]*terminal{}}
}

// Read returns what an entry says. Most say one thing or nothing.
func (r *Reader) Read(e *journal.Entry) []Item {
	items := r.read(e)
	for i := range items {
		items[i].Time = e.Time
	}
	return items
}

func (r *Reader) read(e *journal.Entry) []Item {
	switch {
	case e.Dropped > 0:
		return []Item{{Kind: Lost, Title: fmt.Sprintf("%d frames (%d bytes) from %s to %s are missing: %s", e.Dropped, e.Bytes,
			e.From.UTC().Format(time.TimeOnly), e.To.UTC().Format(time.TimeOnly), e.Why)}}
	case e.Note != "":
		return []Item{{Kind: Note, Title: e.Note}}
	case e.Dir == "":
		return nil
	}
	msg := e.Message()
	if msg == nil {
		return r.about(e)
	}
	switch {
	case e.Handler == refused:
		return []Item{{Kind: Notice, Title: fmt.Sprintf("a line of %d bytes was refused: %s", len(msg), first(string(msg), maxRefused))}}
	case e.Method == acp.MethodSessionUpdate:
		return r.update(e, acp.Get(msg, "params", "update"))
	case e.Method != "":
		return r.request(e, msg)
	}
	return r.response(e, msg)
}

// about is what can be told where content was not kept.
func (r *Reader) about(e *journal.Entry) []Item {
	switch {
	case e.Method == acp.MethodSessionPrompt:
		return []Item{{Kind: User, Text: fmt.Sprintf("[%d bytes, not kept]", e.Size)}}
	case e.Answers == acp.MethodSessionPrompt:
		return []Item{{Kind: End, Status: "answered"}}
	case e.Tool != "":
		return []Item{{Kind: Tool, ID: e.Tool, Title: e.Tool, Tool: e.Kind, Status: e.Status}}
	}
	return nil
}

// key tells apart the ids of the agent, the front and acphost.
func key(e *journal.Entry, response bool) string {
	who := "a"
	switch e.Dir {
	case "front-to-ours":
		who = "o"
	case "ours-to-front":
		who = "o"
		if response {
			who = "f"
		}
	case "agent-to-front":
		if response {
			who = "f"
		}
	case "front-to-agent":
		if !response {
			who = "f"
		}
	}
	return who + string(acp.Get(e.Message(), "id"))
}

func (r *Reader) request(e *journal.Entry, msg []byte) []Item {
	params := acp.Get(msg, "params")
	if e.Method == acp.MethodSessionCancel {
		return []Item{{Kind: Notice, Title: "the turn was cancelled"}}
	}
	q := &asked{method: e.Method}
	var items []Item
	switch e.Method {
	case acp.MethodSessionPrompt:
		var b strings.Builder
		_ = acp.Elements(acp.Get(params, "prompt"), func(v []byte) bool {
			if b.Len() > 0 {
				b.WriteString("\n")
			}
			b.WriteString(block(v))
			return true
		})
		items = []Item{{Kind: User, Text: b.String()}}
	case acp.MethodRequestPermission:
		q.params = bytes.Clone(params)
		title, _ := acp.String(acp.Get(params, "toolCall", "title"))
		tool, _ := acp.String(acp.Get(params, "toolCall", "toolCallId"))
		if tc := r.tools[tool]; title == "" && tc != nil {
			title = tc.Title
		}
		q.item = Item{Kind: Question, ID: key(e, false) + tool, Title: cmp.Or(title, tool), Status: "open"}
		items = []Item{q.item}
	case acp.MethodElicitationCreate:
		text, _ := acp.String(acp.Get(params, "message"))
		q.item = Item{Kind: Question, ID: key(e, false), Title: text, Status: "open"}
		items = []Item{q.item}
	case "fs/read_text_file", "fs/write_text_file", "fs/list_directory":
		path, _ := acp.String(acp.Get(params, "path"))
		q.item = Item{Kind: File, ID: key(e, false) + path + e.Time.String(), Title: strings.TrimPrefix(e.Method, "fs/") + " " + path}
	case "terminal/create", "terminal/run":
		command, _ := acp.String(acp.Get(params, "command"))
		if args, ok := acp.Strings(acp.Get(params, "args")); ok {
			command = strings.Join(append([]string{command}, args...), " ")
		}
		q.item = Item{Kind: Terminal, Title: command}
	case "terminal/output", "terminal/wait_for_exit":
		id, _ := acp.String(acp.Get(params, "terminalId"))
		q.item = Item{Kind: Terminal, ID: id}
	}
	if acp.Get(msg, "id") != nil && len(r.requests) < maxRequests {
		r.requests[key(e, false)] = q
	}
	return items
}

func (r *Reader) response(e *journal.Entry, msg []byte) []Item {
	k := key(e, true)
	q := r.requests[k]
	if q == nil {
		return nil
	}
	delete(r.requests, k)
	result := acp.Get(msg, "result")
	failure := acp.Get(msg, "error")
	if bytes.Equal(failure, []byte("null")) {
		failure = nil
	}
	why, _ := acp.String(acp.Get(failure, "message"))
	it := q.item
	switch q.method {
	case acp.MethodSessionPrompt:
		stop, _ := acp.String(acp.Get(result, "stopReason"))
		if failure != nil {
			return []Item{{Kind: End, Status: "error", Title: why}}
		}
		return []Item{{Kind: End, Status: stop}}
	case acp.MethodSessionNew, acp.MethodSessionLoad, acp.MethodSessionResume, acp.MethodSessionFork:
		if failure != nil {
			return []Item{{Kind: Notice, Title: q.method + ": " + why}}
		}
	case acp.MethodRequestPermission, acp.MethodElicitationCreate:
		it.Status = cmp.Or(answer(q.params, result), why, "error") + ", by " + who(e)
		return []Item{it}
	case "fs/read_text_file", "fs/write_text_file", "fs/list_directory":
		it.Status = "done"
		if failure != nil {
			it.Status = "failed: " + why
		}
		return []Item{it}
	case "terminal/create", "terminal/run":
		id, _ := acp.String(acp.Get(result, "terminalId"))
		if failure != nil {
			it.Status = "failed: " + why
			return []Item{it}
		}
		if id == "" || len(r.terminals) >= maxTerminals {
			return nil
		}
		r.terminals[id] = &terminal{command: it.Title}
		it.ID, it.Status = id, "running"
		return []Item{it}
	case "terminal/output", "terminal/wait_for_exit":
		t := r.terminals[it.ID]
		if t == nil || failure != nil {
			return nil
		}
		if out, ok := acp.String(acp.Get(result, "output")); ok {
			t.output, t.polled = last(out, maxOutput), true
			result = acp.Get(result, "exitStatus")
		}
		if s := exit(result); s != "" {
			t.status = s
		}
		return []Item{r.terminal(it.ID)}
	}
	return nil
}

func (r *Reader) terminal(id string) Item {
	t := r.terminals[id]
	return Item{Kind: Terminal, ID: id, Title: t.command, Text: t.output, Status: cmp.Or(t.status, "running")}
}

// exit is how a command ended; empty: it has not.
func exit(status []byte) string {
	if signal, ok := acp.String(acp.Get(status, "signal")); ok && signal != "" {
		return "ended by " + signal
	}
	if code, ok := acp.Int(acp.Get(status, "exitCode")); ok {
		return fmt.Sprintf("exit %d", code)
	}
	return ""
}

// who answered.
func who(e *journal.Entry) string {
	switch e.Dir {
	case "ours-to-agent":
		return "acphost"
	case "handler-to-agent":
		return cmp.Or(e.Handler, "a handler")
	}
	return "the client"
}

// answer is the chosen option in words.
func answer(params, result []byte) string {
	if action, ok := acp.String(acp.Get(result, "action")); ok {
		return action
	}
	outcome, _ := acp.String(acp.Get(result, "outcome", "outcome"))
	id, ok := acp.String(acp.Get(result, "outcome", "optionId"))
	if !ok {
		return outcome
	}
	name := id
	_ = acp.Elements(acp.Get(params, "options"), func(v []byte) bool {
		if o, _ := acp.String(acp.Get(v, "optionId")); o == id {
			kind, _ := acp.String(acp.Get(v, "kind"))
			name = cmp.Or(kind, id)
			return false
		}
		return true
	})
	return name
}

func (r *Reader) update(e *journal.Entry, update []byte) []Item {
	kind, _ := acp.String(acp.Get(update, "sessionUpdate"))
	ours := e.Dir == "ours-to-front"
	switch snake(kind) {
	case "user_message_chunk":
		return []Item{{Kind: User, Text: block(acp.Get(update, "content"))}}
	case "agent_message_chunk":
		if ours {
			return []Item{{Kind: Notice, Title: block(acp.Get(update, "content"))}}
		}
		return []Item{{Kind: Agent, Text: block(acp.Get(update, "content"))}}
	case "agent_thought_chunk":
		return []Item{{Kind: Thought, Text: block(acp.Get(update, "content"))}}
	case "tool_call", "tool_call_update":
		if ours {
			r.shown(update)
			return nil
		}
		return r.tool(update)
	case "plan":
		var b strings.Builder
		_ = acp.Elements(acp.Get(update, "entries"), func(v []byte) bool {
			text, _ := acp.String(acp.Get(v, "content"))
			status, _ := acp.String(acp.Get(v, "status"))
			fmt.Fprintf(&b, "%s %s\n", mark(status), text)
			return true
		})
		return []Item{{Kind: Plan, Text: b.String()}}
	case "current_mode_update":
		mode, _ := acp.String(acp.Get(update, "currentModeId"))
		return []Item{{Kind: Notice, Title: "mode: " + mode}}
	case "notice":
		title, _ := acp.String(acp.Get(update, "title"))
		text, _ := acp.String(acp.Get(update, "description"))
		return []Item{{Kind: Notice, Title: title, Text: text}}
	}
	return nil
}

// shown takes a terminal's output from what a front was shown of it.
func (r *Reader) shown(update []byte) {
	out := acp.Get(update, "_meta", "terminal_output")
	id, _ := acp.String(acp.Get(out, "terminal_id"))
	t := r.terminals[id]
	if t == nil || t.polled {
		return
	}
	data, _ := acp.String(acp.Get(out, "data"))
	t.output = last(t.output+data, maxOutput)
}

func (r *Reader) tool(update []byte) []Item {
	id := acp.ToolCallID(update)
	tc := r.tools[id]
	if tc == nil {
		if len(r.tools) >= maxTools {
			return nil
		}
		tc = &acp.ToolCall{}
		r.tools[id] = tc
	}
	tc.Merge(update)
	it := Item{Kind: Tool, ID: id, Title: cmp.Or(tc.Title, tc.Name, id), Tool: tc.Kind, Status: tc.Status}
	var texts []string
	for _, c := range acp.ContentItems(tc.Content) {
		switch c.Type {
		case "diff":
			before, _ := acp.String(acp.Get(c.Raw, "oldText"))
			after, _ := acp.String(acp.Get(c.Raw, "newText"))
			d := Diff{Path: c.Path, Old: before, New: after}
			d.Added, d.Removed = counted(before, after)
			it.Diffs = append(it.Diffs, d)
		case "content":
			texts = append(texts, block(acp.Get(c.Raw, "content")))
		}
	}
	it.Text = strings.Join(texts, "\n")
	return []Item{it}
}

// block is a content block as text.
func block(v []byte) string {
	kind, _ := acp.String(acp.Get(v, "type"))
	switch kind {
	case "text":
		text, _ := acp.String(acp.Get(v, "text"))
		return text
	case "image", "audio":
		mime, _ := acp.String(acp.Get(v, "mimeType"))
		return fmt.Sprintf("[%s %s, %d bytes]", kind, mime, max(0, len(acp.Get(v, "data"))-len(`""`))*3/4)
	case "resource_link":
		uri, _ := acp.String(acp.Get(v, "uri"))
		return "[" + uri + "]"
	case "resource":
		uri, _ := acp.String(acp.Get(v, "resource", "uri"))
		text, _ := acp.String(acp.Get(v, "resource", "text"))
		return fmt.Sprintf("[%s, %d bytes]", uri, len(text))
	case "":
		return ""
	}
	return "[" + kind + "]"
}

// snake is a kind in the protocol's spelling; older agents write camel case.
func snake(kind string) string {
	var b strings.Builder
	for _, c := range kind {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

// counted is how many lines a change adds and removes, but for those at either end that stay.
func counted(before, after string) (added, removed int) {
	a, b := lines(before), lines(after)
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return len(b), len(a)
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// first is the begin of a text.
func first(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}

// last is the end of a text.
func last(s string, n int) string {
	if len(s) > n {
		return s[len(s)-n:]
	}
	return s
}

// Document is a whole session.
type Document struct {
	Header journal.Header
	Items  []Item

	places map[string]int
}

// Add adds an item: it goes on with the last one, brings an earlier one up to date, or stands by itself.
func (d *Document) Add(it Item) {
	if n := len(d.Items); n > 0 {
		last := &d.Items[n-1]
		switch it.Kind {
		case Agent, Thought, User:
			if last.Kind == it.Kind {
				last.Text += it.Text
				return
			}
		case Plan:
			if last.Kind == Plan {
				last.Text = it.Text
				return
			}
		}
	}
	if it.ID != "" {
		k := string(it.Kind) + "\x00" + it.ID
		if i, ok := d.places[k]; ok {
			it.Time = d.Items[i].Time
			d.Items[i] = it
			return
		}
		if d.places == nil {
			d.places = map[string]int{}
		}
		d.places[k] = len(d.Items)
	}
	d.Items = append(d.Items, it)
}
