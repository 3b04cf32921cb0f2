package yamlproto

import "go.yaml.in/yaml/v3"

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
