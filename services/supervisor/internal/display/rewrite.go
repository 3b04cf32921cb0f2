package display

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// Mentions tells whether a line may show a terminal: a cheap look, before Pass takes a close one.
func Mentions(content []byte) bool { return bytes.Contains(content, []byte(`"terminal`)) }

// Pass looks at a line that reports a tool call to the front, an update or a permission question, before it is
// forwarded. It returns the frames to send before it, and the line to send in its place (the same bytes where nothing
// of ours is in it). at is the path to the report in the line; tc is all that is known of the call, the report included.
func (d *Display) Pass(sessionID string, line []byte, tc acp.ToolCall, at ...string) (before [][]byte, out []byte) {
	content := acp.Get(line, append(append([]string{}, at...), "content")...)
	if len(content) == 0 || content[0] != '[' {
		return nil, line
	}
	items := acp.ContentItems(content)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replaced(sessionID, tc.ID)
	ours := false
	for _, it := range items {
		if it.Type == "terminal" && (d.terminals[it.TerminalID] != nil || strings.HasPrefix(it.TerminalID, idPrefix)) {
			ours = true
		}
	}
	if !ours {
		return nil, line
	}
	c := &call{sessionID: sessionID, id: tc.ID, items: cloneItems(items)}
	if d.metadata {
		before = d.introduce(c, tc)
	} else {
		d.attach(c)
	}
	rewritten, err := acp.Set(line, d.content(c), append(append([]string{}, at...), "content")...)
	if err != nil {
		return before, line
	}
	if d.metadata && !d.hasStale(c) {
		return before, line // every terminal in it is known to the front now: not a byte changes
	}
	return before, rewritten
}

// introduce makes the tool calls by which a front learns of terminals, one for each that it does not know yet.
func (d *Display) introduce(c *call, tc acp.ToolCall) [][]byte {
	var frames [][]byte
	known := map[string]bool{}
	for _, it := range c.items {
		if t := d.terminals[it.TerminalID]; t != nil && t.watched {
			known[t.id] = true
		}
	}
	for _, it := range c.items {
		t := d.terminals[it.TerminalID]
		if it.Type != "terminal" || t == nil {
			continue
		}
		t.calls[c.key()] = c
		if known[t.id] {
			continue
		}
		known[t.id] = true
		var shown []byte
		shown = append(shown, '[')
		for _, other := range c.items {
			if other.Type == "terminal" && !known[other.TerminalID] {
				continue
			}
			if len(shown) > 1 {
				shown = append(shown, ',')
			}
			shown = append(shown, other.Raw...)
		}
		shown = append(shown, ']')
		frames = append(frames, introduction(c.sessionID, tc, shown, t))
		d.watch(t)
	}
	return frames
}

// attach makes a tool call follow its terminals, for a front that gets text.
func (d *Display) attach(c *call) {
	for _, it := range c.items {
		if t := d.terminals[it.TerminalID]; it.Type == "terminal" && t != nil {
			t.calls[c.key()] = c
			d.watch(t)
		}
	}
}

// replaced ends the text display of a tool call whose content the agent replaces.
func (d *Display) replaced(sessionID, callID string) {
	key := sessionID + "\x00" + callID
	for _, t := range d.terminals {
		delete(t.calls, key)
	}
}

// hasStale tells whether a terminal in the content is none that is known.
func (d *Display) hasStale(c *call) bool {
	for _, it := range c.items {
		if it.Type == "terminal" && d.terminals[it.TerminalID] == nil && strings.HasPrefix(it.TerminalID, idPrefix) {
			return true
		}
	}
	return false
}

