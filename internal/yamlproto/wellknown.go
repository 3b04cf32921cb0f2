package yamlproto

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
)

type wellKnownDecoder func(d *decoder, n *yaml.Node, m protoreflect.Message, at *path, depth int)

// wellKnown returns the decoder of a type with a special form in JSON, which is used here, too; nil for other types.
func wellKnown(md protoreflect.MessageDescriptor) wellKnownDecoder {
	if md.FullName().Parent() != "google.protobuf" {
		return nil
	}
	switch md.Name() {
	case "Struct":
		return (*decoder).structure
	case "Value":
		return (*decoder).value
	case "ListValue":
		return (*decoder).listValue
	case "Duration":
		return (*decoder).duration
	case "Timestamp":
		return jsonText(`a time like "2026-01-31T12:00:00Z"`)
	case "FieldMask":
		return jsonText("names joined by commas")
	case "Any":
		return func(d *decoder, n *yaml.Node, _ protoreflect.Message, at *path, _ int) {
			d.fail(n, at, "expected nothing, since fields of type google.protobuf.Any cannot be written in YAML, got %s", describe(n))
		}
	case "BoolValue", "StringValue", "BytesValue", "FloatValue", "DoubleValue",
		"Int32Value", "Int64Value", "UInt32Value", "UInt64Value":
		return func(d *decoder, n *yaml.Node, m protoreflect.Message, at *path, depth int) {
			fd := m.Descriptor().Fields().ByNumber(1)
			if v, ok := d.scalar(n, fd, at, depth); ok {
				m.Set(fd, v)
			}
		}
	}
	return nil
}

// The messages may be generated or dynamic, so these decoders set fields by the numbers in the .proto files of these
// types.

func (d *decoder) structure(n *yaml.Node, m protoreflect.Message, at *path, depth int) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, at, "expected a mapping, got %s", describe(n))
		return
	}
	fields := m.Mutable(m.Descriptor().Fields().ByNumber(1)).Map()
	seen := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, ok := d.key(n.Content[i], at)
		if !ok {
			continue
		}
		at := at.entry(name)
		if first := seen[name]; first != nil {
			d.fail(n.Content[i], at, "expected each key once, got it again (first on line %d)", first.Line)
			continue
		}
		seen[name] = n.Content[i]
		v := fields.NewValue()
		d.message(n.Content[i+1], v.Message(), at, depth+1)
		fields.Set(protoreflect.ValueOfString(name).MapKey(), v)
	}
}

func (d *decoder) listValue(n *yaml.Node, m protoreflect.Message, at *path, depth int) {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, at, "expected a list, got %s", describe(n))
		return
	}
	values := m.Mutable(m.Descriptor().Fields().ByNumber(1)).List()
	for i, element := range n.Content {
		d.message(element, values.AppendMutable().Message(), at.element(i), depth+1)
	}
}

func (d *decoder) value(n *yaml.Node, m protoreflect.Message, at *path, depth int) {
	const null, number, text, boolean, structure, list = 1, 2, 3, 4, 5, 6
	fields := m.Descriptor().Fields()
	switch n.Kind {
	case yaml.MappingNode:
		d.structure(n, m.Mutable(fields.ByNumber(structure)).Message(), at, depth)
		return
	case yaml.SequenceNode:
		d.listValue(n, m.Mutable(fields.ByNumber(list)).Message(), at, depth)
		return
	}
	switch n.ShortTag() {
	case "!!null":
		m.Set(fields.ByNumber(null), protoreflect.ValueOfEnum(0))
	case "!!bool":
		m.Set(fields.ByNumber(boolean), protoreflect.ValueOfBool(strings.EqualFold(n.Value, "true")))
	case "!!int", "!!float":
		f, ok := parseFloat(n)
		if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
			d.fail(n, at, "expected a number that JSON has, got %s", shorten(n.Value))
			return
		}
		if n.ShortTag() == "!!int" && math.Abs(f) > 1<<53-1 {
			d.fail(n, at, "expected an integer less than 2^53, got %s (write it in quotes)", shorten(n.Value))
			return
		}
		m.Set(fields.ByNumber(number), protoreflect.ValueOfFloat64(f))
	case "!!str", "!!timestamp":
		m.Set(fields.ByNumber(text), protoreflect.ValueOfString(n.Value))
	default:
		d.fail(n, at, "expected a value that JSON has, got %s", describe(n))
	}
}

// jsonText returns the decoder of a type whose form in protobuf's JSON is a text. want describes that text in an error.
func jsonText(want string) wellKnownDecoder {
	return func(d *decoder, n *yaml.Node, m protoreflect.Message, at *path, _ int) {
		if !isJSONText(n, m) {
			d.fail(n, at, "expected %s, got %s", want, describe(n))
		}
	}
}

// isJSONText decodes a text into m, and reports whether it is valid in protobuf's JSON for m.
func isJSONText(n *yaml.Node, m protoreflect.Message) bool {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" && n.ShortTag() != "!!timestamp" {
		return false
	}
	text, err := json.Marshal(n.Value)
	return err == nil && protojson.Unmarshal(text, m.Interface()) == nil
}

// duration accepts the form of protobuf's JSON, "1.5s", and Go's forms, "1m30s" and "500ms".
func (d *decoder) duration(n *yaml.Node, m protoreflect.Message, at *path, _ int) {
	const maxSeconds = 315_576_000_000 // ten thousand years, by duration.proto; protojson accepts a fraction more
	fields := m.Descriptor().Fields()
	seconds, nanos := fields.ByNumber(1), fields.ByNumber(2)
	if isJSONText(n, m) && (m.Get(nanos).Int() == 0 || max(m.Get(seconds).Int(), -m.Get(seconds).Int()) < maxSeconds) {
		return
	}
	parsed, err := time.ParseDuration(n.Value)
	if err != nil || n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		d.fail(n, at, `expected a duration like "1.5s" or "2m", got %s`, describe(n))
		return
	}
	m.Set(seconds, protoreflect.ValueOfInt64(int64(parsed/time.Second)))
	m.Set(nanos, protoreflect.ValueOfInt32(int32(parsed%time.Second)))
}
