package yamlproto

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// ExpandList gives a list in the place of a message a meaning: where the value of field is a list, it is taken as the
// mapping {name: list}. Anything else stays as it is, and so does a field that does not stand in the file. field is a
// path as Errorf takes it. The list keeps its place, so that errors point to what the file says; in their fields it has
// the name that it stands for. ExpandList changes the document: it is called before Decode, and not concurrently.
func (d *Document) ExpandList(field, name string) {
	d.expand(field, func(n *yaml.Node) *yaml.Node {
		if follow(n).Kind != yaml.SequenceNode {
			return n
		}
		return wrap(n, name)
	})
}

// ExpandTexts gives text in the place of messages a meaning: each element of the list at field that is text is taken as
// the mapping {name: [text]}. Elements of other kinds stay as they are, and so does a field that is no list. All else
// is as for ExpandList.
func (d *Document) ExpandTexts(field, name string) {
	d.expand(field, func(n *yaml.Node) *yaml.Node {
		list := follow(n)
		if list.Kind != yaml.SequenceNode {
			return n
		}
		list = own(n)
		for i, element := range list.Content {
			text := follow(element)
			if text == nil || text.Kind != yaml.ScalarNode || text.ShortTag() != "!!str" {
				continue
			}
			line, column := place(element)
			list.Content[i] = wrap(&yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: line, Column: column,
				Content: []*yaml.Node{element}}, name)
		}
		return list
	})
}

// ExpandMap gives single values in the place of messages a meaning: each value of the mapping at field that is text, a
// number or a word such as true is taken as the mapping {name: value}. Other values stay as they are, null among them,
// and so does a field that is no mapping. All else is as for ExpandList.
func (d *Document) ExpandMap(field, name string) {
	d.expand(field, func(n *yaml.Node) *yaml.Node {
		if follow(n).Kind != yaml.MappingNode {
			return n
		}
		mapping := own(n)
		for i := 1; i < len(mapping.Content); i += 2 {
			if value := follow(mapping.Content[i]); value != nil && value.Kind == yaml.ScalarNode && !isNull(value) {
				mapping.Content[i] = wrap(mapping.Content[i], name)
			}
		}
		return mapping
	})
}

// Len returns how many elements the list at field has; 0 where there is no list. field is a path as Errorf takes it.
func (d *Document) Len(field string) int {
	if n, all := d.find(field); all && follow(n).Kind == yaml.SequenceNode {
		return len(follow(n).Content)
	}
	return 0
}

// Given reports whether the file sets the field to a value, which may be empty. field is a path, as for Errorf.
func (d *Document) Given(field string) bool {
	n, all := d.find(field)
	return all && !isNull(n)
}

// expand puts what change makes of the value of field in its place. The way there is copied where it leads through an
// alias, since the same value may stand elsewhere in another meaning.
func (d *Document) expand(field string, change func(*yaml.Node) *yaml.Node) {
	if _, all := d.find(field); !all {
		return
	}
	at := &d.root
	for field != "" {
		name, index, rest := cutSegment(field)
		*at = own(*at)
		at, field = slot(*at, name, index), rest
	}
	*at = change(*at)
}

// slot is where a mapping or a list keeps the value that child finds.
func slot(n *yaml.Node, name string, index int) **yaml.Node {
	value := child(n, name, index)
	return &n.Content[slices.Index(n.Content, value)]
}

// own returns a copy of a value whose parts can be replaced, at the place where it is spelled or its alias is.
func own(n *yaml.Node) *yaml.Node {
	c := *follow(n)
	c.Line, c.Column = n.Line, n.Column
	c.Anchor, c.Content = "", slices.Clone(c.Content)
	return &c
}

// wrap returns the mapping {name: value}, in value's place.
func wrap(value *yaml.Node, name string) *yaml.Node {
	line, column := place(value)
	key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name, Line: line, Column: column}
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: line, Column: column, Content: []*yaml.Node{key, value}}
}
