package yamlproto

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// decoder decodes one document in one pass. It collects errors instead of stopping at the first.
type decoder struct {
	file    string
	errs    []*Error
	full    bool // maxErrors reached: further errors are dropped
	aliased int  // values reached through an alias
	inAlias int  // depth of nested aliases
	meant   Meant
}

func (d *decoder) err() error {
	slices.SortStableFunc(d.errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	errs := make([]error, len(d.errs))
	for i, err := range d.errs {
		errs[i] = err
	}
	if d.full {
		last := d.errs[len(d.errs)-1]
		errs = append(errs, &Error{File: d.file, Line: last.Line, Column: last.Column,
			Message: fmt.Sprintf("more than %d errors; the rest is left out", maxErrors)})
	}
	return errors.Join(errs...)
}

func (d *decoder) fail(n *yaml.Node, at *path, format string, args ...any) {
	if len(d.errs) == maxErrors {
		d.full = true
		return
	}
	line, column := place(n)
	d.errs = append(d.errs, &Error{File: d.file, Line: line, Column: column, Field: at.String(),
		Message: fmt.Sprintf(format, args...)})
}

// enter is called before each value is decoded. It follows an alias, rejects values that are nested too deep, expanded
// too often or have a foreign tag, and returns the function to call after the value.
func (d *decoder) enter(n *yaml.Node, at *path, depth int) (value *yaml.Node, leave func(), ok bool) {
	if d.full {
		return nil, nil, false
	}
	if depth > maxDepth {
		d.fail(n, at, "expected at most %d levels of nesting, got more", maxDepth)
		return nil, nil, false
	}
	value, leave = n, func() {}
	if n.Kind == yaml.AliasNode {
		if value = follow(n); value == nil {
			d.fail(n, at, "expected an alias of a value, got one that leads nowhere")
			return nil, nil, false
		}
		d.inAlias++
		leave = func() { d.inAlias-- }
	}
	if d.inAlias > 0 {
		if d.aliased++; d.aliased == maxAliased {
			d.fail(n, at, "expected at most %d values by way of aliases, got more", maxAliased)
			d.full = true
		}
		if d.aliased >= maxAliased {
			leave()
			return nil, nil, false
		}
	}
	if value.Style&yaml.TaggedStyle != 0 && value.Tag != "!!str" {
		d.fail(n, at, "expected a plain value, got one with the tag %s", quoted(value.Tag))
		leave()
		return nil, nil, false
	}
	return value, leave, true
}

// message decodes a mapping, or the special form of a well-known type, into m.
func (d *decoder) message(n *yaml.Node, m protoreflect.Message, at *path, depth int) {
	n, leave, ok := d.enter(n, at, depth)
	if !ok {
		return
	}
	defer leave()
	if decode := wellKnown(m.Descriptor()); decode != nil {
		decode(d, n, m, at, depth)
		return
	}
	if n.Kind != yaml.MappingNode {
		d.fail(n, at, "expected a mapping, got %s", describe(n))
		return
	}
	fields := m.Descriptor().Fields()
	seen := make(map[protoreflect.FieldNumber]*yaml.Node, len(n.Content)/2)
	oneofs := make(map[protoreflect.FullName]protoreflect.FieldDescriptor)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name, ok := d.key(key, at)
		if !ok {
			continue
		}
		fd := findField(fields, name)
		if fd == nil {
			d.fail(key, at.field(shorten(name)), "%s", unknownField(fields, name, d.meant.in(m.Descriptor(), name)))
			continue
		}
		at := at.field(fd.TextName())
		if first := seen[fd.Number()]; first != nil {
			d.fail(key, at, "expected each field once, got it again (first on line %d)", first.Line)
			continue
		}
		seen[fd.Number()] = key
		if isNull(value) && !takesNull(fd) {
			if follow(value).Value == "" { // as in the last line of a truncated file
				d.fail(key, at, "has no value: write one, or remove the line; null means that it is not set")
			}
			continue
		}
		if oneof := fd.ContainingOneof(); oneof != nil {
			if other := oneofs[oneof.FullName()]; other != nil {
				d.fail(key, at, "expected only one of the group %s, got this beside %s", oneof.Name(), other.TextName())
				continue
			}
			oneofs[oneof.FullName()] = fd
		}
		d.field(value, m, fd, at, depth+1)
	}
}

