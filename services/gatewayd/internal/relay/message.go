package relay

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Kind is the kind of a message.
type Kind int

// The kinds.
const (
	// Invalid is an object of no other kind.
	Invalid Kind = iota
	// Request has a method and an id.
	Request
	// Notification has a method and no id.
	Notification
	// Response has an id, and a result or an error.
	Response
)

// Message holds the parts of a message that its routing needs.
type Message struct {
	Kind   Kind
	Method string
	// ID is the id as a map key: ids that are equal as JSON values have equal keys. Empty if the id is missing or its
	// type is invalid.
	ID string
	// RawID is the id as received.
	RawID []byte
	// Session is params.sessionId, if HasSession.
	Session    string
	HasSession bool
}

// idNull is the key of the id null.
const idNull = "null"

var (
	// ErrBatch means that a message is an array: ACP has no batches.
	ErrBatch = errors.New("JSON-RPC batches are not supported")
	// ErrNoObject means that a message is neither an object nor an array.
	ErrNoObject = errors.New("a JSON-RPC message is an object")
)

// lenient are options like those of JSON.parse: of members with the same name, the last counts.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// Read parses a message: exactly one JSON value.
func Read(frame []byte) (Message, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(frame), lenient...)
	switch d.PeekKind() {
	case '{':
	case '[':
		if err := whole(d); err != nil {
			return Message{}, err
		}
		return Message{}, ErrBatch
	default:
		if err := whole(d); err != nil {
			return Message{}, err
		}
		return Message{}, ErrNoObject
	}
	var m Message
	var method, answered bool
	err := members(d, func(name string) error {
		switch name {
		case "method":
			text, ok, err := textValue(d)
			m.Method, method = text, ok
			return err
		case "id":
			v, err := d.ReadValue()
			m.RawID = bytes.Clone(v)
			m.ID = idKey(m.RawID)
			return err
		case "params":
			m.Session, m.HasSession = "", false
			if d.PeekKind() != '{' {
				return d.SkipValue()
			}
			return members(d, func(name string) error {
				if name != "sessionId" {
					return d.SkipValue()
				}
				text, ok, err := textValue(d)
				m.Session, m.HasSession = text, ok
				return err
			})
		case "result", "error":
			answered = true
		}
		return d.SkipValue()
	})
	if err == nil {
		err = atEnd(d)
	}
	switch {
	case err != nil:
		return Message{}, err
	case method && m.RawID != nil:
		m.Kind = Request
	case method:
		m.Kind = Notification
	case m.RawID != nil && answered:
		m.Kind = Response
	}
	return m, nil
}

// members calls f for each member of the next object. f reads the value.
func members(d *jsontext.Decoder, f func(name string) error) error {
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for {
		switch d.PeekKind() {
		case '"':
			name, err := d.ReadToken()
			if err != nil {
				return err
			}
			if err := f(name.String()); err != nil {
				return err
			}
		default: // the end, or an error
			_, err := d.ReadToken()
			return err
		}
	}
}

// textValue reads a value; ok reports whether it is a string.
func textValue(d *jsontext.Decoder) (text string, ok bool, err error) {
	if d.PeekKind() != '"' {
		return "", false, d.SkipValue()
	}
	t, err := d.ReadToken()
	if err != nil {
		return "", false, err
	}
	return t.String(), true, nil
}

func whole(d *jsontext.Decoder) error {
	if err := d.SkipValue(); err != nil {
		return err
	}
	return atEnd(d)
}

// atEnd returns an error if anything follows.
func atEnd(d *jsontext.Decoder) error {
	switch _, err := d.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return errors.New("more than one JSON value")
}

// idKey returns the map key of an id.
func idKey(raw []byte) string {
	switch jsontext.Value(raw).Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, raw)
		if err != nil {
			return ""
		}
		return "s" + string(text)
	case '0':
		if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			return "n" + strconv.FormatInt(n, 10)
		}
		f, err := strconv.ParseFloat(string(raw), 64)
		if err != nil {
			return ""
		}
		if f == float64(int64(f)) {
			return "n" + strconv.FormatInt(int64(f), 10)
		}
		return "n" + strconv.FormatFloat(f, 'g', -1, 64)
	case 'n':
		return idNull
	}
	return ""
}

// Line returns a parsed message as one line. It replaces line breaks between JSON values by spaces; strings contain
// none. All other bytes stay the same, as agents get them on standard input.
func Line(message []byte) []byte {
	if bytes.IndexByte(message, '\n') < 0 {
		return message
	}
	return bytes.ReplaceAll(message, []byte{'\n'}, []byte{' '})
}

// Failure returns an error answer, with data. A nil id is null.
func Failure(id []byte, code int, message, data string) []byte {
	if id == nil {
		id = []byte(idNull)
	}
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	b = append(b, `,"error":{"code":`...)
	b = strconv.AppendInt(b, int64(code), 10)
	b = appendText(append(b, `,"message":`...), message)
	b = appendText(append(b, `,"data":`...), data)
	return append(b, "}}"...)
}

func appendText(b []byte, text string) []byte {
	b, _ = jsontext.AppendQuote(b, strings.ToValidUTF8(text, "\uFFFD")) // valid UTF-8 never fails
	return b
}
