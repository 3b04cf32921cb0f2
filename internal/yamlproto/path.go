package yamlproto

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/acphost/acphost/internal/lazyregexp"
)

// path is the path of a value in the document, a linked list, so that each level costs one small allocation and only
// errors need the text.
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

// Position returns the line and the column, both counted from 1, of a field's value. field is a path as for Errorf. The
// position of a list or a mapping is that of its first element. If the field is not in the file, Position returns that
// of the innermost part of the path that is, and 1:1 for an empty file.
func (d *Document) Position(field string) (line, column int) {
	if follow(d.root) == nil {
		return 1, 1
	}
	// The position is where this value is written, even if it is an alias of a value elsewhere.
	innermost, _ := d.find(field)
	return place(innermost)
}

// find returns the value at a path, as written there. If all is false, the path is not complete in the file, and at is
// its innermost part.
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

// cutSegment cuts the first part from a path: a name, or an index of 0 or more. For an invalid part it returns "" and
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

// child returns the value at a part of a path, as cutSegment returns it, in a mapping or a list; nil if none exists.
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

// follow returns the value of an alias, and any other value unchanged.
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