// key decodes a key of a mapping for a message or a Struct.
func (d *decoder) key(n *yaml.Node, at *path) (string, bool) {
	key := follow(n)
	switch {
	case key == nil || key.Kind != yaml.ScalarNode:
		d.fail(n, at, "expected a name as the key, got %s", describe(key))
		return "", false
	case key.ShortTag() == "!!merge":
		d.fail(n, at, `expected a name as the key, got the merge key "<<", which is not supported: repeat the fields`)
		return "", false
	case key.ShortTag() != "!!str" && key.ShortTag() != "!!timestamp":
		d.fail(n, at, "expected a name as the key, got %s (write it in quotes if it is meant as text)", describe(key))
		return "", false
	}
	return key.Value, true
}

// takesNull reports whether null is a value of the field, not its absence.
func takesNull(fd protoreflect.FieldDescriptor) bool {
	if fd.IsList() || fd.IsMap() {
		return false
	}
	switch {
	case fd.Kind() == protoreflect.EnumKind:
		return fd.Enum().FullName() == "google.protobuf.NullValue"
	case fd.Message() != nil:
		return fd.Message().FullName() == "google.protobuf.Value"
	}
	return false
}

func (d *decoder) field(n *yaml.Node, m protoreflect.Message, fd protoreflect.FieldDescriptor, at *path, depth int) {
	switch {
	case fd.IsList():
		d.list(n, m.Mutable(fd).List(), fd, at, depth)
	case fd.IsMap():
		d.mapping(n, m.Mutable(fd).Map(), fd, at, depth)
	case fd.Message() != nil:
		d.message(n, m.Mutable(fd).Message(), at, depth)
	default:
		if v, ok := d.scalar(n, fd, at, depth); ok {
			m.Set(fd, v)
		}
	}
}

func (d *decoder) list(n *yaml.Node, list protoreflect.List, fd protoreflect.FieldDescriptor, at *path, depth int) {
	n, leave, ok := d.enter(n, at, depth)
	if !ok {
		return
	}
	defer leave()
	if n.Kind != yaml.SequenceNode {
		hint := ""
		if n.ShortTag() == "!!str" && fd.Kind() == protoreflect.StringKind {
			hint = fmt.Sprintf(" (a list of one is [%s])", describe(n))
		}
		d.fail(n, at, "expected a list of %s, got %s%s", plural(fd), describe(n), hint)
		return
	}
	for i, element := range n.Content {
		at := at.element(i)
		if fd.Message() != nil {
			d.message(element, list.AppendMutable().Message(), at, depth+1)
		} else if v, ok := d.scalar(element, fd, at, depth+1); ok {
			list.Append(v)
		}
	}
}

func (d *decoder) mapping(n *yaml.Node, m protoreflect.Map, fd protoreflect.FieldDescriptor, at *path, depth int) {
	n, leave, ok := d.enter(n, at, depth)
	if !ok {
		return
	}
	defer leave()
	if n.Kind != yaml.MappingNode {
		d.fail(n, at, "expected a mapping, got %s", describe(n))
		return
	}
	seen := make(map[any]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		keyNode, valueNode := n.Content[i], n.Content[i+1]
		if key := follow(keyNode); key != nil && key.ShortTag() == "!!merge" {
			d.key(keyNode, at) // reports the error
			continue
		}
		k, ok := d.scalar(keyNode, fd.MapKey(), at, depth+1)
		if !ok {
			continue
		}
		key := k.MapKey()
		at := at.entry(key.String())
		if first := seen[key.Interface()]; first != nil {
			d.fail(keyNode, at, "expected each key once, got it again (first on line %d)", first.Line)
			continue
		}
		seen[key.Interface()] = keyNode
		if fd.MapValue().Message() != nil {
			v := m.NewValue()
			d.message(valueNode, v.Message(), at, depth+1)
			m.Set(key, v)
		} else if v, ok := d.scalar(valueNode, fd.MapValue(), at, depth+1); ok {
			m.Set(key, v)
		}
	}
}

// describe describes a value for an error.
func describe(n *yaml.Node) string {
	if n = follow(n); n == nil {
		return "nothing"
	}
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "null"
	case "!!bool":
		return "the boolean " + shorten(n.Value)
	case "!!int", "!!float":
		return "the number " + shorten(n.Value)
	case "!!merge":
		return "a merge key"
	}
	return quoted(n.Value)
}

// quoted returns a text of the file for an error, quoted and shortened.
func quoted(s string) string { return strconv.Quote(shorten(s)) }

func shorten(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