// content builds a tool call's content for the front, text in place of terminals where it cannot show them.
func (d *Display) content(c *call) []byte {
	out := []byte{'['}
	for i, it := range c.items {
		if i > 0 {
			out = append(out, ',')
		}
		t := d.terminals[it.TerminalID]
		switch {
		case it.Type != "terminal":
			out = append(out, it.Raw...)
		case t == nil && strings.HasPrefix(it.TerminalID, idPrefix):
			out = append(out, textItem("[the output of this terminal is no longer available]")...)
		case t == nil || d.metadata:
			out = append(out, it.Raw...)
		default:
			out = append(out, textItem(fenced(t.out.text(), t.out.end))...)
		}
	}
	return append(out, ']')
}

// key names a tool call among those of all sessions.
func (c *call) key() string { return c.sessionID + "\x00" + c.id }

// introduction is a tool_call that tells the front of a terminal.
func introduction(sessionID string, tc acp.ToolCall, content []byte, t *terminal) []byte {
	b := notification(sessionID)
	b = append(b, `{"sessionUpdate":"tool_call","toolCallId":`...)
	b = append(b, acp.Quote(tc.ID)...)
	b = append(b, `,"title":`...)
	title := tc.Title
	if title == "" {
		title = "Terminal"
	}
	b = append(b, acp.Quote(title)...)
	if tc.Kind != "" {
		b = append(append(b, `,"kind":`...), acp.Quote(tc.Kind)...)
	}
	if tc.Status != "" {
		b = append(append(b, `,"status":`...), acp.Quote(tc.Status)...)
	}
	b = append(append(b, `,"content":`...), content...)
	b = append(append(b, `,"_meta":{"terminal_info":{"terminal_id":`...), acp.Quote(t.id)...)
	b = append(append(b, `,"cwd":`...), acp.Quote(t.cwd)...)
	return append(b, "}}}}}\n"...)
}

// outputFrame is an update that carries a piece of a terminal's output.
func outputFrame(sessionID, callID, terminalID, data string) []byte {
	b := notification(sessionID)
	b = append(append(b, `{"sessionUpdate":"tool_call_update","toolCallId":`...), acp.Quote(callID)...)
	b = append(append(b, `,"_meta":{"terminal_output":{"terminal_id":`...), acp.Quote(terminalID)...)
	b = append(append(b, `,"data":`...), acp.Quote(data)...)
	return append(b, "}}}}}\n"...)
}

// exitFrame is an update that tells of a terminal's end.
func exitFrame(sessionID, callID, terminalID string, code, signal []byte) []byte {
	b := notification(sessionID)
	b = append(append(b, `{"sessionUpdate":"tool_call_update","toolCallId":`...), acp.Quote(callID)...)
	b = append(append(b, `,"_meta":{"terminal_exit":{"terminal_id":`...), acp.Quote(terminalID)...)
	b = append(append(b, `,"exit_code":`...), code...)
	b = append(append(b, `,"signal":`...), signal...)
	return append(b, "}}}}}\n"...)
}

// contentFrame is an update that replaces a tool call's content.
func contentFrame(sessionID, callID string, content []byte) []byte {
	b := notification(sessionID)
	b = append(append(b, `{"sessionUpdate":"tool_call_update","toolCallId":`...), acp.Quote(callID)...)
	b = append(append(b, `,"content":`...), content...)
	return append(b, "}}}\n"...)
}

func notification(sessionID string) []byte {
	b := append(make([]byte, 0, 512), `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":`...)
	return append(append(b, acp.Quote(sessionID)...), `,"update":`...)
}

func textItem(text string) []byte {
	b := append([]byte(`{"type":"content","content":{"type":"text","text":`), acp.Quote(text)...)
	return append(b, "}}"...)
}

// fenced puts output between fences that are longer than any in it.
func fenced(text, end string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	out := fence + "\n" + text + fence
	if end != "" {
		out += "\n" + end
	}
	return out
}

func cloneItems(items []acp.ContentItem) []acp.ContentItem {
	out := make([]acp.ContentItem, len(items))
	for i, it := range items {
		it.Raw = append([]byte(nil), it.Raw...)
		out[i] = it
	}
	return out
}

func itoa(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
