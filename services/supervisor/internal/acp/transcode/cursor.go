package transcode

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// cursor reads wire bytes in several pieces, without joining them.
type cursor struct{ chunks }

// cursor returns a cursor over a received frame.
func (f *Frame) cursor() cursor {
	var c cursor
	switch len(f.received) {
	case 0:
	case 1:
		c.first = f.received[0].ReadOnlyData()
	default:
		pieces := make([][]byte, len(f.received))
		for i, b := range f.received {
			pieces[i] = b.ReadOnlyData()
		}
		c.first, c.rest = pieces[0], pieces[1:]
	}
	return c
}

// done reports whether all bytes were read.
func (c *cursor) done() bool {
	for len(c.first) == 0 {
		if len(c.rest) == 0 {
			return true
		}
		c.first, c.rest = c.rest[0], c.rest[1:]
	}
	return false
}

func (c *cursor) varint() (uint64, bool) {
	if len(c.first) >= 10 || len(c.rest) == 0 {
		v, n := protowire.ConsumeVarint(c.first)
		if n < 0 {
			return 0, false
		}
		c.first = c.first[n:]
		return v, true
	}
	var raw [10]byte
	for n := range raw {
		if c.done() {
			return 0, false
		}
		raw[n] = c.first[0]
		c.first = c.first[1:]
		if raw[n] < 0x80 {
			v, m := protowire.ConsumeVarint(raw[:n+1])
			return v, m > 0
		}
	}
	return 0, false
}

// fixed reads a number of 4 or 8 bytes.
func (c *cursor) fixed(n int) (uint64, bool) {
	var raw [8]byte
	for i := range n {
		if c.done() {
			return 0, false
		}
		raw[i] = c.first[0]
		c.first = c.first[1:]
	}
	return binary.LittleEndian.Uint64(raw[:]), true
}

// take returns the next n bytes without copying. Its first piece is never nil.
func (c *cursor) take(n uint64) (chunks, bool) {
	if n == 0 {
		return chunks{first: []byte{}}, true
	}
	if c.done() {
		return chunks{}, false
	}
	if n <= uint64(len(c.first)) {
		taken := chunks{first: c.first[:n:n]}
		c.first = c.first[n:]
		return taken, true
	}
	taken := chunks{first: c.first}
	n -= uint64(len(c.first))
	for i, b := range c.rest {
		if n > uint64(len(b)) {
			n -= uint64(len(b))
			continue
		}
		taken.rest = append(taken.rest, c.rest[:i]...)
		taken.rest = append(taken.rest, b[:n:n])
		c.first, c.rest = b[n:], c.rest[i+1:]
		return taken, true
	}
	return chunks{}, false
}

// tag reads the tag before a value.
func (c *cursor) tag() (number protowire.Number, wire protowire.Type, ok bool) {
	tag, ok := c.varint()
	number, wire = protowire.DecodeTag(tag)
	return number, wire, ok && number >= protowire.MinValidNumber
}

// value reads the value after a tag into v. It skips a group.
func (c *cursor) value(number protowire.Number, wire protowire.Type, v *found) (ok bool) {
	switch wire {
	case protowire.VarintType:
		v.num, ok = c.varint()
	case protowire.Fixed32Type:
		v.num, ok = c.fixed(4)
	case protowire.Fixed64Type:
		v.num, ok = c.fixed(8)
	case protowire.BytesType:
		if n, sized := c.varint(); sized {
			v.bytes, ok = c.take(n)
		}
	case protowire.StartGroupType:
		ok = c.skipGroup(number)
	}
	return ok
}

// skipGroup skips the rest of a group, with the groups inside it.
func (c *cursor) skipGroup(number protowire.Number) bool {
	open := []protowire.Number{number}
	for len(open) > 0 {
		n, wire, ok := c.tag()
		if !ok || len(open) > maxNesting {
			return false
		}
		switch wire {
		case protowire.StartGroupType:
			open = append(open, n)
		case protowire.EndGroupType:
			if n != open[len(open)-1] {
				return false
			}
			open = open[:len(open)-1]
		default:
			if !c.value(n, wire, new(found)) {
				return false
			}
		}
	}
	return true
}
