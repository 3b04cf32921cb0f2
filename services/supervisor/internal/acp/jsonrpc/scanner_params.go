package jsonrpc

import "github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"

// params scans the rest of the params object, after its brace, and stores the session's id and the update. It returns
// the index after the object, or a negative number as lex does.
func (s *Scanner) params(b []byte, i int, m *Message, st *state) (next int) {
	for first := true; ; first = false {
		if i = lex.SkipSpace(b, i); first && lex.At(b, i) == '}' {
			return i + 1
		}
		key, escaped, at := lex.Member(b, i)
		if at < 0 {
			return at
		}
		n, exact := paramName(key, escaped)
		switch {
		case n == paramSession && exact && lex.At(b, at) == '"':
			next, m.SessionID = scanText(b, at, &st.found.session, &st.copied)
		case n == paramUpdate && exact && lex.At(b, at) == '{':
			next = s.update(b, at+1, m, st)
		default:
			next = s.nesting.ValueEnd(b, at, 2)
		}
		if next < 0 {
			return next
		}
		switch n {
		case paramSession:
			if st.sessions++; st.sessions > 1 {
				st.fault("ambiguous params: the name %q occurs twice, in whatever case", "sessionId")
			}
		case paramUpdate:
			if st.updates++; st.updates > 1 {
				st.fault("ambiguous params: the name %q occurs twice, in whatever case", "update")
			}
		}
		if i = next; lex.At(b, i) != ',' && lex.At(b, i) != '}' {
			i = lex.SkipSpace(b, i)
		}
		if c := lex.At(b, i); c == '}' {
			return i + 1
		} else if c != ',' {
			return ^i
		}
		i++
	}
}

// update scans the rest of params.update, after its brace, and stores the kind of update. It returns the index after
// the object, or a negative number as lex does.
func (s *Scanner) update(b []byte, i int, m *Message, st *state) (next int) {
	for first := true; ; first = false {
		if i = lex.SkipSpace(b, i); first && lex.At(b, i) == '}' {
			return i + 1
		}
		key, escaped, at := lex.Member(b, i)
		if at < 0 {
			return at
		}
		kind, exact := matches(key, escaped, "sessionUpdate")
		if kind && exact && lex.At(b, at) == '"' {
			next, m.Update = scanText(b, at, &st.found.update, &st.copied)
		} else {
			if string(key) == "content" && lex.At(b, at) == '{' {
				st.content = at
			}
			next = s.nesting.ValueEnd(b, at, 3)
		}
		if kind {
			if st.kinds++; st.kinds > 1 {
				st.fault("ambiguous params: the name %q occurs twice, in whatever case", "sessionUpdate")
			}
		}
		if next < 0 {
			return next
		}
		if i = next; lex.At(b, i) != ',' && lex.At(b, i) != '}' {
			i = lex.SkipSpace(b, i)
		}
		if c := lex.At(b, i); c == '}' {
			return i + 1
		} else if c != ',' {
			return ^i
		}
		i++
	}
}

// scanText checks the string literal at i, and returns its decoded form, and its position if it is not a copy.
func scanText(b []byte, i int, at *span, copied *bool) (next int, text []byte) {
	next, escaped, _ := lex.StringEnd(b, i+1)
	if next < 0 {
		return next, nil
	}
	if escaped {
		*at, *copied = span{}, true
		return next, unquote(b[i:next])
	}
	*at = span{i + 1, next - 1}
	return next, at.of(b)
}
