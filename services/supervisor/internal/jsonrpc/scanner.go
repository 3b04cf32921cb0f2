package jsonrpc

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc/lex"
)

// A Scanner checks lines and finds in them what routing needs, in one pass and, unless a name or a remembered string is
// escaped, without allocating. The zero value is ready. It is not safe for concurrent use.
//
// A line must be one JSON text in the strict grammar of RFC 8259, with white space before and after it as it likes;
// arrays and objects may nest 10,000 deep. Beyond the grammar it is lenient where messages only pass through: bytes
// that are not UTF-8 and surrogate escapes that pair with nothing are the receiver's to judge. A byte order mark is not
// JSON.
type Scanner struct {
	nesting lex.Nesting
	last    pattern
}

// state is what is known at some place of a message.
type state struct {
	seen                     [nameCount]bool
	problem                  string // the first thing that is wrong with what is valid JSON
	sessions, updates, kinds int    // how often each name of the params that is remembered occurred
	found                    spans
	copied                   bool // something that was found is no part of the line
	content                  int  // where the content of the update starts, if that is an object
}

// spans are what was found in a line.
type spans struct{ id, method, params, session, update span }

// span is a part of a line, its ends counted from the line's end where they are negative. No value starts at 0, so the zero
// span is nothing.
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

// fault keeps the first problem.
func (st *state) fault(format string, args ...any) {
	if st.problem == "" {
		st.problem = fmt.Sprintf(format, args...)
	}
}

// Scan checks one line and fills m. The error is CodeParse if the line is not JSON, and CodeInvalidRequest if it is JSON
// but is no message, or one that two parsers could read differently:
//   - a name of the envelope (jsonrpc, id, method, params, result, error) occurs twice, or in another case; Unicode's
//     simple case folding counts, as in encoding/json;
//   - sessionId or update in params, or sessionUpdate in params.update, occurs more than once, in whatever case;
//   - a method stands beside a result or an error;
//   - the id is no number, string or null, or the method is no string;
//   - there is none of method, id, result and error.
//
// A missing or odd "jsonrpc" is no error. m.ID and, for CodeInvalidRequest, m.Kind are filled as far as they could be
// told, also on error; an id that occurs twice is not.
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

// envelope scans the rest of the message's object, from after its brace.
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

// finish says what kind of message it is, now that all members are known.
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
		st.fault("ambiguous message: a method stands beside a result or an error")
	}
	if m.Result != nil && string(m.Error) == "null" {
		m.Error = nil
	}
	if st.problem != "" {
		return &Error{Code: CodeInvalidRequest, Message: st.problem}
	}
	return nil
}

// member remembers a member of the envelope.
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

// unquote returns what a valid string literal stands for: a part of it, or a copy if it has escapes. Never nil.
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
