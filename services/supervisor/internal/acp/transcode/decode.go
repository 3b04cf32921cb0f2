package transcode

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

var (
	errCut      = errors.New("the message is cut off or malformed")
	errNotUTF8  = errors.New("a string is not valid UTF-8")
	errVerbatim = errors.New("not one valid JSON value")
)

// decoder converts wire bytes to JSON. Fields may be in any order on the wire, and the last value of a field counts, so
// each message is first indexed and then written.
type decoder struct {
	out     []byte
	refs    []ref
	found   []found // values of the messages in progress
	heads   []span  // for each field of those messages: the range of its values in found
	depth   int
	nesting lex.Nesting
	result  []byte // the bytes of the CallResult, or nil
}

// found is one value of a field.
type found struct {
	next  int32 // the field's next value in decoder.found; 0: none
	num   uint64
	bytes chunks
}

// span is the first and last value of a field. 0 means none. found[0] is never used.
type span struct{ first, last int32 }

// chunks is a byte string in pieces.
type chunks struct {
	first []byte
	rest  [][]byte
}

// join returns the string in one piece.
func (c chunks) join() []byte {
	if len(c.rest) == 0 {
		return c.first
	}
	joined := append([]byte(nil), c.first...)
	for _, b := range c.rest {
		joined = append(joined, b...)
	}
	return joined
}

func (c chunks) empty() bool { return len(c.first) == 0 && len(c.rest) == 0 }

var decoders = sync.Pool{New: func() any { return &decoder{found: make([]found, 1, 64)} }}

// keptOut limits the output buffer that is kept for the next response, in bytes.
const keptOut = 4 << 20

func newDecoder(f *Frame) *decoder {
	if f.decoder != nil {
		f.decoder.release()
	}
	f.decoder = decoders.Get().(*decoder)
	return f.decoder
}

// release makes the decoder's memory available to the next response.
func (d *decoder) release() {
	clear(d.refs)
	clear(d.found[:cap(d.found)])
	d.out, d.refs, d.found, d.heads = d.out[:0], d.refs[:0], d.found[:1], d.heads[:0]
	d.depth, d.result = 0, nil
	if cap(d.out) <= keptOut && cap(d.found) <= 1<<12 {
		decoders.Put(d)
	}
}

