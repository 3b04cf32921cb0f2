package transcode

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
)

// known writes a well-known type of protobuf.
func (d *decoder) known(p *plan, b []byte) error {
	m := emptyOf(p.name)
	if err := proto.Unmarshal(b, m); err != nil {
		return errCut
	}
	return d.own(m)
}

// own writes a well-known type that is parsed first.
func (d *decoder) own(m proto.Message) error {
	if d.depth++; d.depth > maxNesting {
		return errDeep
	}
	defer func() { d.depth-- }()
	switch m := m.(type) {
	case *structpb.Struct:
		d.out = append(d.out, '{')
		for i, name := range slices.Sorted(maps.Keys(m.GetFields())) {
			if i > 0 {
				d.out = append(d.out, ',')
			}
			if err := d.quote(chunks{first: []byte(name)}); err != nil {
				return err
			}
			d.out = append(d.out, ':')
			if err := d.own(m.GetFields()[name]); err != nil {
				return err
			}
		}
		d.out = append(d.out, '}')
		return nil
	case *structpb.ListValue:
		d.out = append(d.out, '[')
		for i, value := range m.GetValues() {
			if i > 0 {
				d.out = append(d.out, ',')
			}
			if err := d.own(value); err != nil {
				return err
			}
		}
		d.out = append(d.out, ']')
		return nil
	case *structpb.Value:
		return d.ownValue(m)
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		return err
	}
	d.out = append(d.out, text...)
	return nil
}

// ownValue writes a google.protobuf.Value. A value without a kind is null.
func (d *decoder) ownValue(v *structpb.Value) error {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_NumberValue:
		if math.IsNaN(kind.NumberValue) || math.IsInf(kind.NumberValue, 0) {
			return errors.New("a google.protobuf.Value cannot be NaN or infinite")
		}
		d.float(protoreflect.DoubleKind, math.Float64bits(kind.NumberValue))
	case *structpb.Value_StringValue:
		return d.quote(chunks{first: []byte(kind.StringValue)})
	case *structpb.Value_BoolValue:
		d.out = strconv.AppendBool(d.out, kind.BoolValue)
	case *structpb.Value_StructValue:
		return d.own(kind.StructValue)
	case *structpb.Value_ListValue:
		return d.own(kind.ListValue)
	default:
		d.out = append(d.out, "null"...)
	}
	return nil
}
