package event

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

// members calls f with the name and the raw value of each member of the object at the start of b, in order. It returns
// the length of the object, or a negative number if none exists. The arguments of f alias b, or are a copy if a name
// has escapes. f gets all members with the same name: it keeps the last, as most parsers do.
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

// read decodes the members of the object v. fields are the members' names, each followed by the target: a *string or a
// *uint64 (set to the zero value for a value of another type), a *[]byte (the raw value), or a func with the raw value.
// It returns the same as members, and is slower: it is not for very frequent messages.
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

// listOf decodes an array with a function for an element, and omits elements for which that returns nil.
func listOf[T any](v []byte, one func(v []byte) *T) []*T {
	var out []*T
	elements(v, func(v []byte) {
		if e := one(v); e != nil {
			out = append(out, e)
		}
	})
	return out
}

// where returns v if ok, else nil.
func where[T any](ok bool, v *T) *T {
	if !ok {
		return nil
	}
	return v
}

// maxElements is the limit of decoded elements of an array: two bytes from an agent must not become two hundred bytes
// of memory fifty million times. The raw JSON of an event has all elements.
const maxElements = 10_000

// elements calls f with the first 10,000 raw elements of an array.
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

// isTrue reports whether v is true.
func isTrue(v []byte) bool { return lex.At(v, 0) == 't' }

// textOf is acp.String, with "" for a value that is not a string.
func textOf(v []byte) string {
	s, _ := acp.String(v)
	return s
}

// optionalText is textOf for a member that may be absent: nil for a value that is not a string.
func optionalText(v []byte) *string {
	if s, ok := acp.String(v); ok {
		return &s
	}
	return nil
}

// texts returns the strings of an array. It omits other elements.
func texts(v []byte) []string {
	var out []string
	elements(v, func(v []byte) {
		if s, ok := acp.String(v); ok {
			out = append(out, s)
		}
	})
	return out
}

// raw returns v as a string, with invalid UTF-8 replaced.
func raw(v []byte) string {
	if utf8.Valid(v) {
		return string(v)
	}
	return strings.ToValidUTF8(string(v), "\uFFFD")
}

// rawValue is raw for a member that may be absent: null counts as absent.
func rawValue(v []byte) string {
	if isNull(v) {
		return ""
	}
	return raw(v)
}

// rawObject is raw for a member that must be an object, such as _meta: other values count as absent.
func rawObject(v []byte) string {
	if !isObject(v) {
		return ""
	}
	return raw(v)
}

// unsigned returns v as a whole number, and whether it is one of at most bits bits, in any spelling.
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

// count is unsigned, with 0 for other values.
func count(v []byte) uint64 {
	n, _ := unsigned(v, 64)
	return n
}

// joined returns a frame's line in one piece.
func joined(line []byte, rest [][]byte) []byte {
	if len(rest) == 0 {
		return line
	}
	return slices.Concat(append([][]byte{line}, rest...)...)
}
