package event

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc/lex"
)

// members calls f with the name and the raw value of each member of the object that b begins with, in the order they
// stand. It returns the length of the object, or a negative number if b begins with none. What f gets aliases b, or is a
// copy where a name had escapes. Of duplicate names the caller sees all: it keeps the last, as most parsers do.
func members(b []byte, f func(name, v []byte)) int {
	var n lex.Nesting
	return lex.Object(b, 0, func(name []byte, at int) int {
		end := n.ValueEnd(b, at, 0)
		if end >= 0 {
			f(name, b[at:end:end])
		}
		return end
	})
}

// read sets what the members of the object v say. fields are the members' names, each followed by where its value goes: a
// *string or a *uint64 (its zero value for a value of another type), a *[]byte (the raw value), or a func that takes the raw
// value. It returns what members returns, and costs more: it is not for what comes by the hundred thousand.
func read(v []byte, fields ...any) int {
	return members(v, func(name, v []byte) {
		for i := 0; i < len(fields); i += 2 {
			if string(name) != fields[i].(string) {
				continue
			}
			switch to := fields[i+1].(type) {
			case *string:
				*to = textOf(v)
			case *uint64:
				*to = count(v)
			case *[]byte:
				*to = v
			case func(v []byte):
				to(v)
			}
		}
	})
}

// listOf reads an array with one that reads an element, and leaves out those for which it returns nil.
func listOf[T any](v []byte, one func(v []byte) *T) []*T {
	var out []*T
	elements(v, func(v []byte) {
		if e := one(v); e != nil {
			out = append(out, e)
		}
	})
	return out
}

// where returns v if ok, and else nil.
func where[T any](ok bool, v *T) *T {
	if !ok {
		return nil
	}
	return v
}

// maxElements is how many elements of an array are read: two bytes of an agent's must not become two hundred of memory
// fifty million times. An event's raw has them all.
const maxElements = 10_000

// elements calls f with the raw elements of an array, the first 10,000.
func elements(b []byte, f func(v []byte)) {
	var n lex.Nesting
	read := 0
	lex.Array(b, 0, func(at int) int {
		end := n.ValueEnd(b, at, 0)
		if end < 0 {
			return end
		}
		f(b[at:end:end])
		if read++; read == maxElements {
			return lex.Stop
		}
		return end
	})
}

func isObject(v []byte) bool { return lex.At(v, 0) == '{' }
func isArray(v []byte) bool  { return lex.At(v, 0) == '[' }
func isNull(v []byte) bool   { return lex.At(v, 0) == 'n' }

// isTrue reports whether v is true: anything else is not.
func isTrue(v []byte) bool { return lex.At(v, 0) == 't' }

// textOf is acp.String, with "" for what is no string.
func textOf(v []byte) string {
	s, _ := acp.String(v)
	return s
}

// optionalText is text for a member that may be absent: nil for what is no string.
func optionalText(v []byte) *string {
	if s, ok := acp.String(v); ok {
		return &s
	}
	return nil
}

// texts returns the strings of an array; what is none is left out.
func texts(v []byte) []string {
	var out []string
	elements(v, func(v []byte) {
		if s, ok := acp.String(v); ok {
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

// unsigned returns the whole number that v is, and whether it is one of at most bits bits, however it is spelled.
func unsigned(v []byte, bits int) (uint64, bool) {
	if n, err := strconv.ParseUint(string(v), 10, bits); err == nil {
		return n, true
	}
	f, ok := acp.Number(v)
	if !ok || f < 0 || f != math.Trunc(f) || f > 1<<53 || f >= math.Ldexp(1, bits) {
		return 0, false
	}
	return uint64(f), true
}

// count is unsigned, with 0 for what is none.
func count(v []byte) uint64 {
	n, _ := unsigned(v, 64)
	return n
}

// joined is a frame's line in one piece.
func joined(line []byte, rest [][]byte) []byte {
	if len(rest) == 0 {
		return line
	}
	return slices.Concat(append([][]byte{line}, rest...)...)
}
