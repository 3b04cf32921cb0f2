package transcode

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

// The field numbers of google/protobuf/struct.proto.
const (
	valueNull   protowire.Number = 1
	valueNumber protowire.Number = 2
	valueText   protowire.Number = 3
	valueBool   protowire.Number = 4
	valueStruct protowire.Number = 5
	valueList   protowire.Number = 6

	structFields protowire.Number = 1
	entryKey     protowire.Number = 1
	entryValue   protowire.Number = 2
	listValues   protowire.Number = 1
)

// known encodes the value at i as a well-known type of protobuf, without its length.
func (e *encoder) known(p *plan, i int) (int, *fault) {
	if e.depth++; e.depth > maxNesting {
		return 0, badParams("nested too deep")
	}
	defer func() { e.depth-- }()
	switch p.shape {
	case shapeStruct:
		return e.knownStruct(i)
	case shapeList:
		return e.array(i, func(at int) (int, *fault) { return e.nested(listValues, valuePlan, at) })
	case shapeValue:
		return e.knownValue(i)
	default:
		return e.knownText(p, i)
	}
}

func (e *encoder) knownStruct(i int) (int, *fault) {
	seen := map[string]struct{}{}
	return e.object(i, func(key []byte, _ bool, at int) (int, *fault) {
		name, fault := plainText(key)
		if fault != nil {
			return 0, fault
		}
		if _, twice := seen[string(name)]; twice {
			return 0, ambiguous("the name %.40q occurs twice", name)
		}
		seen[string(name)] = struct{}{}
		e.out = protowire.AppendTag(e.out, structFields, protowire.BytesType)
		entry := e.begin()
		e.out = protowire.AppendTag(e.out, entryKey, protowire.BytesType)
		e.bytes(name)
		next, fault := e.nested(entryValue, valuePlan, at)
		if fault != nil {
			return 0, fault.in(string(name))
		}
		e.end(entry)
		return next, nil
	})
}

// Plans of the nested values of google.protobuf.Value, Struct and ListValue.
var structPlan, valuePlan, listPlan = &plan{shape: shapeStruct}, &plan{shape: shapeValue}, &plan{shape: shapeList}

// nested encodes the value at i as a well-known type in a field.
func (e *encoder) nested(number protowire.Number, p *plan, i int) (int, *fault) {
	e.out = protowire.AppendTag(e.out, number, protowire.BytesType)
	return e.sub(p, i)
}

func (e *encoder) knownValue(i int) (int, *fault) {
	switch lex.At(e.b, i) {
	case '{':
		return e.nested(valueStruct, structPlan, i)
	case '[':
		return e.nested(valueList, listPlan, i)
	case '"':
		e.out = protowire.AppendTag(e.out, valueText, protowire.BytesType)
		return e.text(i)
	}
	next := e.nesting.ValueEnd(e.b, i, e.depth)
	if next < 0 {
		return 0, syntax(next)
	}
	switch e.b[i] {
	case 'n':
		e.out = protowire.AppendTag(e.out, valueNull, protowire.VarintType)
		e.out = append(e.out, 0)
	case 't', 'f':
		e.out = protowire.AppendTag(e.out, valueBool, protowire.VarintType)
		e.out = protowire.AppendVarint(e.out, protowire.EncodeBool(e.b[i] == 't'))
	default:
		v, err := strconv.ParseFloat(string(e.b[i:next]), 64)
		if err != nil {
			return 0, badParams("out of range: %s", e.got(i))
		}
		e.out = protowire.AppendTag(e.out, valueNumber, protowire.Fixed64Type)
		e.out = binary.LittleEndian.AppendUint64(e.out, math.Float64bits(v))
	}
	return next, nil
}

// emptyOf returns an empty message of a well-known type, except for the wrappers.
func emptyOf(name protoreflect.FullName) proto.Message {
	switch name {
	case "google.protobuf.Struct":
		return &structpb.Struct{}
	case "google.protobuf.Value":
		return &structpb.Value{}
	case "google.protobuf.ListValue":
		return &structpb.ListValue{}
	case "google.protobuf.Timestamp":
		return &timestamppb.Timestamp{}
	case "google.protobuf.Duration":
		return &durationpb.Duration{}
	default:
		return &fieldmaskpb.FieldMask{}
	}
}

func (e *encoder) knownText(p *plan, i int) (int, *fault) {
	next := e.nesting.ValueEnd(e.b, i, e.depth)
	if next < 0 {
		return 0, syntax(next)
	}
	m := emptyOf(p.name)
	err := errors.New("not a string")
	if e.b[i] == '"' {
		err = protojson.Unmarshal(e.b[i:next], m)
	}
	if err == nil {
		e.out, err = proto.MarshalOptions{}.MarshalAppend(e.out, m)
	}
	if err != nil {
		return 0, badParams("expected a string with a %s, got %s", p.name.Name(), e.got(i))
	}
	return next, nil
}
