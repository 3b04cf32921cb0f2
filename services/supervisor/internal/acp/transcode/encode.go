package transcode

import (
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

// refSize is the minimum size in bytes of a string that is passed by reference. Below it, a copy is cheaper than
// another piece.
const refSize = 2 << 10

// encoder converts JSON to wire bytes.
type encoder struct {
	b        []byte
	out      []byte
	refs     []ref
	refBytes int
	depth    int
	nesting  lex.Nesting
}

// mark is the start of a value with a length prefix.
type mark struct{ at, refs, refBytes int }

// begin reserves one byte for a length.
func (e *encoder) begin() mark {
	e.out = append(e.out, 0)
	return mark{len(e.out), len(e.refs), e.refBytes}
}

// end writes the length of the bytes that were appended since begin, and makes room if it needs more than one byte.
func (e *encoder) end(m mark) {
	n := uint64(len(e.out) - m.at + e.refBytes - m.refBytes)
	if n < 0x80 {
		e.out[m.at-1] = byte(n)
		return
	}
	more := protowire.SizeVarint(n) - 1
	var room [10]byte
	e.out = slices.Insert(e.out, m.at, room[:more]...)
	protowire.AppendVarint(e.out[:m.at-1], n)
	for i := m.refs; i < len(e.refs); i++ {
		e.refs[i].at += more
	}
}

// bytes appends data with its length, by reference if it is large.
func (e *encoder) bytes(data []byte) {
	e.out = protowire.AppendVarint(e.out, uint64(len(data)))
	if len(data) < refSize {
		e.out = append(e.out, data...)
		return
	}
	e.refs = append(e.refs, ref{len(e.out), data})
	e.refBytes += len(data)
}

// object walks over the object at i. It calls f with the raw name and the index of the value of each member. f returns
// the index after the value.
func (e *encoder) object(i int, f func(key []byte, escaped bool, at int) (int, *fault)) (int, *fault) {
	if lex.At(e.b, i) != '{' {
		return 0, badParams("expected an object, got %s", e.got(i))
	}
	i = lex.SkipSpace(e.b, i+1)
	for first := true; !first || lex.At(e.b, i) != '}'; first = false {
		key, escaped, at := lex.Member(e.b, i)
		if at < 0 {
			return 0, syntax(at)
		}
		next, fault := f(key, escaped, at)
		if fault != nil {
			return 0, fault
		}
		if i = lex.SkipSpace(e.b, next); lex.At(e.b, i) != ',' {
			break
		}
		i = lex.SkipSpace(e.b, i+1)
	}
	if lex.At(e.b, i) != '}' {
		return 0, syntax(^i)
	}
	return i + 1, nil
}

// array is object for the array at i: it calls f with the index of each element.
func (e *encoder) array(i int, f func(at int) (int, *fault)) (int, *fault) {
	if lex.At(e.b, i) != '[' {
		return 0, badParams("expected an array, got %s", e.got(i))
	}
	if i = lex.SkipSpace(e.b, i+1); lex.At(e.b, i) == ']' {
		return i + 1, nil
	}
	for n := 0; ; n++ {
		next, fault := f(i)
		if fault != nil {
			return 0, fault.atIndex(n)
		}
		if i = lex.SkipSpace(e.b, next); lex.At(e.b, i) != ',' {
			break
		}
		i = lex.SkipSpace(e.b, i+1)
	}
	if lex.At(e.b, i) != ']' {
		return 0, syntax(^i)
	}
	return i + 1, nil
}

// message encodes the object at i.
func (e *encoder) message(p *plan, i int) (int, *fault) {
	if lex.At(e.b, i) != '{' {
		return 0, badParams("expected an object, got %s", e.got(i))
	}
	if e.depth++; e.depth > maxNesting {
		return 0, badParams("nested too deep")
	}
	var few [8]uint64
	had := members{few[:4], few[4:]}
	if n := len(p.fields); n > 64*len(had.named) {
		had = members{make([]uint64, n/64+1), make([]uint64, n/64+1)}
	}
	end, fault := e.object(i, func(key []byte, escaped bool, at int) (int, *fault) {
		f, fault := e.lookup(p, key, escaped)
		if fault != nil {
			return 0, fault
		}
		if f == nil {
			return e.skip(at)
		}
		next, fault := e.member(p, f, at, had)
		if fault != nil {
			return 0, fault.in(f.name)
		}
		return next, nil
	})
	if fault != nil {
		return 0, fault
	}
	for _, f := range p.required {
		if !had.filled.has(f.index) {
			return 0, badParams("required").in(f.name)
		}
	}
	e.depth--
	return end, nil
}

// skip returns the index after the value at i.
func (e *encoder) skip(i int) (int, *fault) {
	next := e.nesting.ValueEnd(e.b, i, e.depth)
	if next < 0 {
		return 0, syntax(next)
	}
	return next, nil
}

// lookup returns the field of a member, or nil.
func (e *encoder) lookup(p *plan, key []byte, escaped bool) (*field, *fault) {
	if escaped {
		key, _ = lex.AppendUnescaped(nil, key)
	}
	if f, ok := p.byName[string(key)]; ok {
		return f, nil
	}
	var scratch [64]byte
	if f, ok := p.byFolded[string(lex.AppendFolded(scratch[:0], key))]; ok {
		return nil, ambiguous("the name %.40q differs from %q only in case", key, f.name)
	}
	return nil, nil
}

// members are the members of one object that occurred, and those that were not null.
type members struct{ named, filled set }

// set is a set of field indexes.
type set []uint64

func (s set) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }
func (s set) add(i int)      { s[i/64] |= 1 << (i % 64) }

