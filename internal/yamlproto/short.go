package yamlproto

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// ExpandList accepts a list in the place of a message: if the value of field is a list, it is replaced by the mapping
// {name: list}. Other values, and a field that is not in the file, are unchanged. field is a path as for Errorf. The
// list keeps its position, so errors have the position in the file; their fields contain name. ExpandList changes the
// document: call it before Decode, and not concurrently.
func (d *Document) ExpandList(field, name string) {
	d.expand(field, func(n *yaml.Node) *yaml.Node {
		if follow(n).Kind != yaml.SequenceNode {
			return n
		}
		return wrap(n, name)
	})
}

// ExpandTexts accepts text in the place of messages: each text in the list at field is replaced by the mapping {name:
// [text]}. Other elements, and a field that is not a list, are unchanged. Otherwise it is like ExpandList.
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

// ExpandMap accepts single values in the place of messages: each text, number or boolean in the mapping at field is
// replaced by the mapping {name: value}. Other values, including null, and a field that is not a mapping, are
// unchanged. Otherwise it is like ExpandList.
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

// Len returns the number of elements of the list at field; 0 if it is not a list. field is a path as for Errorf.
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

// expand replaces the value of field by the result of change. It copies values on the path that are reached through an
// alias, because the same value may be used elsewhere.
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

// slot returns the pointer to the value that child finds.
func slot(n *yaml.Node, name string, index int) **yaml.Node {
	value := child(n, name, index)
	return &n.Content[slices.Index(n.Content, value)]
}

// own returns a copy of a value with replaceable parts, at the position of the value or of its alias.
func own(n *yaml.Node) *yaml.Node {
	c := *follow(n)
	c.Line, c.Column = n.Line, n.Column
	c.Anchor, c.Content = "", slices.Clone(c.Content)
	return &c
}

// wrap returns the mapping {name: value}, at value's position.
func wrap(value *yaml.Node, name string) *yaml.Node {
	line, column := place(value)
	key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name, Line: line, Column: column}
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: line, Column: column, Content: []*yaml.Node{key, value}}
}
