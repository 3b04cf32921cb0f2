package transcode

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

// appendInteger appends an integer of a kind. v contains its bits on the wire.
func appendInteger(dst []byte, k protoreflect.Kind, v uint64) []byte {
	switch k {
	case protoreflect.Int32Kind, protoreflect.Sfixed32Kind:
		return strconv.AppendInt(dst, int64(int32(v)), 10)
	case protoreflect.Sint32Kind:
		return strconv.AppendInt(dst, int64(int32(protowire.DecodeZigZag(v&math.MaxUint32))), 10)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return strconv.AppendUint(dst, uint64(uint32(v)), 10)
	case protoreflect.Int64Kind, protoreflect.Sfixed64Kind:
		return strconv.AppendInt(dst, int64(v), 10)
	case protoreflect.Sint64Kind:
		return strconv.AppendInt(dst, protowire.DecodeZigZag(v), 10)
	default:
		return strconv.AppendUint(dst, v, 10)
	}
}

// float writes a number in the format of JavaScript. Numbers that JSON does not have are strings.
func (d *decoder) float(k protoreflect.Kind, v uint64) {
	size, f := 64, math.Float64frombits(v)
	if k == protoreflect.FloatKind {
		size, f = 32, float64(math.Float32frombits(uint32(v)))
	}
	switch {
	case math.IsNaN(f):
		d.out = append(d.out, `"NaN"`...)
	case math.IsInf(f, 1):
		d.out = append(d.out, `"Infinity"`...)
	case math.IsInf(f, -1):
		d.out = append(d.out, `"-Infinity"`...)
	default:
		format := byte('f')
		if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
			format = 'e'
		}
		d.out = strconv.AppendFloat(d.out, f, format, -1, size)
	}
}

func (d *decoder) base64(b []byte) {
	d.out = append(d.out, '"')
	d.out = base64.StdEncoding.AppendEncode(d.out, b)
	d.out = append(d.out, '"')
}

// raw writes a verbatim value. It replaces line feeds between tokens by spaces, because a message is one line.
func (d *decoder) raw(b []byte) error {
	i := lex.SkipSpace(b, 0)
	next := d.nesting.ValueEnd(b, i, d.depth)
	if next < 0 || lex.TextEnd(b, next) < 0 || !utf8.Valid(b) {
		return errVerbatim
	}
	b = b[i:next:next]
	if bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0 {
		d.append(b)
		return nil
	}
	from := len(d.out)
	d.out = append(d.out, b...)
	for i, c := range d.out[from:] {
		if c == '\n' || c == '\r' {
			d.out[from+i] = ' '
		}
	}
	return nil
}

// append writes bytes unchanged, by reference if there are many.
func (d *decoder) append(b []byte) {
	if len(b) < refSize {
		d.out = append(d.out, b...)
		return
	}
	d.refs = append(d.refs, ref{len(d.out), b})
}

// quote writes a string.
func (d *decoder) quote(text chunks) error {
	d.out = append(d.out, '"')
	var split [utf8.UTFMax]byte // a character that is split between pieces
	held := 0
	for i, b := 0, text.first; ; b = text.rest[i-1] {
		if held > 0 {
			for held < len(split) && len(b) > 0 && !utf8.RuneStart(b[0]) {
				split[held] = b[0]
				held++
				b = b[1:]
			}
			if len(b) > 0 || i == len(text.rest) || utf8.FullRune(split[:held]) {
				if !utf8.Valid(split[:held]) {
					return errNotUTF8
				}
				d.out = append(d.out, split[:held]...)
				held = 0
			}
		}
		if i < len(text.rest) && held == 0 {
			cut := unfinished(b)
			held = copy(split[:], b[len(b)-cut:])
			b = b[:len(b)-cut]
		}
		if err := d.quotePiece(b); err != nil {
			return err
		}
		if i++; i > len(text.rest) {
			break
		}
	}
	d.out = append(d.out, '"')
	return nil
}

// unfinished returns the number of bytes at the end of b that are an incomplete character.
func unfinished(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// quotePiece writes the inside of a string.
func (d *decoder) quotePiece(b []byte) error {
	// A long run without escapes is written by reference. Finding one is cheap, so it is done once for each block.
	const block = 4 * refSize
	for len(b) > 0 {
		n := min(len(b), block)
		if plain := lex.PlainEnd(b[:n], 0); plain >= refSize {
			if plain == n {
				plain = lex.PlainEnd(b, n)
			}
			// A reference must end between characters; otherwise split characters would not be detected.
			if !utf8.Valid(b[:plain]) {
				return errNotUTF8
			}
			d.append(b[:plain])
			b = b[plain:]
			continue
		}
		if n < len(b) {
			n -= unfinished(b[:n])
		}
		if err := d.quoteBlock(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// quoteBlock copies and escapes a short piece. Words of eight bytes without escapes are copied whole. The others are
// converted byte by byte with a table and without branches, because every second word of source code needs an escape.
func (d *decoder) quoteBlock(b []byte) error {
	// for one word, and for the extra bytes that are written when escapes are written as words
	const room = 8*len(`\u0000`) + 8
	out, n := d.out[:cap(d.out)], len(d.out)
	i := 0
	var seen uint64
	for i+8 <= len(b) {
		if n+room > len(out) {
			d.out = slices.Grow(out[:n], len(b)-i+(len(b)-i)/4+room)
			out = d.out[:cap(d.out)]
		}
		x := binary.LittleEndian.Uint64(b[i:])
		i += 8
		seen |= x
		if lex.Special(x) == 0 {
			binary.LittleEndian.PutUint64(out[n:], x)
			n += 8
			continue
		}
		for range 8 {
			escape := escapes[byte(x)]
			x >>= 8
			binary.LittleEndian.PutUint64(out[n:], escape)
			n += int(escape >> 56)
		}
	}
	d.out = out[:n]
	for ; i < len(b); i++ {
		seen |= uint64(b[i])
		escape := escapes[b[i]]
		d.out = binary.LittleEndian.AppendUint64(d.out, escape)
		d.out = d.out[:len(d.out)-8+int(escape>>56)]
	}
	if seen&0x8080808080808080 != 0 && !utf8.Valid(b) {
		return errNotUTF8
	}
	return nil
}

// escapes maps each byte to its form in a JSON string, from the lowest byte on. The highest byte is the length.
var escapes = func() (table [256]uint64) {
	for c := range 256 {
		escape := []byte{byte(c)}
		switch {
		case c == '"' || c == '\\':
			escape = []byte{'\\', byte(c)}
		case c == '\n':
			escape = []byte(`\n`)
		case c == '\t':
			escape = []byte(`\t`)
		case c == '\r':
			escape = []byte(`\r`)
		case c < ' ':
			escape = fmt.Appendf(nil, `\u%04x`, c)
		}
		for i, b := range escape {
			table[c] |= uint64(b) << (8 * i)
		}
		table[c] |= uint64(len(escape)) << 56
	}
	return table
}()