// member encodes the value of a field at i. The field may be of any type.
func (e *encoder) member(p *plan, f *field, i int, had members) (int, *fault) {
	if had.named.has(f.index) {
		return 0, ambiguous("the name occurs twice")
	}
	had.named.add(f.index)
	if lex.At(e.b, i) == 'n' && (f.list || f.key != nil || f.sub == nil || f.sub.shape != shapeValue) {
		return e.skip(i)
	}
	for _, r := range f.rivals {
		if had.filled.has(r) {
			return 0, badParams("cannot be given together with %q", p.fields[r].name)
		}
	}
	had.filled.add(f.index)
	switch {
	case f.key != nil:
		return e.mapping(f, i)
	case f.list:
		return e.list(f, i)
	default:
		e.out = append(e.out, f.tag...)
		return e.value(f, i)
	}
}

// list encodes the array at i.
func (e *encoder) list(f *field, i int) (int, *fault) {
	if f.packTag == nil {
		return e.array(i, func(at int) (int, *fault) {
			e.out = append(e.out, f.tag...)
			return e.value(f, at)
		})
	}
	before := len(e.out)
	e.out = append(e.out, f.packTag...)
	packed := e.begin()
	first := len(e.out)
	end, fault := e.array(i, func(at int) (int, *fault) { return e.value(f, at) })
	if len(e.out) == first { // an empty list is the same as no list
		e.out = e.out[:before]
	} else if fault == nil {
		e.end(packed)
	}
	return end, fault
}

// mapping encodes the object at i as a map.
func (e *encoder) mapping(f *field, i int) (int, *fault) {
	seen := map[string]struct{}{}
	return e.object(i, func(key []byte, _ bool, at int) (int, *fault) {
		e.out = append(e.out, f.tag...)
		entry := e.begin()
		keyAt := len(e.out)
		name, fault := e.mapKey(f.key, key)
		if fault != nil {
			return 0, fault
		}
		canonical := name
		if f.key.kind != protoreflect.StringKind {
			canonical = string(e.out[keyAt:])
		}
		if _, twice := seen[canonical]; twice {
			return 0, ambiguous("the key %.40q occurs twice", name)
		}
		seen[canonical] = struct{}{}
		e.out = append(e.out, f.val.tag...)
		next, fault := e.value(f.val, at)
		if fault != nil {
			return 0, fault.in(name)
		}
		e.end(entry)
		return next, nil
	})
}

