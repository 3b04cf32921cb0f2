package activity

import (
	"bytes"
	"slices"

	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc/lex"
)

const (
	// briefAbove is the size over which a call of an agent's, and its answer, are queued in brief. Most of what they hold is
	// the content of a file, which no event tells, and many may pass at once: nothing waits for room before a handler is
	// called.
	briefAbove = 64 << 10
	// unwatchedBriefAbove is the same while nobody watches.
	unwatchedBriefAbove = 1 << 10
	// briefLook is how far into a call is looked for the path that it is about.
	briefLook = 4 << 10
)

var resultMember = []byte(`,"result":`)

// sizeOf is how many bytes a frame is kept in.
func sizeOf(f *frame.Frame) int {
	size := len(f.Line) + len(f.Method) + len(f.ID) + len(f.SessionID)
	for _, b := range f.Rest {
		size += len(b)
	}
	return size
}

// brief shortens a large call to a handler, or its answer, to what events tell of it. It reports false if the frame is
// something else, and needed whole.
func brief(f *frame.Frame) bool {
	switch f.Direction {
	case frame.AgentToHandler:
		if !f.Scanned || f.ID == nil || f.Method == nil || bytes.HasPrefix(f.Method, []byte("session/")) || bytes.HasPrefix(f.Method, []byte("elicitation/")) {
			return false
		}
		f.Line, f.Rest, f.Brief = call(f), nil, true
		return true
	case frame.HandlerToAgent:
		// The link wrote the line: nothing but the id stands before the result, and no string holds a quote that is not escaped.
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

// call is a request without what makes it large.
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

// early is a string among a request's params, if it stands in the beginning of the line; nil: it does not.
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
