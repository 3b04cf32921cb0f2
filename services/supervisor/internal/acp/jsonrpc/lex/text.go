// Package lex implements the grammar of JSON on bytes: the end of a string, a number or a value, the decoded form of a
// string, and whether two names differ only in case. It decodes no other values, and must not know messages.
//
// A function that finds an end returns the index after it. If the text is invalid, it returns the complement (^i, which
// is negative) of the index of the first invalid byte.
package lex

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"
)

const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

// At returns b[i], or NUL past the end. NUL is never valid between JSON tokens.
func At(b []byte, i int) byte {
	if i < len(b) {
		return b[i]
	}
	return 0
}

// SkipSpace returns the index of the first byte from i on that is not JSON white space.
func SkipSpace(b []byte, i int) int {
	for i < len(b) {
		switch b[i] {
		case ' ', '\t', '\r', '\n':
			i++
		default:
			return i
		}
	}
	return i
}

// Special sets the high bit of each byte of x that ends a run of plain string bytes: a quote, a backslash or a control
// character. Bits above the lowest set one may be wrong.
func Special(x uint64) uint64 {
	// A byte is marked if the subtraction borrows from its high bit, which was clear. Flipping bit 1 moves only the
	// quote next to the control characters, so that one subtraction finds both.
	return ((x ^ lows*0x02 - lows*0x21) | (x ^ lows*'\\' - lows)) &^ x & highs
}

