package transcode

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

// limits returns the range of an integer field of a kind.
func limits(k protoreflect.Kind) (minimum int64, maximum uint64) {
	switch k {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return math.MinInt32, math.MaxInt32
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return 0, math.MaxUint32
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return math.MinInt64, math.MaxInt64
	default:
		return 0, math.MaxUint64
	}
}

// expected describes the values that an integer field accepts.
func expected(k protoreflect.Kind) string {
	minimum, maximum := limits(k)
	return fmt.Sprintf("an integer from %d to %d", minimum, maximum)
}

// integer appends a JSON number as an integer of a kind. It returns false if the number is not an integer, or out of
// range.
func (e *encoder) integer(k protoreflect.Kind, number []byte) bool {
	negative, size, ok := parseInteger(number)
	minimum, maximum := limits(k)
	if negative {
		maximum = -uint64(minimum)
	}
	if !ok || size > maximum {
		return false
	}
	if negative {
		size = -size
	}
	switch k {
	case protoreflect.Sint32Kind, protoreflect.Sint64Kind:
		e.out = protowire.AppendVarint(e.out, protowire.EncodeZigZag(int64(size)))
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		e.out = binary.LittleEndian.AppendUint32(e.out, uint32(size))
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		e.out = binary.LittleEndian.AppendUint64(e.out, size)
	default:
		e.out = protowire.AppendVarint(e.out, size)
	}
	return true
}

// parseInteger parses a valid JSON number that is an integer in any notation.
func parseInteger(number []byte) (negative bool, size uint64, ok bool) {
	if negative = number[0] == '-'; negative {
		number = number[1:]
	}
	if bytes.ContainsAny(number, ".eE") {
		if number, ok = plainDigits(number); !ok {
			return false, 0, false
		}
	}
	if len(number) > 20 {
		return false, 0, false
	}
	size, err := strconv.ParseUint(string(number), 10, 64)
	return negative && size != 0, size, err == nil
}

// plainDigits returns the digits of a number without fraction and exponent. It returns false if the number is not an
// integer, or has more than 20 digits.
func plainDigits(number []byte) ([]byte, bool) {
	digits, power, ok := lex.Decimal(number)
	switch {
	case len(digits) == 0:
		return []byte("0"), true
	case !ok || power < 0 || power > 20 || len(digits)+power > 20:
		return nil, false
	}
	return append(digits, bytes.Repeat([]byte("0"), power)...), true
}

// float encodes the number at i. The strings "NaN", "Infinity" and "-Infinity" are numbers, too.
func (e *encoder) float(k protoreflect.Kind, i int) (int, *fault) {
	bits := 64
	if k == protoreflect.FloatKind {
		bits = 32
	}
	next := e.nesting.ValueEnd(e.b, i, e.depth)
	if next < 0 {
		return 0, syntax(next)
	}
	var v float64
	switch c := e.b[i]; {
	case c == '-' || '0' <= c && c <= '9':
		var err error
		if v, err = strconv.ParseFloat(string(e.b[i:next]), bits); err != nil {
			return 0, badParams("out of range: %s", e.got(i))
		}
	case string(e.b[i:next]) == `"NaN"`:
		v = math.NaN()
	case string(e.b[i:next]) == `"Infinity"`:
		v = math.Inf(1)
	case string(e.b[i:next]) == `"-Infinity"`:
		v = math.Inf(-1)
	default:
		return 0, badParams("expected a number, got %s", e.got(i))
	}
	if bits == 32 {
		e.out = binary.LittleEndian.AppendUint32(e.out, math.Float32bits(float32(v)))
	} else {
		e.out = binary.LittleEndian.AppendUint64(e.out, math.Float64bits(v))
	}
	return next, nil
}

// enum encodes the enum value at i, given by its name or its number.
func (e *encoder) enum(en *enum, i int) (int, *fault) {
	next := e.nesting.ValueEnd(e.b, i, e.depth)
	switch c := lex.At(e.b, i); {
	case next < 0:
		return 0, syntax(next)
	case c == '"':
		name, fault := plainText(e.b[i+1 : next-1])
		if fault != nil {
			return 0, fault
		}
		n, ok := en.numbers[string(name)]
		if !ok {
			return 0, badParams("unknown value %s", e.got(i))
		}
		e.out = protowire.AppendVarint(e.out, uint64(int64(n)))
	case c == '-' || '0' <= c && c <= '9':
		from := len(e.out)
		if !e.integer(protoreflect.Int32Kind, e.b[i:next]) {
			return 0, badParams("unknown value %s", e.got(i))
		}
		if en.closed {
			n, _ := protowire.ConsumeVarint(e.out[from:])
			if _, ok := en.names[int32(n)]; !ok {
				return 0, badParams("unknown value %s", e.got(i))
			}
		}
	default:
		return 0, badParams("expected the name of a value, got %s", e.got(i))
	}
	return next, nil
}

// base64 encodes the string at i as bytes, from the standard or the URL alphabet, with or without padding.
func (e *encoder) base64(i int) (int, *fault) {
	if lex.At(e.b, i) != '"' {
		return 0, badParams("expected a string in base64, got %s", e.got(i))
	}
	end, _, _ := lex.StringEnd(e.b, i+1)
	if end < 0 {
		return 0, syntax(end)
	}
	text, fault := plainText(e.b[i+1 : end-1])
	if fault != nil {
		return 0, fault
	}
	enc := base64.StdEncoding
	if bytes.ContainsAny(text, "-_") {
		enc = base64.URLEncoding
	}
	if len(text)%4 != 0 {
		enc = enc.WithPadding(base64.NoPadding)
	}
	// The decoder skips line ends, which base64 in JSON must not have.
	data := make([]byte, enc.DecodedLen(len(text)))
	n, err := enc.Decode(data, text)
	if err != nil || bytes.ContainsAny(text, "\r\n") {
		return 0, badParams("expected a string in base64, got %s", e.got(i))
	}
	e.bytes(data[:n])
	return end, nil
}
