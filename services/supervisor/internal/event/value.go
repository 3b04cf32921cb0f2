package event

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc/lex"
)

// members calls f with the name and the raw value of each member of the object that b begins with, in the order they
// stand. It returns the length of the object, -1 if b begins with none. What f gets aliases b, or is a copy where a name
// had escapes. Of duplicate names the caller sees all: it keeps the last, as most parsers do.
func members(b []byte, f func(name, v []byte)) int {
	if lex.At(b, 0) != '{' {
		return -1
	}
	var n lex.Nesting
	i := lex.SkipSpace(b, 1)
	if lex.At(b, i) == '}' {
		return i + 1
	}
	for {
		name, escaped, at := lex.Member(b, lex.SkipSpace(b, i))
		if at < 0 {
			return -1
		}
		end := n.ValueEnd(b, at, 0)
		if end < 0 {
			return -1
		}
		if escaped {
			name, _ = lex.AppendUnescaped(nil, name)
		}
		f(name, b[at:end:end])
		i = lex.SkipSpace(b, end)
		switch lex.At(b, i) {
		case '}':
			return i + 1
		case ',':
			i++
		default:
			return -1
		}
	}
}

// maxElements is how many elements of an array are read: two bytes of an agent's must not become two hundred of memory
// fifty million times. An event's raw has them all.
const maxElements = 10_000

// elements calls f with the raw elements of an array, the first 10,000, and tells whether b is one.
func elements(b []byte, f func(v []byte)) bool {
	if lex.At(b, 0) != '[' {
		return false
	}
	var n lex.Nesting
	i := lex.SkipSpace(b, 1)
	if lex.At(b, i) == ']' {
		return true
	}
	read := 0
	for {
		i = lex.SkipSpace(b, i)
		end := n.ValueEnd(b, i, 0)
		if end < 0 {
			return false
		}
		f(b[i:end:end])
		if read++; read == maxElements {
			return true
		}
		i = lex.SkipSpace(b, end)
		switch lex.At(b, i) {
		case ']':
			return true
		case ',':
			i++
		default:
			return false
		}
	}
}

// enter returns the index of the value of the first member of that name in the object at b[i], -1 if there is none. What
// comes behind it is not looked at.
func enter(b []byte, i int, want string) int {
	if lex.At(b, i) != '{' {
		return -1
	}
	var n lex.Nesting
	for i++; ; i++ {
		name, escaped, at := lex.Member(b, lex.SkipSpace(b, i))
		if at < 0 {
			return -1
		}
		if escaped {
			name, _ = lex.AppendUnescaped(nil, name)
		}
		if string(name) == want {
			return at
		}
		end := n.ValueEnd(b, at, 0)
		if end < 0 {
			return -1
		}
		if i = lex.SkipSpace(b, end); lex.At(b, i) != ',' {
			return -1
		}
	}
}

// get is the raw value at a path of members, nil where there is none.
func get(b []byte, path ...string) []byte {
	for _, want := range path {
		var found []byte
		members(b, func(name, v []byte) {
			if string(name) == want {
				found = v
			}
		})
		if found == nil {
			return nil
		}
		b = found
	}
	return b
}

func isObject(v []byte) bool { return lex.At(v, 0) == '{' }
func isArray(v []byte) bool  { return lex.At(v, 0) == '[' }
func isNull(v []byte) bool   { return lex.At(v, 0) == 'n' }

// isTrue tells whether v is true: anything else is not.
func isTrue(v []byte) bool { return lex.At(v, 0) == 't' }

// text returns the string that v is, and whether it is one. What is not UTF-8 in it, halves of surrogate pairs among them,
// is replaced: protobuf's strings are UTF-8, and an agent that cuts its text between the two has not said less for it.
func text(v []byte) (string, bool) {
	if len(v) < 2 || v[0] != '"' {
		return "", false
	}
	body := v[1 : len(v)-1]
	if bytes.IndexByte(body, '\\') < 0 {
		return raw(body), true
	}
	body, paired := lex.AppendUnescaped(nil, body)
	if paired {
		return raw(body), true
	}
	return strings.ToValidUTF8(string(body), "\uFFFD"), true
}

// textOf is text, with "" for what is no string.
func textOf(v []byte) string {
	s, _ := text(v)
	return s
}

// optionalText is text for a member that may be absent: nil for what is no string.
func optionalText(v []byte) *string {
	if s, ok := text(v); ok {
		return &s
	}
	return nil
}

// texts returns the strings of an array; what is none is left out.
func texts(v []byte) []string {
	var out []string
	elements(v, func(v []byte) {
		if s, ok := text(v); ok {
			out = append(out, s)
		}
	})
	return out
}

// raw is v itself as a string; what is not UTF-8 in it is replaced.
func raw(v []byte) string {
	if utf8.Valid(v) {
		return string(v)
	}
	return strings.ToValidUTF8(string(v), "\uFFFD")
}

// rawValue is raw for a member that may be absent: null counts as that.
func rawValue(v []byte) string {
	if isNull(v) {
		return ""
	}
	return raw(v)
}

// rawObject is raw for a member that has to be an object, as _meta: anything else counts as absent.
func rawObject(v []byte) string {
	if !isObject(v) {
		return ""
	}
	return raw(v)
}

// number returns the number that v is, and whether it is one that a float64 holds.
func number(v []byte) (float64, bool) {
	if c := lex.At(v, 0); c != '-' && (c < '0' || c > '9') {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(v), 64)
	return n, err == nil && !math.IsInf(n, 0)
}

// unsigned returns the whole number that v is, and whether it is one of at most bits bits, however it is spelled.
func unsigned(v []byte, bits int) (uint64, bool) {
	if n, err := strconv.ParseUint(string(v), 10, bits); err == nil {
		return n, true
	}
	f, ok := number(v)
	if !ok || f < 0 || f != math.Trunc(f) || f > 1<<53 || f >= math.Ldexp(1, bits) {
		return 0, false
	}
	return uint64(f), true
}

// signed is unsigned for a number that may be negative.
func signed(v []byte, bits int) (int64, bool) {
	if n, err := strconv.ParseInt(string(v), 10, bits); err == nil {
		return n, true
	}
	f, ok := number(v)
	limit := math.Ldexp(1, bits-1)
	if !ok || f != math.Trunc(f) || math.Abs(f) > 1<<53 || f >= limit || f < -limit {
		return 0, false
	}
	return int64(f), true
}

// count is unsigned, with 0 for what is none.
func count(v []byte) uint64 {
	n, _ := unsigned(v, 64)
	return n
}

// shortened cuts text to n bytes of whole characters, the mark that it did among them.
func shortened(s string, n int) string {
	const mark = "…"
	if len(s) <= n {
		return s
	}
	n -= len(mark)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}

// joined is a frame's line in one piece.
func joined(line []byte, rest [][]byte) []byte {
	if len(rest) == 0 {
		return line
	}
	return slices.Concat(append([][]byte{line}, rest...)...)
}
