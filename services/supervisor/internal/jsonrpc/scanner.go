package jsonrpc

import (
	"bytes"
	"fmt"

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
	*m = Message{Raw: line}
	i := lex.SkipSpace(line, 0)
	switch lex.At(line, i) {
	case '{':
		return s.envelope(line, i+1, m)
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
func (s *Scanner) envelope(b []byte, i int, m *Message) *Error {
	var seen [nameCount]bool
	var problem string
	for first := true; ; first = false {
		if i = lex.SkipSpace(b, i); first && lex.At(b, i) == '}' {
			i++
			break
		}
		key, escaped, next := lex.Member(b, i)
		if next < 0 {
			return syntaxError(b, next)
		}
		n, exact := envelopeName(key, escaped)
		i = next
		if n == nameParams && lex.At(b, i) == '{' {
			var p string
			if next, p = s.params(b, i+1, m); p != "" && problem == "" {
				problem = p
			}
		} else {
			next = s.nesting.ValueEnd(b, i, 1)
		}
		if next < 0 {
			return syntaxError(b, next)
		}
		value := b[i:next:next]
		if i = next; lex.At(b, i) != ',' && lex.At(b, i) != '}' {
			i = lex.SkipSpace(b, i)
		}
		last := lex.At(b, i) == '}'
		if !last && lex.At(b, i) != ',' {
			return syntaxError(b, ^i)
		}
		i++
		if n != nameOther {
			if p := m.member(n, exact, seen[n], key, value); p == "" {
				seen[n] = true
			} else if seen[n] = seen[n] || exact; problem == "" {
				problem = p
			}
		}
		if last {
			break
		}
	}
	if i = lex.TextEnd(b, i); i < 0 {
		return syntaxError(b, i)
	}
	switch {
	case seen[nameMethod] && seen[nameID]:
		m.Kind = KindRequest
	case seen[nameMethod]:
		m.Kind = KindNotification
	case seen[nameID] || seen[nameResult] || seen[nameError]:
		m.Kind = KindResponse
	case problem == "":
		problem = "a message needs a method, or an id with a result or an error"
	}
	if problem == "" && m.Method != nil && (m.Result != nil || m.Error != nil) {
		problem = "ambiguous message: a method stands beside a result or an error"
	}
	if m.Result != nil && string(m.Error) == "null" {
		m.Error = nil
	}
	if problem != "" {
		return &Error{Code: CodeInvalidRequest, Message: problem}
	}
	return nil
}

// member remembers a member of the envelope and says what is wrong with it.
func (m *Message) member(n name, exact, again bool, key, value []byte) (problem string) {
	if !exact {
		return fmt.Sprintf("ambiguous message: the name %.40q differs from %q only in case", key, n.String())
	}
	if again {
		if n == nameID {
			m.ID = nil
		}
		return fmt.Sprintf("ambiguous message: the name %q occurs twice", n.String())
	}
	switch n {
	case nameID:
		switch value[0] {
		case '{', '[', 't', 'f':
			return "the id must be a number, a string or null"
		}
		m.ID = value
	case nameMethod:
		if value[0] != '"' {
			return "the method must be a string"
		}
		m.Method = unquote(value)
	case nameParams:
		m.Params = value
	case nameResult:
		m.Result = value
	case nameError:
		m.Error = value
	}
	return ""
}

// params scans the rest of the params object, from after its brace, and remembers the session's id and the update.
func (s *Scanner) params(b []byte, i int, m *Message) (next int, problem string) {
	sessions, updates := 0, 0
	for first := true; ; first = false {
		if i = lex.SkipSpace(b, i); first && lex.At(b, i) == '}' {
			return i + 1, problem
		}
		key, escaped, next := lex.Member(b, i)
		if next < 0 {
			return next, ""
		}
		i = next
		n, exact := paramName(key, escaped)
		switch {
		case n == paramSession && exact && lex.At(b, i) == '"':
			next, m.SessionID = scanText(b, i)
		case n == paramUpdate && exact && lex.At(b, i) == '{':
			var p string
			if next, p = s.update(b, i+1, m); p != "" && problem == "" {
				problem = p
			}
		default:
			next = s.nesting.ValueEnd(b, i, 2)
		}
		if next < 0 {
			return next, ""
		}
		switch n {
		case paramSession:
			if sessions++; sessions > 1 && problem == "" {
				problem = `ambiguous params: the name "sessionId" occurs twice, in whatever case`
			}
		case paramUpdate:
			if updates++; updates > 1 && problem == "" {
				problem = `ambiguous params: the name "update" occurs twice, in whatever case`
			}
		}
		i = next
		if lex.At(b, i) != ',' && lex.At(b, i) != '}' {
			i = lex.SkipSpace(b, i)
		}
		if c := lex.At(b, i); c == '}' {
			return i + 1, problem
		} else if c != ',' {
			return ^i, ""
		}
		i++
	}
}

// update scans the rest of params.update, from after its brace, and remembers which update it is.
func (s *Scanner) update(b []byte, i int, m *Message) (next int, problem string) {
	kinds := 0
	for first := true; ; first = false {
		if i = lex.SkipSpace(b, i); first && lex.At(b, i) == '}' {
			return i + 1, problem
		}
		key, escaped, next := lex.Member(b, i)
		if next < 0 {
			return next, ""
		}
		i = next
		kind, exact := matches(key, escaped, "sessionUpdate")
		if kind && exact && lex.At(b, i) == '"' {
			next, m.Update = scanText(b, i)
		} else {
			next = s.nesting.ValueEnd(b, i, 3)
		}
		if next < 0 {
			return next, ""
		}
		if kind {
			if kinds++; kinds > 1 && problem == "" {
				problem = `ambiguous params: the name "sessionUpdate" occurs twice, in whatever case`
			}
		}
		i = next
		if lex.At(b, i) != ',' && lex.At(b, i) != '}' {
			i = lex.SkipSpace(b, i)
		}
		if c := lex.At(b, i); c == '}' {
			return i + 1, problem
		} else if c != ',' {
			return ^i, ""
		}
		i++
	}
}

// scanText checks the string literal at i, and returns what it stands for.
func scanText(b []byte, i int) (next int, text []byte) {
	next, escaped, _ := lex.StringEnd(b, i+1)
	if next < 0 {
		return next, nil
	}
	if escaped {
		return next, unquote(b[i:next])
	}
	return next, b[i+1 : next-1 : next-1]
}

// unquote returns what a valid string literal stands for: a part of it, or a copy if it has escapes. Never nil.
func unquote(literal []byte) []byte {
	body := literal[1 : len(literal)-1]
	if bytes.IndexByte(body, '\\') >= 0 {
		text, _ := lex.AppendUnescaped(make([]byte, 0, len(body)), body)
		return text
	}
	return body[:len(body):len(body)]
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
