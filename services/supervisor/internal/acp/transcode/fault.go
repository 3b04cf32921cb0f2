package transcode

import (
	"fmt"
	"unicode/utf8"

	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

// fault is an error in params, with its position.
type fault struct {
	code    int
	path    string
	message string
}

func badParams(format string, args ...any) *fault {
	return &fault{code: jsonrpc.CodeInvalidParams, message: fmt.Sprintf(format, args...)}
}

func ambiguous(format string, args ...any) *fault {
	return &fault{code: jsonrpc.CodeInvalidRequest, message: "ambiguous params: " + fmt.Sprintf(format, args...)}
}

// in prefixes the position of the fault with a member.
func (f *fault) in(name string) *fault {
	if len(name) > maxQuoted {
		name = clip([]byte(name))
	}
	switch {
	case f.path == "":
		f.path = name
	case f.path[0] == '[':
		f.path = name + f.path
	default:
		f.path = name + "." + f.path
	}
	return f
}

// atIndex prefixes the position of the fault with an element.
func (f *fault) atIndex(i int) *fault {
	return f.in(fmt.Sprintf("[%d]", i))
}

func (f *fault) error() *jsonrpc.Error {
	message := f.message
	if f.path != "" {
		message = f.path + ": " + message
	}
	return &jsonrpc.Error{Code: f.code, Message: message}
}

// maxQuoted limits the bytes of a wrong value in an error.
const maxQuoted = 40

// got describes the value at i for an error.
func (e *encoder) got(i int) string {
	end := e.nesting.ValueEnd(e.b, i, 0)
	if end < 0 {
		return "invalid JSON"
	}
	switch e.b[i] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	v := e.b[i:end]
	if len(v) > maxQuoted {
		return clip(v)
	}
	return string(v)
}

// clip cuts a long text between characters.
func clip(v []byte) string {
	n := maxQuoted
	for n > 0 && !utf8.RuneStart(v[n]) {
		n--
	}
	return string(v[:n]) + "…"
}

// syntax returns the fault for text that is not JSON. The scanner of the message should have rejected it.
func syntax(next int) *fault {
	if next == lex.TooDeep {
		return badParams("nested too deep")
	}
	return badParams("invalid JSON at byte %d of the params", ^next+1)
}
