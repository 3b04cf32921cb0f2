package yamlproto

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/acphost/acphost/internal/lazyregexp"
)

// path is the way from the document to a value, kept as a linked list so that descending costs one small allocation and
// only an error pays for the text.
type path struct {
	up    *path
	name  string // a field or a map key
	key   bool   // name is a map key
	index int    // an element of a list, where name is empty and key is false
}

func (p *path) field(name string) *path { return &path{up: p, name: name} }
func (p *path) entry(key string) *path  { return &path{up: p, name: key, key: true} }
func (p *path) element(i int) *path     { return &path{up: p, index: i} }

var plainKey = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_-]*$`)

func (p *path) String() string {
	if p == nil {
		return ""
	}
	up := p.up.String()
	switch {
	case p.key && !plainKey.MatchString(p.name):
		return up + "[" + strconv.Quote(p.name) + "]"
	case p.key || p.name != "":
		if up == "" {
			return p.name
		}
		return up + "." + p.name
	default:
		return up + "[" + strconv.Itoa(p.index) + "]"
	}
}

// Position finds the line and the column, both counted from 1, of a field's value. field is a path as Errorf takes it.
// A list or a mapping stands where its first element does. Where the field does not stand in the file, the place is
// that of the innermost part of the path that does, and 1:1 for an empty file.
func (d *Document) Position(field string) (line, column int) {
	if follow(d.root) == nil {
		return 1, 1
	}
	// The place is where the value is spelled here, even if that is an alias of something written elsewhere.
	innermost, _ := d.find(field)
	return place(innermost)
}

// find returns the value at a path, as it is spelled there. Not all: the whole path does not stand in the file, and at
// is the innermost part of it that does.
func (d *Document) find(field string) (at *yaml.Node, all bool) {
	for at = d.root; field != ""; {
		name, index, rest := cutSegment(field)
		next := child(follow(at), name, index)
		if next == nil {
			return at, false
		}
		at, field = next, rest
	}
	return at, follow(at) != nil
}

func place(n *yaml.Node) (line, column int) { return max(n.Line, 1), max(n.Column, 1) }

// cutSegment takes the first part off a path: a name, or an index of 0 and more. A part that is neither gives "" and
// -1.
func cutSegment(field string) (name string, index int, rest string) {
	field = strings.TrimPrefix(field, ".")
	if !strings.HasPrefix(field, "[") {
		if end := strings.IndexAny(field, ".["); end >= 0 {
			return field[:end], -1, field[end:]
		}
		return field, -1, ""
	}
	if quoted, err := strconv.QuotedPrefix(field[1:]); err == nil {
		name, _ := strconv.Unquote(quoted)
		return name, -1, strings.TrimPrefix(field[1+len(quoted):], "]")
	}
	end := strings.IndexByte(field, ']')
	if end < 0 {
		return "", -1, ""
	}
	index, err := strconv.Atoi(field[1:end])
	if err != nil || index < 0 {
		return "", -1, ""
	}
	return "", index, field[end+1:]
}

// child is what a mapping or a list has at a part of a path, as cutSegment returns it; nil: nothing.
func child(n *yaml.Node, name string, index int) *yaml.Node {
	switch {
	case n == nil, name == "" && index < 0:
		return nil
	case index >= 0:
		if n.Kind == yaml.SequenceNode && index < len(n.Content) {
			return n.Content[index]
		}
		return nil
	case n.Kind != yaml.MappingNode:
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := follow(n.Content[i]); key != nil && (key.Value == name || key.Value == jsonName(name)) {
			return n.Content[i+1]
		}
	}
	return nil
}

// follow returns what an alias stands for, and anything else as it is.
func follow(n *yaml.Node) *yaml.Node {
	for hops := 0; n != nil && n.Kind == yaml.AliasNode; hops++ {
		if hops == maxDepth {
			return nil
		}
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool {
	n = follow(n)
	return n == nil || (n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null")
}
