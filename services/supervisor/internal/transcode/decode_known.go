package transcode

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// known writes one of protobuf's own types.
func (d *decoder) known(p *plan, b []byte) error {
	if d.depth++; d.depth > maxNesting {
		return errDeep
	}
	defer func() { d.depth-- }()
	switch p.shape {
	case shapeStruct:
		return d.knownStruct(b)
	case shapeList:
		return d.knownList(b)
	case shapeValue:
		return d.knownValue(b)
	}
	m := textType(p.name)
	if err := proto.Unmarshal(b, m); err != nil {
		return errCut
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		return err
	}
	d.out = append(d.out, text...)
	return nil
}

// part is one field on the wire: a number, or a text if that is not nil; a group is neither.
type part struct {
	number protowire.Number
	wire   protowire.Type
	num    uint64
	text   []byte
}

// each calls f with the fields of a small message.
func each(b []byte, f func(p part) error) error {
	for c := (cursor{chunks{first: b}}); !c.done(); {
		number, wire, ok := c.tag()
		var v found
		if !ok || !c.value(number, wire, &v) {
			return errCut
		}
		if err := f(part{number, wire, v.num, v.bytes.first}); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) knownStruct(b []byte) error {
	values := map[string][]byte{}
	err := each(b, func(entry part) error {
		if entry.number != structFields || entry.text == nil {
			return nil
		}
		var key, value []byte
		if err := each(entry.text, func(p part) error {
			switch {
			case p.number == entryKey && p.text != nil:
				key = p.text
			case p.number == entryValue && p.text != nil:
				value = append(value, p.text...) // parts of a message are one
			}
			return nil
		}); err != nil {
			return err
		}
		values[string(key)] = value
		return nil
	})
	if err != nil {
		return err
	}
	d.out = append(d.out, '{')
	for i, k := range slices.Sorted(maps.Keys(values)) {
		if i > 0 {
			d.out = append(d.out, ',')
		}
		if err := d.quote(chunks{first: []byte(k)}); err != nil {
			return err
		}
		d.out = append(d.out, ':')
		if err := d.known(&plan{shape: shapeValue}, values[k]); err != nil {
			return err
		}
	}
	d.out = append(d.out, '}')
	return nil
}

func (d *decoder) knownList(b []byte) error {
	d.out = append(d.out, '[')
	first := true
	err := each(b, func(p part) error {
		if p.number != listValues || p.text == nil {
			return nil
		}
		if !first {
			d.out = append(d.out, ',')
		}
		first = false
		return d.known(&plan{shape: shapeValue}, p.text)
	})
	d.out = append(d.out, ']')
	return err
}

// knownValue writes a google.protobuf.Value; one without a kind is null.
func (d *decoder) knownValue(b []byte) error {
	var v part
	if err := each(b, func(p part) error {
		wire := protowire.BytesType
		switch p.number {
		case valueNull, valueBool:
			wire = protowire.VarintType
		case valueNumber:
			wire = protowire.Fixed64Type
		case valueText, valueStruct, valueList:
		default:
			return nil
		}
		if p.wire != wire {
			return nil
		}
		if p.number == v.number && p.number >= valueStruct {
			p.text = slices.Concat(v.text, p.text) // parts of a message are one
		}
		v = p
		return nil
	}); err != nil {
		return err
	}
	switch v.number {
	case valueNumber:
		f := math.Float64frombits(v.num)
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return errors.New("a google.protobuf.Value cannot be NaN or infinite")
		}
		d.float(protoreflect.DoubleKind, v.num)
	case valueText:
		return d.quote(chunks{first: v.text})
	case valueBool:
		d.out = strconv.AppendBool(d.out, v.num != 0)
	case valueStruct:
		return d.known(&plan{shape: shapeStruct}, v.text)
	case valueList:
		return d.known(&plan{shape: shapeList}, v.text)
	default:
		d.out = append(d.out, "null"...)
	}
	return nil
}
