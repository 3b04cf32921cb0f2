package lex

import (
	"bytes"
	"math"
	"slices"
	"strconv"
)

// MaxDepth limits the nesting of arrays and objects.
const MaxDepth = 10000

// TooDeep is the result of ValueEnd for a value that exceeds MaxDepth.
const TooDeep = math.MinInt

// Nesting is the reusable scratch memory of ValueEnd. The zero value is ready. It is not safe for concurrent use.
type Nesting struct {
	outer []uint64 // outer levels, 64 in a word: 1 is an object
}

// ValueEnd checks the value that starts at i, at the given nesting depth, and returns the index after it, or TooDeep.
func (s *Nesting) ValueEnd(b []byte, i, depth int) int {
	var inner uint64 // the innermost levels: 1 is an object
	n := 0           // levels opened here
	s.outer = s.outer[:0]

value:
	switch c := At(b, i); c {
	case '"':
		if i, _, _ = StringEnd(b, i+1); i < 0 {
			return i
		}
	case '{', '[':
		if depth+n >= MaxDepth {
			return TooDeep
		}
		if n > 0 && n&63 == 0 {
			s.outer = append(s.outer, inner)
			inner = 0
		}
		n++
		inner <<= 1
		i++
		if At(b, i) <= ' ' {
			i = SkipSpace(b, i)
		}
		if c == '{' {
			inner |= 1
			if At(b, i) != '}' {
				goto key
			}
		} else if At(b, i) != ']' {
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
		if i = NumberEnd(b, i); i < 0 {
			return i
		}
	}

after:
	if n == 0 {
		return i
	}
	if At(b, i) <= ' ' {
		i = SkipSpace(b, i)
	}
	switch At(b, i) {
	case ',':
		i++
		if At(b, i) <= ' ' {
			i = SkipSpace(b, i)
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
		inner = s.outer[len(s.outer)-1]
		s.outer = s.outer[:len(s.outer)-1]
	}
	goto after

key:
	if _, _, i = Member(b, i); i < 0 {
		return i
	}
	goto value
}

// NumberEnd checks the number at i.
func NumberEnd(b []byte, i int) int {
	if At(b, i) == '-' {
		i++
	}
	switch c := At(b, i); {
	case c == '0':
		i++
	case '1' <= c && c <= '9':
		i = digitsEnd(b, i)
	default:
		return ^i
	}
	if At(b, i) == '.' {
		from := i + 1
		if i = digitsEnd(b, from); i == from {
			return ^i
		}
	}
	if At(b, i)|0x20 == 'e' {
		i++
		if c := At(b, i); c == '+' || c == '-' {
			i++
		}
		from := i
		if i = digitsEnd(b, from); i == from {
			return ^i
		}
	}
	return i
}

// Decimal returns the digits of a valid JSON number, without its sign and without zeros at either end, and the power of
// ten that they are multiplied by. The number 0 has no digits. ok is false if the power does not fit into an int.
func Decimal(number []byte) (digits []byte, power int, ok bool) {
	mantissa, exponent := bytes.TrimPrefix(number, []byte("-")), 0
	ok = true
	if i := bytes.IndexAny(mantissa, "eE"); i >= 0 {
		var err error
		exponent, err = strconv.Atoi(string(mantissa[i+1:]))
		mantissa, ok = mantissa[:i], err == nil
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	digits = bytes.TrimLeft(slices.Concat(whole, fraction), "0")
	trimmed := bytes.TrimRight(digits, "0")
	shift := len(digits) - len(trimmed) - len(fraction)
	power = exponent + shift
	return trimmed, power, ok && (shift == 0 || (shift > 0) == (power > exponent))
}

func digitsEnd(b []byte, i int) int {
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i
}

// Member checks an object's member at i up to its value. It returns the body of the name, whether the name is escaped,
// and the index of the value.
func Member(b []byte, i int) (key []byte, escaped bool, next int) {
	if At(b, i) != '"' {
		return nil, false, ^i
	}
	end, escaped, _ := StringEnd(b, i+1)
	if end < 0 {
		return nil, false, end
	}
	key = b[i+1 : end-1]
	if At(b, end) != ':' {
		if end = SkipSpace(b, end); At(b, end) != ':' {
			return nil, false, ^end
		}
	}
	end++
	if At(b, end) <= ' ' {
		end = SkipSpace(b, end)
	}
	return key, escaped, end
}

// TextEnd checks that only white space follows from i on.
func TextEnd(b []byte, i int) int {
	if i = SkipSpace(b, i); i < len(b) {
		return ^i
	}
	return i
}
