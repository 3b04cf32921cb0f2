package yamlproto

import (
	"cmp"
	"encoding/base64"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// scalar decodes a value of a field's type, of a list's element, or of a map's key or value.
func (d *decoder) scalar(n *yaml.Node, fd protoreflect.FieldDescriptor, at *path, depth int) (v protoreflect.Value, ok bool) {
	n, leave, ok := d.enter(n, at, depth)
	if !ok {
		return v, false
	}
	defer leave()
	if fd.Kind() == protoreflect.EnumKind {
		return d.enum(n, fd, at)
	}
	if n.Kind != yaml.ScalarNode {
		d.fail(n, at, "expected %s, got %s", singular(fd), describe(n))
		return v, false
	}
	tag := n.ShortTag()
	switch fd.Kind() {
	case protoreflect.BoolKind:
		if tag == "!!bool" {
			return protoreflect.ValueOfBool(strings.EqualFold(n.Value, "true")), true
		}
	case protoreflect.StringKind:
		// YAML parses an unquoted 2026-01-31 as a date. For a text field it is text.
		if tag == "!!str" || tag == "!!timestamp" {
			return protoreflect.ValueOfString(n.Value), true
		}
		d.fail(n, at, "expected a string, got %s%s", describe(n), quoteHint(n))
		return v, false
	case protoreflect.BytesKind:
		if tag == "!!str" {
			b, err := base64.StdEncoding.DecodeString(n.Value)
			if err != nil {
				d.fail(n, at, "expected bytes in base64, got %s", describe(n))
				return v, false
			}
			return protoreflect.ValueOfBytes(b), true
		}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		if tag == "!!int" || tag == "!!float" {
			return d.float(n, fd, at)
		}
	default:
		if tag == "!!int" {
			return d.integer(n, fd, at)
		}
	}
	d.fail(n, at, "expected %s, got %s", singular(fd), describe(n))
	return v, false
}

func (d *decoder) enum(n *yaml.Node, fd protoreflect.FieldDescriptor, at *path) (v protoreflect.Value, ok bool) {
	if fd.Enum().FullName() == "google.protobuf.NullValue" && isNull(n) {
		return protoreflect.ValueOfEnum(0), true
	}
	if n.Kind == yaml.ScalarNode {
		// The name of an enum's value may look like a boolean or a number ("off"): the text as written counts, not its
		// YAML type.
		if value := enumValue(fd.Enum(), n.Value); value != nil {
			return protoreflect.ValueOfEnum(value.Number()), true
		}
	}
	names := enumNames(fd.Enum())
	d.fail(n, at, "expected one of %s, got %s%s", strings.Join(names, ", "), describe(n), DidYouMean(n.Value, names))
	return v, false
}

func (d *decoder) integer(n *yaml.Node, fd protoreflect.FieldDescriptor, at *path) (v protoreflect.Value, ok bool) {
	digits := strings.TrimLeft(n.Value, "+-")
	if len(digits) > 1 && digits[0] == '0' && '0' <= digits[1] && digits[1] <= '9' {
		d.fail(n, at, "expected a number without a leading zero, got %s (octal is written 0o%s)",
			shorten(n.Value), shorten(strings.TrimLeft(digits, "0")))
		return v, false
	}
	plain := strings.ReplaceAll(n.Value, "_", "")
	bits, signed := size(fd.Kind())
	if signed {
		i, err := strconv.ParseInt(plain, 0, bits)
		switch {
		case err != nil:
			d.fail(n, at, "expected an integer from %d to %d, got %s", int64(-1)<<(bits-1), int64(1)<<(bits-1)-1, shorten(n.Value))
			return v, false
		case bits == 32:
			return protoreflect.ValueOfInt32(int32(i)), true
		}
		return protoreflect.ValueOfInt64(i), true
	}
	u, err := strconv.ParseUint(strings.TrimPrefix(plain, "+"), 0, bits)
	switch {
	case err != nil:
		d.fail(n, at, "expected an integer from 0 to %d, got %s", uint64(math.MaxUint64)>>(64-bits), shorten(n.Value))
		return v, false
	case bits == 32:
		return protoreflect.ValueOfUint32(uint32(u)), true
	}
	return protoreflect.ValueOfUint64(u), true
}

// size returns the number of bits of an integer kind, and whether it may be negative.
func size(kind protoreflect.Kind) (bits int, signed bool) {
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return 32, true
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return 32, false
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return 64, false
	}
	return 64, true
}

func (d *decoder) float(n *yaml.Node, fd protoreflect.FieldDescriptor, at *path) (v protoreflect.Value, ok bool) {
	f, ok := parseFloat(n)
	single := fd.Kind() == protoreflect.FloatKind
	if !ok || (single && !math.IsInf(f, 0) && math.Abs(f) > math.MaxFloat32) {
		d.fail(n, at, "expected a number in the range of a %s, got %s", fd.Kind(), shorten(n.Value))
		return v, false
	}
	if single {
		return protoreflect.ValueOfFloat32(float32(f)), true
	}
	return protoreflect.ValueOfFloat64(f), true
}

func parseFloat(n *yaml.Node) (float64, bool) {
	text := strings.ToLower(strings.ReplaceAll(n.Value, "_", ""))
	switch text {
	case ".nan":
		return math.NaN(), true
	case ".inf", "+.inf":
		return math.Inf(1), true
	case "-.inf":
		return math.Inf(-1), true
	}
	if n.ShortTag() == "!!int" {
		if i, err := strconv.ParseInt(text, 0, 64); err == nil {
			return float64(i), true
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

// quoteHint suggests quotes if a text was probably meant.
func quoteHint(n *yaml.Node) string {
	switch n.ShortTag() {
	case "!!bool", "!!int", "!!float":
		return " (write it in quotes if it is meant as text)"
	}
	return ""
}

// kindNames are the names of field types for people, in singular and plural. Types that are not listed are integers.
var kindNames = map[protoreflect.Kind][2]string{
	protoreflect.BoolKind:    {"true or false", "booleans"},
	protoreflect.StringKind:  {"a string", "strings"},
	protoreflect.BytesKind:   {"bytes in base64", "base64 strings"},
	protoreflect.EnumKind:    {"a name", "names"},
	protoreflect.FloatKind:   {"a number", "numbers"},
	protoreflect.DoubleKind:  {"a number", "numbers"},
	protoreflect.MessageKind: {"a mapping", "mappings"},
	protoreflect.GroupKind:   {"a mapping", "mappings"},
}

func singular(fd protoreflect.FieldDescriptor) string {
	return cmp.Or(kindNames[fd.Kind()][0], "an integer")
}

func plural(fd protoreflect.FieldDescriptor) string {
	return cmp.Or(kindNames[fd.Kind()][1], "integers")
}
