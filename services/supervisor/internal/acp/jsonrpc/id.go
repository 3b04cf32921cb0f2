package jsonrpc

import (
	"bytes"
	"crypto/rand"
	"slices"
	"strconv"

	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

// NewID returns a new id without quotes: at least 128 random bits in base 32.
func NewID() string {
	return rand.Text()
}

// CanonicalID returns a key that is equal for ids with the same value in any spelling ("a" and "\u0061", 100 and 1e2),
// and different for all others, such as 1 and "1". The raw id must be a JSON number, string or null. Nil counts as
// null.
func CanonicalID(raw []byte) string {
	var scratch [64]byte
	return string(appendCanonicalID(scratch[:0], raw))
}

// appendCanonicalID appends the key. A string keeps its opening quote, which distinguishes it from numbers and null.
func appendCanonicalID(dst, raw []byte) []byte {
	if len(raw) == 0 {
		return append(dst, "null"...)
	}
	switch raw[0] {
	case '"':
		body := raw[1 : len(raw)-1]
		dst = append(dst, '"')
		if bytes.IndexByte(body, '\\') < 0 {
			return append(dst, body...)
		}
		dst, _ = lex.AppendUnescaped(dst, body)
		return dst
	case 'n':
		return append(dst, "null"...)
	default:
		return appendCanonicalNumber(dst, raw)
	}
}

// maxPlainDigits is the maximum number of digits of an integer that is written in full.
const maxPlainDigits = 18

// appendCanonicalNumber appends one spelling for each value: integers of up to 18 digits in full, others as digits
// without zeros at either end, "e", and the power of ten.
func appendCanonicalNumber(dst, raw []byte) []byte {
	rest := raw
	negative := rest[0] == '-'
	if negative {
		rest = rest[1:]
	}
	plain := !slices.ContainsFunc(rest, func(c byte) bool { return c < '0' || c > '9' })
	if plain && len(rest) <= maxPlainDigits && rest[0] != '0' {
		return append(dst, raw...)
	}
	digits, power, ok := lex.Decimal(rest)
	switch {
	case !ok:
		return append(dst, raw...) // the exponent overflows an int: only equal spellings are equal
	case len(digits) == 0:
		return append(dst, '0')
	}
	if negative {
		dst = append(dst, '-')
	}
	dst = append(dst, digits...)
	if power >= 0 && power <= maxPlainDigits && len(digits)+power <= maxPlainDigits {
		return append(dst, bytes.Repeat([]byte("0"), power)...)
	}
	dst = append(dst, 'e')
	return strconv.AppendInt(dst, int64(power), 10)
}
