package jsonrpc

import (
	"bytes"
	"crypto/rand"
	"slices"
	"strconv"

	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc/lex"
)

// NewID returns a fresh id of our own, without quotes: 128 random bits and a little more, in base 32.
func NewID() string {
	return rand.Text()
}

// CanonicalID returns a key that is equal for ids that mean the same, however they are spelled ("a" and "\u0061", 100
// and 1e2), and differs for all others, 1 and "1" among them. The raw id must be a JSON number, string or null; nil
// counts as null.
func CanonicalID(raw []byte) string {
	var scratch [64]byte
	return string(appendCanonicalID(scratch[:0], raw))
}

// appendCanonicalID appends the key. Strings keep their opening quote, which tells them from numbers and null.
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

// maxPlainDigits is the longest integer that is written in full.
const maxPlainDigits = 18

// appendCanonicalNumber appends one spelling for each value: integers of up to 18 digits in full, others as digits that
// neither start nor end with 0, "e", and the power of ten.
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
		return append(dst, raw...) // a power that no number of ours can have: equal if spelled alike
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