// message writes a message as an object.
func (d *decoder) message(p *plan, c cursor) error {
	if d.depth++; d.depth > maxNesting {
		return errDeep
	}
	values, heads := len(d.found), len(d.heads)
	if err := d.index(p, c); err != nil {
		return err
	}
	d.out = append(d.out, '{')
	comma := false
	for _, f := range p.fields {
		s := d.heads[heads+f.index]
		if s.first == 0 && f.presence || f.verbatim && !f.list && d.found[s.last].bytes.empty() {
			continue
		}
		if comma {
			d.out = append(d.out, ',')
		}
		comma = true
		d.out = append(d.out, f.member...)
		if err := d.member(f, s); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	d.out = append(d.out, '}')
	d.found, d.heads = d.found[:values], d.heads[:heads]
	d.depth--
	return nil
}

// index collects the values of a message's fields.
func (d *decoder) index(p *plan, c cursor) error {
	heads := len(d.heads)
	for range p.fields {
		d.heads = append(d.heads, span{})
	}
	for !c.done() {
		number, wire, ok := c.tag()
		var v found
		if !ok || !c.value(number, wire, &v) {
			return errCut
		}
		if number == p.result && p.result != 0 && wire == protowire.BytesType && d.depth == 1 {
			d.result = append(d.result, v.bytes.join()...)
			if d.result == nil {
				d.result = []byte{}
			}
			continue
		}
		f := p.byNumber[number]
		if f == nil || wire != f.wire && (!f.list || wire != protowire.BytesType) || wire == protowire.StartGroupType {
			continue // an unknown field, or the wrong wire type: ignored, as every protobuf parser does
		}
		for _, r := range f.rivals {
			d.heads[heads+r] = span{}
		}
		at := int32(len(d.found))
		d.found = append(d.found, v)
		if s := &d.heads[heads+f.index]; s.first == 0 {
			*s = span{at, at}
		} else {
			d.found[s.last].next = at
			s.last = at
		}
	}
	return nil
}

// member writes the values of a field. There may be none.
func (d *decoder) member(f *field, s span) error {
	switch {
	case f.key != nil:
		return d.mapping(f, s)
	case f.list:
		return d.list(f, s)
	case f.sub != nil && s.first != s.last:
		// The parts of a message that is sent in several parts are concatenated.
		var whole []byte
		for i := s.first; i != 0; i = d.found[i].next {
			whole = append(whole, d.found[i].bytes.join()...)
		}
		return d.sub(f.sub, whole)
	default:
		return d.value(f, d.found[s.last])
	}
}

func (d *decoder) list(f *field, s span) error {
	d.out = append(d.out, '[')
	n := 0
	element := func(v found) error {
		if n > 0 {
			d.out = append(d.out, ',')
		}
		if err := d.value(f, v); err != nil {
			return fmt.Errorf("[%d]: %w", n, err)
		}
		n++
		return nil
	}
	for i := s.first; i != 0; i = d.found[i].next {
		v := d.found[i]
		if f.wire == protowire.BytesType || v.bytes.first == nil {
			if err := element(v); err != nil {
				return err
			}
			continue
		}
		for c := (cursor{chunks: v.bytes}); !c.done(); {
			var packed found
			if !c.value(f.number, f.wire, &packed) {
				return errCut
			}
			if err := element(packed); err != nil {
				return err
			}
		}
	}
	d.out = append(d.out, ']')
	return nil
}

// mapping writes a map with its keys in order. The last value of a key counts.
func (d *decoder) mapping(f *field, s span) error {
	type pair struct {
		key   string
		value found
		whole []byte // of messages
	}
	var pairs []pair
	at := map[string]int{}
	for i := s.first; i != 0; i = d.found[i].next {
		values, heads := len(d.found), len(d.heads)
		if err := d.index(f.entry, cursor{chunks: d.found[i].bytes}); err != nil {
			return err
		}
		key, value := d.heads[heads], d.heads[heads+1]
		name := mapKey(f.key, d.found[key.last])
		p := pair{key: name, value: d.found[value.last]}
		for j := value.first; j != 0 && f.val.sub != nil; j = d.found[j].next {
			p.whole = append(p.whole, d.found[j].bytes.join()...)
		}
		d.found, d.heads = d.found[:values], d.heads[:heads]
		if n, again := at[name]; again {
			pairs[n] = p
			continue
		}
		at[name] = len(pairs)
		pairs = append(pairs, p)
	}
	sort.Slice(pairs, func(i, j int) bool { return pairs[i].key < pairs[j].key })
	d.out = append(d.out, '{')
	for i, p := range pairs {
		if i > 0 {
			d.out = append(d.out, ',')
		}
		if err := d.quote(chunks{first: []byte(p.key)}); err != nil {
			return err
		}
		d.out = append(d.out, ':')
		var err error
		if f.val.sub != nil {
			err = d.sub(f.val.sub, p.whole)
		} else {
			err = d.value(f.val, p.value)
		}
		if err != nil {
			return fmt.Errorf("%.40q: %w", p.key, err)
		}
	}
	d.out = append(d.out, '}')
	return nil
}

// mapKey formats the key of a map.
func mapKey(f *field, v found) string {
	switch f.kind {
	case protoreflect.StringKind:
		return string(v.bytes.join())
	case protoreflect.BoolKind:
		return strconv.FormatBool(v.num != 0)
	default:
		var scratch [24]byte
		return string(appendInteger(scratch[:0], f.kind, v.num))
	}
}

// value writes one value. The zero found is the zero value.
func (d *decoder) value(f *field, v found) error {
	switch {
	case f.sub != nil:
		return d.sub(f.sub, v.bytes.join())
	case f.verbatim:
		return d.raw(v.bytes.join())
	}
	switch f.kind {
	case protoreflect.StringKind:
		return d.quote(v.bytes)
	case protoreflect.BytesKind:
		d.base64(v.bytes.join())
	case protoreflect.BoolKind:
		d.out = strconv.AppendBool(d.out, v.num != 0)
	case protoreflect.EnumKind:
		if name, ok := f.enum.names[int32(v.num)]; ok {
			d.out = append(d.out, name...)
		} else {
			d.out = strconv.AppendInt(d.out, int64(int32(v.num)), 10)
		}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		d.float(f.kind, v.num)
	default:
		d.out = appendInteger(d.out, f.kind, v.num)
	}
	return nil
}

// sub writes a nested message.
func (d *decoder) sub(p *plan, b []byte) error {
	switch p.shape {
	case shapeObject:
		return d.message(p, cursor{chunks: chunks{first: b}})
	case shapeWrapper:
		values, heads := len(d.found), len(d.heads)
		if err := d.index(p, cursor{chunks: chunks{first: b}}); err != nil {
			return err
		}
		v := d.found[d.heads[heads].last]
		d.found, d.heads = d.found[:values], d.heads[:heads]
		return d.value(p.fields[0], v)
	default:
		return d.known(p, b)
	}
}
