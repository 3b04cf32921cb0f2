package relay

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// maxEnvelope bounds each name and value that an Envelope keeps, in bytes.
const maxEnvelope = 1 << 10

// Envelope extracts the id and the method of a JSON-RPC message that is too large to keep. It is an io.Writer for the
// pieces of the message, and keeps at most 2 KiB. For invalid JSON, the results are undefined. The zero value is ready.
type Envelope struct {
	// ID is the id as JSON; Method is the method as JSON, with its quotes. Nil: missing, or too long.
	ID, Method []byte

	depth   int
	text    bool // in a string
	escaped bool // after a backslash
	token   []byte
	name    []byte // of the member whose value is read; nil: a name is read
}

// Write reads a piece. It never fails.
func (e *Envelope) Write(piece []byte) (int, error) {
	for _, b := range piece {
		e.read(b)
	}
	return len(piece), nil
}

// Name returns the method without its quotes, for people; empty if none exists.
func (e *Envelope) Name() string {
	name, err := jsontext.AppendUnquote(nil, e.Method)
	if err != nil {
		return string(e.Method)
	}
	return string(name)
}

func (e *Envelope) read(b byte) {
	if e.text {
		e.keep(b)
		switch {
		case e.escaped:
			e.escaped = false
		case b == '\\':
			e.escaped = true
		case b == '"':
			e.text = false
		}
		return
	}
	switch b {
	case '"':
		e.text = true
		e.keep(b)
	case '{', '[':
		e.depth++
		e.token = e.token[:0]
	case '}', ']':
		e.member()
		e.depth--
	case ':':
		if e.depth == 1 {
			e.name = bytes.Clone(e.token)
			e.token = e.token[:0]
		}
	case ',':
		e.member()
	case ' ', '\t', '\r', '\n':
	default:
		e.keep(b)
	}
}

// keep appends a byte to the current name or value. It skips nested values.
func (e *Envelope) keep(b byte) {
	if e.depth == 1 && len(e.token) <= maxEnvelope {
		e.token = append(e.token, b)
	}
}

// member ends a member of the message.
func (e *Envelope) member() {
	if e.depth != 1 {
		return
	}
	if len(e.token) > 0 && len(e.token) <= maxEnvelope {
		switch string(e.name) {
		case `"id"`:
			e.ID = bytes.Clone(e.token)
		case `"method"`:
			e.Method = bytes.Clone(e.token)
		}
	}
	e.name, e.token = nil, e.token[:0]
}