// PlainEnd returns the index of the first quote, backslash or control character from i on, or len(b).
func PlainEnd(b []byte, i int) int {
	for ; i+32 <= len(b); i += 32 {
		w := b[i : i+32 : i+32]
		m0 := Special(binary.LittleEndian.Uint64(w))
		if m0 != 0 {
			return i + bits.TrailingZeros64(m0)>>3
		}
		m1 := Special(binary.LittleEndian.Uint64(w[8:]))
		if m1 != 0 {
			return i + 8 + bits.TrailingZeros64(m1)>>3
		}
		m2 := Special(binary.LittleEndian.Uint64(w[16:]))
		m3 := Special(binary.LittleEndian.Uint64(w[24:]))
		if m2 != 0 {
			return i + 16 + bits.TrailingZeros64(m2)>>3
		}
		if m3 != 0 {
			return i + 24 + bits.TrailingZeros64(m3)>>3
		}
	}
	for ; i+8 <= len(b); i += 8 {
		if m := Special(binary.LittleEndian.Uint64(b[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < 0x20 {
			return i
		}
	}
	return i
}

// VisibleEnd returns the index of the first byte from i on that is a backslash or not printable ASCII, or len(b). A
// space is printable.
func VisibleEnd(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		// The high bit of a byte is set already, or it is set by subtracting from a control character, by adding to
		// DEL, or by subtracting from the zero that replaces a backslash. Bits above the lowest set one may be wrong.
		x := binary.LittleEndian.Uint64(b[i:])
		if m := (x | (x - lows*' ') | (x + lows) | (x ^ lows*'\\' - lows)) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] < 0x7f && b[i] != '\\' {
		i++
	}
	return i
}

// StringEnd checks the string whose body starts at i and returns the index after its closing quote. escaped reports
// whether it has escapes. ascii reports that it has only ASCII bytes; it may be false because of bytes after the
// string.
func StringEnd(b []byte, i int) (end int, escaped, ascii bool) {
	const long = 32 // use larger steps for strings of at least this size
	var seen uint64
	for from := i; i+8 <= len(b); {
		x := binary.LittleEndian.Uint64(b[i:])
		seen |= x
		m := Special(x)
		if m == 0 {
			if i += 8; i-from < long {
				continue
			}
			for ; i+32 <= len(b); i += 32 {
				w := b[i : i+32 : i+32]
				x0, x1 := binary.LittleEndian.Uint64(w), binary.LittleEndian.Uint64(w[8:])
				x2, x3 := binary.LittleEndian.Uint64(w[16:]), binary.LittleEndian.Uint64(w[24:])
				if Special(x0)|Special(x1)|Special(x2)|Special(x3) != 0 {
					from = i
					break
				}
				seen |= x0 | x1 | x2 | x3
			}
			continue
		}
		i += bits.TrailingZeros64(m) >> 3
		if b[i] == '"' {
			return i + 1, escaped, seen&highs == 0
		}
		n := escapeLen(b, i)
		if n == 0 {
			return ^i, escaped, false
		}
		i += n
		from, escaped = i, true
	}
	for i < len(b) {
		c := b[i]
		seen |= uint64(c)
		switch {
		case c == '"':
			return i + 1, escaped, seen&highs == 0
		case c == '\\' || c < 0x20:
			n := escapeLen(b, i)
			if n == 0 {
				return ^i, escaped, false
			}
			i += n
			escaped = true
		default:
			i++
		}
	}
	return ^i, escaped, false
}

// unescaped maps the character after a backslash to the decoded character. 0 means that it is invalid, or begins a
// longer escape.
var unescaped = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// escapeLen returns the length of the escape sequence at i, or 0 if it is invalid.
func escapeLen(b []byte, i int) int {
	if b[i] != '\\' || i+1 >= len(b) {
		return 0
	}
	if unescaped[b[i+1]] != 0 {
		return 2
	}
	if b[i+1] == 'u' {
		if _, ok := hex4(b, i+2); ok {
			return 6
		}
	}
	return 0
}

// hex4 decodes four hexadecimal digits at i.
func hex4(b []byte, i int) (r rune, ok bool) {
	if i+4 > len(b) {
		return 0, false
	}
	for _, c := range b[i : i+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// AppendUnescaped appends the decoded form of a valid string body. An unpaired surrogate is encoded in the three bytes
// that UTF-8 would use for it, so that different strings stay different. Such a result is not valid UTF-8, and paired
// is false.
func AppendUnescaped(dst, body []byte) (text []byte, paired bool) {
	paired = true
	// The decoded form of an escape is never longer than the escape. Words are copied whole, so up to seven bytes too
	// many.
	n := len(dst)
	dst = slices.Grow(dst, len(body)+8)
	out := dst[:cap(dst)]
	for i := 0; i < len(body); {
		if i+8 <= len(body) {
			x := binary.LittleEndian.Uint64(body[i:])
			binary.LittleEndian.PutUint64(out[n:], x)
			s := x ^ lows*'\\'
			m := (s - lows) &^ s & highs
			if m == 0 {
				i += 8
				n += 8
				continue
			}
			plain := bits.TrailingZeros64(m) >> 3
			i += plain
			n += plain
		}
		c := body[i]
		i++
		if c == '\\' && i < len(body) {
			e := body[i]
			i++
			if c = unescaped[e]; c == 0 {
				end, used, whole := appendRune(out[:n], body[i:])
				n = len(end)
				i += used
				paired = paired && whole
				continue
			}
		}
		out[n] = c
		n++
	}
	return out[:n], paired
}

// appendRune appends the character of the digits after a \u, and of a second escape if they form a pair. n is the
// number of bytes that it has read.
func appendRune(dst, digits []byte) (text []byte, n int, paired bool) {
	r, ok := hex4(digits, 0)
	switch {
	case !ok:
		return dst, 0, false
	case r < 0xd800 || r > 0xdfff:
		return utf8.AppendRune(dst, r), 4, true
	case r < 0xdc00 && At(digits, 4) == '\\' && At(digits, 5) == 'u':
		if low, _ := hex4(digits, 6); low >= 0xdc00 && low <= 0xdfff {
			return utf8.AppendRune(dst, 0x10000+(r-0xd800)<<10+(low-0xdc00)), 10, true
		}
	}
	return append(dst, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f), 4, false
}