// mapKey encodes a map's key with its tag, and returns it as text.
func (e *encoder) mapKey(f *field, body []byte) (string, *fault) {
	text, fault := plainText(body)
	if fault != nil {
		return "", fault
	}
	e.out = append(e.out, f.tag...)
	switch f.kind {
	case protoreflect.StringKind:
		e.bytes(text)
	case protoreflect.BoolKind:
		switch string(text) {
		case "true":
			e.out = append(e.out, 1)
		case "false":
			e.out = append(e.out, 0)
		default:
			return "", badParams("expected true or false as a key, got %.40q", text)
		}
	default:
		if next := lex.NumberEnd(text, 0); next != len(text) || !e.integer(f.kind, text) {
			return "", badParams("expected %s as a key, got %.40q", expected(f.kind), text)
		}
	}
	return string(text), nil
}

// value encodes the value at i, without a tag.
func (e *encoder) value(f *field, i int) (int, *fault) {
	if f.sub != nil {
		return e.sub(f.sub, i)
	}
	if f.verbatim {
		next, fault := e.skip(i)
		if fault != nil {
			return 0, fault
		}
		raw := e.b[i:next:next]
		if !utf8.Valid(raw) {
			return 0, badParams("not valid UTF-8")
		}
		e.bytes(raw)
		return next, nil
	}
	switch f.kind {
	case protoreflect.StringKind:
		return e.text(i)
	case protoreflect.BytesKind:
		return e.base64(i)
	case protoreflect.EnumKind:
		return e.enum(f.enum, i)
	case protoreflect.BoolKind:
		next := e.nesting.ValueEnd(e.b, i, e.depth)
		switch c := lex.At(e.b, i); {
		case next < 0:
			return 0, syntax(next)
		case c == 't':
			e.out = append(e.out, 1)
		case c == 'f':
			e.out = append(e.out, 0)
		default:
			return 0, badParams("expected true or false, got %s", e.got(i))
		}
		return next, nil
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return e.float(f.kind, i)
	default:
		next := lex.NumberEnd(e.b, i)
		if next < 0 || !e.integer(f.kind, e.b[i:next]) {
			return 0, badParams("expected %s, got %s", expected(f.kind), e.got(i))
		}
		return next, nil
	}
}

// sub encodes the value at i as a message with its length.
func (e *encoder) sub(p *plan, i int) (next int, fault *fault) {
	m := e.begin()
	switch p.shape {
	case shapeObject:
		next, fault = e.message(p, i)
	case shapeWrapper:
		inner := p.fields[0]
		e.out = append(e.out, inner.tag...)
		next, fault = e.value(inner, i)
	default:
		next, fault = e.known(p, i)
	}
	if fault == nil {
		e.end(m)
	}
	return next, fault
}

// text encodes the string at i with its length.
func (e *encoder) text(i int) (int, *fault) {
	if lex.At(e.b, i) != '"' {
		return 0, badParams("expected a string, got %s", e.got(i))
	}
	end, escaped, ascii := lex.StringEnd(e.b, i+1)
	if end < 0 {
		return 0, syntax(end)
	}
	body := e.b[i+1 : end-1 : end-1]
	if !ascii && !utf8.Valid(body) {
		return 0, badParams("not valid UTF-8")
	}
	if !escaped {
		e.bytes(body)
		return end, nil
	}
	var paired bool
	if len(body) < refSize {
		m := e.begin()
		e.out, paired = lex.AppendUnescaped(e.out, body)
		e.end(m)
	} else {
		var text []byte
		text, paired = lex.AppendUnescaped(make([]byte, 0, len(body)+8), body)
		e.bytes(text)
	}
	if !paired {
		return 0, badParams("a surrogate escape without its other half")
	}
	return end, nil
}

// plainText returns the decoded form of a string body.
func plainText(body []byte) ([]byte, *fault) {
	if !utf8.Valid(body) {
		return nil, badParams("not valid UTF-8")
	}
	text, paired := lex.AppendUnescaped(make([]byte, 0, len(body)), body)
	if !paired {
		return nil, badParams("a surrogate escape without its other half")
	}
	return text, nil
}
