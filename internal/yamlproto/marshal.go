package yamlproto

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Marshal encodes the set fields of m as YAML: names in snake_case, fields in the order of the .proto file, map keys
// sorted, enum values in their short form. Unmarshal decodes it to an equal message. A message without set fields is
// "{}". It returns an error for values that YAML text cannot represent: strings that are not UTF-8, enum numbers
// without a name, unknown fields, and google.protobuf.Any.
func Marshal(m proto.Message) ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	root, err := encodeMessage(m.ProtoReflect(), nil, 0)
	if err == nil {
		err = enc.Encode(root)
	}
	if err == nil {
		err = enc.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("write %s as YAML: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return out.Bytes(), nil
}

func encodeMessage(m protoreflect.Message, at *path, depth int) (*yaml.Node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%s: nested over %d levels deep", at, maxDepth)
	}
	if len(m.GetUnknown()) > 0 {
		return nil, fmt.Errorf("%s: has fields that are not known here", at)
	}
	md := m.Descriptor()
	if md.FullName() == "google.protobuf.Any" {
		return nil, fmt.Errorf("%s: a google.protobuf.Any cannot be written", at)
	}
	if wellKnown(md) != nil {
		return encodeWellKnown(m, at, depth)
	}
	node := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	fields := md.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !m.Has(fd) {
			continue
		}
		value, err := encodeField(m.Get(fd), fd, at.field(fd.TextName()), depth+1)
		if err != nil {
			return nil, err
		}
		node.Content = append(node.Content, textNode(fd.TextName()), value)
	}
	return node, nil
}

func encodeField(v protoreflect.Value, fd protoreflect.FieldDescriptor, at *path, depth int) (*yaml.Node, error) {
	switch {
	case fd.IsList():
		node := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for i := range v.List().Len() {
			element, err := encodeSingle(v.List().Get(i), fd, at.element(i), depth+1)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, element)
		}
		return node, nil
	case fd.IsMap():
		return encodeMap(v.Map(), fd, at, depth)
	}
	return encodeSingle(v, fd, at, depth)
}

func encodeMap(m protoreflect.Map, fd protoreflect.FieldDescriptor, at *path, depth int) (*yaml.Node, error) {
	var keys []protoreflect.MapKey
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return strings.Compare(a.String(), b.String()) })
	node := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, k := range keys {
		at := at.entry(k.String())
		key, err := encodeSingle(k.Value(), fd.MapKey(), at, depth+1)
		if err != nil {
			return nil, err
		}
		value, err := encodeSingle(m.Get(k), fd.MapValue(), at, depth+1)
		if err != nil {
			return nil, err
		}
		node.Content = append(node.Content, key, value)
	}
	return node, nil
}

func encodeSingle(v protoreflect.Value, fd protoreflect.FieldDescriptor, at *path, depth int) (*yaml.Node, error) {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return encodeMessage(v.Message(), at, depth)
	case protoreflect.BoolKind:
		return plainNode("!!bool", strconv.FormatBool(v.Bool())), nil
	case protoreflect.StringKind:
		if !utf8.ValidString(v.String()) {
			return nil, fmt.Errorf("%s: the text is not UTF-8", at)
		}
		return textNode(v.String()), nil
	case protoreflect.BytesKind:
		return textNode(base64.StdEncoding.EncodeToString(v.Bytes())), nil
	case protoreflect.EnumKind:
		return encodeEnum(v.Enum(), fd, at)
	case protoreflect.FloatKind:
		return floatNode(v.Float(), 32), nil
	case protoreflect.DoubleKind:
		return floatNode(v.Float(), 64), nil
	}
	return plainNode("!!int", v.String()), nil
}

func encodeEnum(number protoreflect.EnumNumber, fd protoreflect.FieldDescriptor, at *path) (*yaml.Node, error) {
	ed := fd.Enum()
	if ed.FullName() == "google.protobuf.NullValue" {
		return plainNode("!!null", "null"), nil
	}
	value := ed.Values().ByNumber(number)
	if value == nil {
		return nil, fmt.Errorf("%s: the number %d has no name in %s", at, number, ed.Name())
	}
	// The short form, unless it would be read as another value.
	if prefix := enumPrefix(ed); prefix != "" {
		short := strings.ToLower(strings.TrimPrefix(string(value.Name()), prefix))
		if read := enumValue(ed, short); read != nil && read.Number() == number {
			return textNode(short), nil
		}
	}
	return textNode(string(value.Name())), nil
}

// encodeWellKnown encodes a type that has a special form in protobuf's JSON in that form.
func encodeWellKnown(m protoreflect.Message, at *path, depth int) (*yaml.Node, error) {
	md := m.Descriptor()
	fd := md.Fields().ByNumber(1)
	switch md.Name() {
	case "Struct", "ListValue":
		return encodeField(m.Get(fd), fd, at, depth)
	case "Duration", "Timestamp", "FieldMask":
		var text string
		data, err := protojson.Marshal(m.Interface())
		if err == nil {
			err = json.Unmarshal(data, &text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		return textNode(text), nil
	case "Value":
		if fd = m.WhichOneof(md.Oneofs().Get(0)); fd == nil {
			return nil, fmt.Errorf("%s: a google.protobuf.Value without a value cannot be written", at)
		}
		if f := m.Get(fd); fd.Kind() == protoreflect.DoubleKind && (math.IsNaN(f.Float()) || math.IsInf(f.Float(), 0)) {
			return nil, fmt.Errorf("%s: JSON has no number %v", at, f.Float())
		}
	}
	return encodeSingle(m.Get(fd), fd, at, depth)
}

func plainNode(tag, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}

// textNode encodes a text, without quotes only if it cannot be read as another value.
func textNode(s string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	bare := yaml.Node{Kind: yaml.ScalarNode, Value: s}
	if !bareText(s) || bare.ShortTag() != "!!str" {
		node.Style = yaml.DoubleQuotedStyle
	}
	return node
}

func bareText(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case isLower(c), isUpper(c), c == '_', c == '/':
		case i > 0 && ('0' <= c && c <= '9' || c == '.' || c == '-'):
		default:
			return false
		}
	}
	return s != "" && len(s) < 80
}

func floatNode(f float64, bits int) *yaml.Node {
	switch {
	case math.IsNaN(f):
		return plainNode("!!float", ".nan")
	case math.IsInf(f, 1):
		return plainNode("!!float", ".inf")
	case math.IsInf(f, -1):
		return plainNode("!!float", "-.inf")
	}
	// Integers of up to 15 digits are written as such; with an exponent YAML 1.1 readers want a point.
	if f == math.Trunc(f) && math.Abs(f) < 1e15 && !(f == 0 && math.Signbit(f)) {
		return plainNode("!!int", strconv.FormatFloat(f, 'f', -1, bits))
	}
	text := strconv.FormatFloat(f, 'g', -1, bits)
	if mantissa, exponent, ok := strings.Cut(text, "e"); ok && !strings.Contains(mantissa, ".") {
		text = mantissa + ".0e" + exponent
	} else if !ok && !strings.Contains(text, ".") {
		text += ".0"
	}
	return plainNode("!!float", text)
}
