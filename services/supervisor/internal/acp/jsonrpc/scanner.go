package jsonrpc

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

// A Scanner validates lines and finds the members that routing needs, in one pass and, unless a name or a stored string
// is escaped, without allocating. The zero value is ready. It is not safe for concurrent use.
//
// A line must be one JSON text in the strict grammar of RFC 8259, with any white space before and after it. Arrays and
// objects may nest 10,000 deep. Beyond the grammar it is lenient, because messages may only be forwarded: it accepts
// invalid UTF-8 and unpaired surrogate escapes, which the receiver has to handle. A byte order mark is invalid.
type Scanner struct {
	nesting lex.Nesting
	last    pattern
}

// state is the state of the scan of one message.
type state struct {
	seen                     [nameCount]bool
	problem                  string // the first problem of a line that is valid JSON
	sessions, updates, kinds int    // occurrences of each name of the params that is stored
	found                    spans
	copied                   bool // a stored string is a copy, and does not alias the line
	content                  int  // index of the update's content, if that is an object
}

// spans are the positions of the members of a line.
type spans struct{ id, method, params, session, update span }

// span is a part of a line. Negative ends count from the end of the line. No value starts at 0, so the zero span means
// that none exists.
type span struct{ from, to int }

func (s span) of(line []byte) []byte {
	if s.to == 0 {
		return nil
	}
	if s.from < 0 {
		s.from += len(line)
	}
	if s.to < 0 {
		s.to += len(line)
	}
	return line[s.from:s.to:s.to]
}

// fault stores the first problem.
func (st *state) fault(format string, args ...any) {
	if st.problem == "" {
		st.problem = fmt.Sprintf(format, args...)
	}
}

// Scan validates one line and fills m. The error is CodeParse if the line is not JSON. It is CodeInvalidRequest if it
// is JSON but not a message, or a message that parsers could read differently:
//   - a name of the envelope (jsonrpc, id, method, params, result, error) occurs twice, or in another case; Unicode's
//     simple case folding counts, as in encoding/json;
//   - sessionId or update in params, or sessionUpdate in params.update, occurs more than once, in any case;
//   - a message has a method and a result or an error;
//   - the id is not a number, string or null, or the method is not a string;
//   - method, id, result and error are all missing.
//
// A missing or invalid "jsonrpc" is not an error. m.ID and, for CodeInvalidRequest, m.Kind are filled if they are
// known, also with an error. A duplicate id is not stored.
func (s *Scanner) Scan(line []byte, m *Message) *Error {
	if s.last.match(line, m) {
		return nil
	}
	*m = Message{Raw: line}
	i := lex.SkipSpace(line, 0)
	switch lex.At(line, i) {
	case '{':
		var st state
		jerr := s.envelope(line, i+1, m, &st)
		if jerr == nil && st.content > 0 && !st.copied && m.Result == nil && m.Error == nil {
			s.last.remember(m, &st)
		}
		return jerr
	case '[':
		if i = s.nesting.ValueEnd(line, i, 0); i >= 0 {
			i = lex.TextEnd(line, i)
		}
		if i < 0 {
			return syntaxError(line, i)
		}
		m.Kind = KindBatch
		return nil
	}
	if i = s.nesting.ValueEnd(line, i, 0); i >= 0 {
		i = lex.TextEnd(line, i)
	}
	if i < 0 {
		return syntaxError(line, i)
	}
	return &Error{Code: CodeInvalidRequest, Message: "a message must be a JSON object"}
}

// envelope scans the rest of the message's object, after its brace.
func (s *Scanner) envelope(b []byte, i int, m *Message, st *state) *Error {
	for first := true; ; first = false {
		if i = lex.SkipSpace(b, i); first && lex.At(b, i) == '}' {
			i++
			break
		}
		key, escaped, from := lex.Member(b, i)
		if from < 0 {
			return syntaxError(b, from)
		}
		n, exact := envelopeName(key, escaped)
		var to int
		if n == nameParams && exact && lex.At(b, from) == '{' {
			to = s.params(b, from+1, m, st)
		} else {
			to = s.nesting.ValueEnd(b, from, 1)
		}
		if to < 0 {
			return syntaxError(b, to)
		}
		if i = to; lex.At(b, i) != ',' && lex.At(b, i) != '}' {
			i = lex.SkipSpace(b, i)
		}
		last := lex.At(b, i) == '}'
		if !last && lex.At(b, i) != ',' {
			return syntaxError(b, ^i)
		}
		i++
		switch {
		case n == nameOther:
		case !exact:
			st.fault("ambiguous message: the name %.40q differs from %q only in case", key, n.String())
		default:
			m.member(n, b, span{from, to}, st)
		}
		if last {
			break
		}
	}
	if i = lex.TextEnd(b, i); i < 0 {
		return syntaxError(b, i)
	}
	return m.finish(st)
}

// finish sets the kind of the message after all members are known.
func (m *Message) finish(st *state) *Error {
	switch {
	case st.seen[nameMethod] && st.seen[nameID]:
		m.Kind = KindRequest
	case st.seen[nameMethod]:
		m.Kind = KindNotification
	case st.seen[nameID] || st.seen[nameResult] || st.seen[nameError]:
		m.Kind = KindResponse
	default:
		st.fault("a message needs a method, or an id with a result or an error")
	}
	if m.Method != nil && (m.Result != nil || m.Error != nil) {
		st.fault("ambiguous message: a method beside a result or an error")
	}
	if m.Result != nil && string(m.Error) == "null" {
		m.Error = nil
	}
	if st.problem != "" {
		return &Error{Code: CodeInvalidRequest, Message: st.problem}
	}
	return nil
}

// member stores a member of the envelope.
func (m *Message) member(n name, b []byte, at span, st *state) {
	if st.seen[n] {
		if st.fault("ambiguous message: the name %q occurs twice", n.String()); n == nameID {
			m.ID, st.found.id = nil, span{}
		}
		return
	}
	st.seen[n] = true
	value := at.of(b)
	switch n {
	case nameID:
		switch value[0] {
		case '{', '[', 't', 'f':
			st.fault("the id must be a number, a string or null")
			return
		}
		m.ID, st.found.id = value, at
	case nameMethod:
		if value[0] != '"' {
			st.fault("the method must be a string")
			return
		}
		if bytes.IndexByte(value, '\\') >= 0 {
			m.Method, st.copied = unquote(value), true
			return
		}
		st.found.method = span{at.from + 1, at.to - 1}
		m.Method = st.found.method.of(b)
	case nameParams:
		m.Params, st.found.params = value, at
	case nameResult:
		m.Result = value
	case nameError:
		m.Error = value
	}
}

// unquote returns the decoded form of a valid string literal: a part of it, or a copy if it has escapes. It is never
// nil.
func unquote(literal []byte) []byte {
	body := literal[1 : len(literal)-1]
	if bytes.IndexByte(body, '\\') >= 0 {
		text, _ := lex.AppendUnescaped(make([]byte, 0, len(body)), body)
		return text
	}
	return slices.Clip(body)
}

func syntaxError(b []byte, i int) *Error {
	if i == lex.TooDeep {
		return &Error{Code: CodeParse, Message: fmt.Sprintf("invalid JSON: nested deeper than %d", lex.MaxDepth)}
	}
	i = ^i
	if i >= len(b) {
		return &Error{Code: CodeParse, Message: fmt.Sprintf("invalid JSON: it ends early, after %d bytes", len(b))}
	}
	return &Error{Code: CodeParse, Message: fmt.Sprintf("invalid JSON: unexpected %q at byte %d", b[i:i+1], i+1)}
}
