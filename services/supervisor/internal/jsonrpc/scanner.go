package jsonrpc

import (
	"fmt"
	"math"
)

// maxDepth is how deep arrays and objects may nest in a message.
const maxDepth = 10000

// tooDeep is the index that stands for passing maxDepth.
const tooDeep = math.MinInt

// A Scanner checks lines and finds in them what routing needs, in one pass and, unless a name or a remembered string is
// escaped, without allocating. The zero value is ready. It is not safe for concurrent use.
//
// A line must be one JSON text in the strict grammar of RFC 8259, with white space before and after it as it likes;
// arrays and objects may nest 10,000 deep. Beyond the grammar it is lenient where messages only pass through: bytes
// that are not UTF-8 and surrogate escapes that pair with nothing are the receiver's to judge. A byte order mark is not
// JSON.
type Scanner struct {
	spill []uint64 // outer levels of nesting, 64 to a word: 1 is an object
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
	i := skipSpace(line, 0)
	switch at(line, i) {
	case '{':
		return s.envelope(line, i+1, m)
	case '[':
		if i = s.value(line, i, 0); i >= 0 {
			i = textEnd(line, i)
		}
		if i < 0 {
			return syntaxError(line, i)
		}
		m.Kind = KindBatch
		return nil
	}
	if i = s.value(line, i, 0); i >= 0 {
		i = textEnd(line, i)
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
		if i = skipSpace(b, i); first && at(b, i) == '}' {
			i++
			break
		}
		key, escaped, next := memberName(b, i)
		if next < 0 {
			return syntaxError(b, next)
		}
		n, exact := envelopeName(key, escaped)
		i = next
		if n == nameParams && at(b, i) == '{' {
			var p string
			if next, p = s.params(b, i+1, m); p != "" && problem == "" {
				problem = p
			}
		} else {
			next = s.value(b, i, 1)
		}
		if next < 0 {
			return syntaxError(b, next)
		}
		value := b[i:next:next]
		if i = next; at(b, i) != ',' && at(b, i) != '}' {
			i = skipSpace(b, i)
		}
		last := at(b, i) == '}'
		if !last && at(b, i) != ',' {
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
	if i = textEnd(b, i); i < 0 {
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
		if i = skipSpace(b, i); first && at(b, i) == '}' {
			return i + 1, problem
		}
		key, escaped, next := memberName(b, i)
		if next < 0 {
			return next, ""
		}
		i = next
		session, sessionExact := matches(key, escaped, "sessionId")
		update, updateExact := matches(key, escaped, "update")
		if updateExact && at(b, i) == '{' {
			var p string
			if next, p = s.update(b, i+1, m); p != "" && problem == "" {
				problem = p
			}
		} else {
			next = s.value(b, i, 2)
		}
		if next < 0 {
			return next, ""
		}
		if session {
			if sessions++; sessions > 1 && problem == "" {
				problem = `ambiguous params: the name "sessionId" occurs twice, in whatever case`
			}
			if sessionExact && b[i] == '"' {
				m.SessionID = unquote(b[i:next])
			}
		}
		if update {
			if updates++; updates > 1 && problem == "" {
				problem = `ambiguous params: the name "update" occurs twice, in whatever case`
			}
		}
		i = next
		if at(b, i) != ',' && at(b, i) != '}' {
			i = skipSpace(b, i)
		}
		if c := at(b, i); c == '}' {
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
		if i = skipSpace(b, i); first && at(b, i) == '}' {
			return i + 1, problem
		}
		key, escaped, next := memberName(b, i)
		if next < 0 {
			return next, ""
		}
		i = next
		kind, exact := matches(key, escaped, "sessionUpdate")
		if next = s.value(b, i, 3); next < 0 {
			return next, ""
		}
		if kind {
			if kinds++; kinds > 1 && problem == "" {
				problem = `ambiguous params: the name "sessionUpdate" occurs twice, in whatever case`
			}
			if exact && b[i] == '"' {
				m.Update = unquote(b[i:next])
			}
		}
		i = next
		if at(b, i) != ',' && at(b, i) != '}' {
			i = skipSpace(b, i)
		}
		if c := at(b, i); c == '}' {
			return i + 1, problem
		} else if c != ',' {
			return ^i, ""
		}
		i++
	}
}

// memberName scans a member's name at i and the colon after it, and returns the name's body, whether it is escaped, and the
// index of its value.
func memberName(b []byte, i int) (key []byte, escaped bool, next int) {
	if at(b, i) != '"' {
		return nil, false, ^i
	}
	end, escaped := stringEnd(b, i+1)
	if end < 0 {
		return nil, false, end
	}
	key = b[i+1 : end-1]
	if at(b, end) != ':' {
		if end = skipSpace(b, end); at(b, end) != ':' {
			return nil, false, ^end
		}
	}
	end++
	if at(b, end) <= ' ' {
		end = skipSpace(b, end)
	}
	return key, escaped, end
}

// textEnd returns len(b) if only white space is left.
func textEnd(b []byte, i int) int {
	if i = skipSpace(b, i); i < len(b) {
		return ^i
	}
	return i
}

// value checks the value that starts at i, inside of depth arrays and objects, and returns the index after it. A
// negative index is the complement of where it is wrong, or tooDeep.
func (s *Scanner) value(b []byte, i, depth int) int {
	var inner uint64 // the innermost levels: 1 is an object
	n := 0           // levels opened here
	s.spill = s.spill[:0]

value:
	switch c := at(b, i); c {
	case '"':
		if i, _ = stringEnd(b, i+1); i < 0 {
			return i
		}
	case '{', '[':
		if depth+n >= maxDepth {
			return tooDeep
		}
		if n > 0 && n&63 == 0 {
			s.spill = append(s.spill, inner)
			inner = 0
		}
		n++
		inner <<= 1
		i++
		if at(b, i) <= ' ' {
			i = skipSpace(b, i)
		}
		if c == '{' {
			inner |= 1
			if at(b, i) != '}' {
				goto key
			}
		} else if at(b, i) != ']' {
			goto value
		}
		i++
		goto pop
	case 't':
		if i+4 > len(b) || string(b[i:i+4]) != "true" {
			return ^i
		}
		i += 4
	case 'f':
		if i+5 > len(b) || string(b[i:i+5]) != "false" {
			return ^i
		}
		i += 5
	case 'n':
		if i+4 > len(b) || string(b[i:i+4]) != "null" {
			return ^i
		}
		i += 4
	default:
		if i = numberEnd(b, i); i < 0 {
			return i
		}
	}

after:
	if n == 0 {
		return i
	}
	if at(b, i) <= ' ' {
		i = skipSpace(b, i)
	}
	switch at(b, i) {
	case ',':
		i++
		if at(b, i) <= ' ' {
			i = skipSpace(b, i)
		}
		if inner&1 == 0 {
			goto value
		}
		goto key
	case '}':
		if inner&1 == 0 {
			return ^i
		}
	case ']':
		if inner&1 != 0 {
			return ^i
		}
	default:
		return ^i
	}
	i++

pop:
	n--
	inner >>= 1
	if n > 0 && n&63 == 0 {
		inner = s.spill[len(s.spill)-1]
		s.spill = s.spill[:len(s.spill)-1]
	}
	goto after

key:
	if _, _, i = memberName(b, i); i < 0 {
		return i
	}
	goto value
}

// numberEnd checks the number at i and returns the index after it, or the complement of where it is wrong.
func numberEnd(b []byte, i int) int {
	if at(b, i) == '-' {
		i++
	}
	switch c := at(b, i); {
	case c == '0':
		i++
	case '1' <= c && c <= '9':
		i = digitsEnd(b, i)
	default:
		return ^i
	}
	if at(b, i) == '.' {
		from := i + 1
		if i = digitsEnd(b, from); i == from {
			return ^i
		}
	}
	if at(b, i)|0x20 == 'e' {
		i++
		if c := at(b, i); c == '+' || c == '-' {
			i++
		}
		from := i
		if i = digitsEnd(b, from); i == from {
			return ^i
		}
	}
	return i
}

func digitsEnd(b []byte, i int) int {
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i
}

// unquote returns what a valid string literal stands for: a part of it, or a copy if it has escapes. Never nil.
func unquote(literal []byte) []byte {
	body := literal[1 : len(literal)-1]
	for i := range body {
		if body[i] == '\\' {
			return appendUnescaped(make([]byte, 0, len(body)), body)
		}
	}
	return body[:len(body):len(body)]
}

func syntaxError(b []byte, i int) *Error {
	if i == tooDeep {
		return &Error{Code: CodeParse, Message: fmt.Sprintf("invalid JSON: nested deeper than %d", maxDepth)}
	}
	i = ^i
	if i >= len(b) {
		return &Error{Code: CodeParse, Message: fmt.Sprintf("invalid JSON: it ends early, after %d bytes", len(b))}
	}
	return &Error{Code: CodeParse, Message: fmt.Sprintf("invalid JSON: unexpected %q at byte %d", b[i:i+1], i+1)}
}
