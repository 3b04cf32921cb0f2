package activity

import (
	"bytes"
	"slices"

	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

const (
	// briefAbove is the size in bytes above which a call of an agent, or its answer, is queued in shortened form. Most
	// of such a message is the content of a file, which events do not contain, and many may pass at once: calls to
	// handlers do not wait for room in the queue.
	briefAbove = 64 << 10
	// unwatchedBriefAbove is the same limit while there are no watchers.
	unwatchedBriefAbove = 1 << 10
	// briefLook is the size in bytes of the prefix of a call that is searched for its path.
	briefLook = 4 << 10
)

var resultMember = []byte(`,"result":`)

// sizeOf returns how many bytes a copy of a frame needs.
func sizeOf(f *frame.Frame) int {
	size := len(f.Line) + len(f.Method) + len(f.ID) + len(f.SessionID)
	for _, b := range f.Rest {
		size += len(b)
	}
	return size
}

// brief shortens a large call to a handler, or its answer, to the fields that events use. It returns false if the frame
// is of another kind and needed whole.
func brief(f *frame.Frame) bool {
	switch f.Direction {
	case frame.AgentToHandler:
		if !f.Scanned || f.ID == nil || f.Method == nil || bytes.HasPrefix(f.Method, []byte("session/")) || bytes.HasPrefix(f.Method, []byte("elicitation/")) {
			return false
		}
		f.Line, f.Rest, f.Brief = call(f), nil, true
		return true
	case frame.HandlerToAgent:
		// The link wrote the line: only the id precedes the result, and quotes in strings are escaped.
		head, _, ok := bytes.Cut(f.Line[:min(len(f.Line), briefLook)], resultMember)
		if !ok {
			return false
		}
		f.Line, f.Rest = slices.Concat(head, resultMember, []byte("{}}\n")), nil
		f.Brief = true
		return true
	}
	return false
}

// call returns a request without its large fields.
func call(f *frame.Frame) []byte {
	params := jsonrpc.AppendString([]byte(`{"sessionId":`), string(f.SessionID))
	for _, name := range [...]string{"path", "terminalId"} {
		if v := early(f.Line, name); v != nil {
			params = append(append(append(params, `,"`...), name...), `":`...)
			params = append(params, v...)
		}
	}
	return jsonrpc.AppendRequest(nil, f.ID, string(f.Method), append(params, '}'))
}

// early returns a string from a request's params if it is at the start of the line; nil otherwise.
func early(line []byte, name string) []byte {
	line = line[:min(len(line), briefLook)]
	params := lex.Find(line, lex.SkipSpace(line, 0), "params")
	if params < 0 {
		return nil
	}
	at := lex.Find(line, params, name)
	if at < 0 || lex.At(line, at) != '"' {
		return nil
	}
	end, _, _ := lex.StringEnd(line, at+1)
	if end < 0 {
		return nil
	}
	return line[at:end:end]
}
