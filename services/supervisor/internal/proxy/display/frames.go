package display

import (
	"cmp"
	"strconv"
	"strings"

	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/text/markdown"
)

// unavailable is what is said of a terminal that nothing is known of any more.
const unavailable = "the output of this terminal is no longer available"

// introduction is a tool_call that tells the client of a terminal. Editors take a tool_call for the whole of what is
// known (Zed empties the locations if it has none), so all that was folded is repeated.
func introduction(key callKey, tc acp.ToolCall, content []byte, t *terminal) []byte {
	b := appendUpdate(make([]byte, 0, 512+len(content)), key, "tool_call")
	b = jsonrpc.AppendMembers(b, "title", cmp.Or(tc.Title, "Terminal"), "name", tc.Name, "kind", tc.Kind, "status", tc.Status)
	b = append(append(b, `,"content":`...), content...)
	if tc.Locations != nil {
		b = append(append(b, `,"locations":`...), tc.Locations...)
	}
	if tc.RawInput != nil {
		b = append(append(b, `,"rawInput":`...), tc.RawInput...)
	}
	b = append(b, `,"_meta":{"terminal_info":{"terminal_id":`...)
	b = jsonrpc.AppendString(b, t.id)
	b = appendMember(b, "cwd", t.cwd)
	return append(b, "}}}}}\n"...)
}

// appendOutput appends an update that carries a piece of a terminal's output.
func appendOutput(b []byte, key callKey, terminalID, data string) []byte {
	b = appendUpdate(b, key, "tool_call_update")
	b = append(b, `,"_meta":{"terminal_output":{"terminal_id":`...)
	b = jsonrpc.AppendString(b, terminalID)
	b = appendMember(b, "data", data)
	return append(b, "}}}}}\n"...)
}

// appendExit appends an update that tells of a terminal's end; nothing is known of how it ended if e is nil.
func appendExit(b []byte, key callKey, terminalID string, e *terminalv1.ExitStatus) []byte {
	b = appendUpdate(b, key, "tool_call_update")
	b = append(b, `,"_meta":{"terminal_exit":{"terminal_id":`...)
	b = jsonrpc.AppendString(b, terminalID)
	b = append(b, `,"exit_code":`...)
	if e != nil && e.ExitCode != nil {
		b = strconv.AppendUint(b, uint64(e.GetExitCode()), 10)
	} else {
		b = append(b, "null"...)
	}
	if e != nil && e.Signal != nil {
		b = appendMember(b, "signal", e.GetSignal())
	} else {
		b = append(b, `,"signal":null`...)
	}
	return append(b, "}}}}}\n"...)
}

// appendContent appends an update that replaces a tool call's content.
func appendContent(b []byte, key callKey, content []byte) []byte {
	b = appendUpdate(b, key, "tool_call_update")
	b = append(append(b, `,"content":`...), content...)
	return append(b, "}}}\n"...)
}

// appendUpdate appends a session/update up to where further members of the update follow.
func appendUpdate(b []byte, key callKey, kind string) []byte {
	b = append(b, `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":`...)
	b = jsonrpc.AppendString(b, key.sessionID)
	b = append(append(append(b, `,"update":{"sessionUpdate":"`...), kind...), '"')
	return appendMember(b, "toolCallId", key.callID)
}

func appendMember(b []byte, name, value string) []byte {
	b = append(append(append(b, `,"`...), name...), `":`...)
	return jsonrpc.AppendString(b, value)
}

// textItem is an item of content that shows text.
func textItem(text string) []byte {
	b := jsonrpc.AppendString([]byte(`{"type":"content","content":{"type":"text","text":`), text)
	return append(b, "}}"...)
}

// fenced puts output between fences that are longer than any in it.
func fenced(text string, cut bool, end string) string {
	fence := markdown.Ticks(text, 3)
	var b strings.Builder
	if cut {
		b.WriteString("[earlier output is not shown]\n")
	}
	b.WriteString(fence + "\n" + text)
	if text != "" && !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
	b.WriteString(fence)
	if end != "" {
		b.WriteString("\n" + end)
	}
	return b.String()
}
