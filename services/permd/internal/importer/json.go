package importer

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tailscale/hujson"
)

// value is a JSON value from a text that may contain comments. The zero value is absent; all methods except raw accept
// it.
type value struct{ v hujson.ValueTrimmed }

func (v value) isSet() bool { return v.v != nil }

// member is a member of an object.
type member struct {
	name  string
	value value
}

// object is an object with its members in the order of JavaScript: names that are numbers first. One of the formats
// depends on this order.
type object []member

// readObject parses JSON with comments and trailing commas.
func readObject(content []byte) (object, error) {
	v, err := hujson.Parse(content)
	if err != nil {
		return nil, fmt.Errorf("expected JSON: %w", err)
	}
	o, ok := (value{v.Value}).object()
	if !ok {
		return nil, fmt.Errorf("expected an object")
	}
	if name := duplicate(value{v.Value}); name != "" {
		return nil, fmt.Errorf("expected each name once in an object, got %q again", name)
	}
	return o, nil
}

// duplicate returns a name that occurs twice in one object in v. Parsers differ in which of the two applies.
func duplicate(v value) string {
	if o, ok := v.object(); ok {
		seen := map[string]bool{}
		for _, m := range o {
			if seen[m.name] {
				return m.name
			}
			seen[m.name] = true
			if name := duplicate(m.value); name != "" {
				return name
			}
		}
	}
	list, _ := v.list()
	for _, element := range list {
		if name := duplicate(element); name != "" {
			return name
		}
	}
	return ""
}

func (v value) object() (object, bool) {
	from, ok := v.v.(*hujson.Object)
	if !ok {
		return nil, false
	}
	var numbers, others object
	for i := range from.Members {
		m := &from.Members[i]
		name, _ := m.Name.Value.(hujson.Literal)
		named := member{name: name.String(), value: value{m.Value.Value}}
		if isIndex(named.name) {
			numbers = append(numbers, named)
		} else {
			others = append(others, named)
		}
	}
	slices.SortStableFunc(numbers, func(a, b member) int { return index(a.name) - index(b.name) })
	return append(numbers, others...), true
}

// isIndex reports whether JavaScript sorts a name to the front.
func isIndex(name string) bool {
	n, err := strconv.ParseUint(name, 10, 32)
	return err == nil && n < 1<<32-1 && strconv.FormatUint(n, 10) == name
}

func index(name string) int {
	n, _ := strconv.Atoi(name)
	return n
}

func (v value) list() ([]value, bool) {
	from, ok := v.v.(*hujson.Array)
	if !ok {
		return nil, false
	}
	list := make([]value, len(from.Elements))
	for i := range from.Elements {
		list[i] = value{from.Elements[i].Value}
	}
	return list, true
}

// string returns a text; false: the value is not a text.
func (v value) string() (string, bool) {
	lit, ok := v.v.(hujson.Literal)
	if !ok || lit.Kind() != '"' {
		return "", false
	}
	return lit.String(), true
}

// text returns a text; empty: the value is not a text.
func (v value) text() string {
	s, _ := v.string()
	return s
}

// raw returns the value as text for people.
func (v value) raw() string {
	if s, ok := v.string(); ok {
		return s
	}
	return truncate(hujson.Value{Value: v.v}.String(), 200)
}

func (o object) get(name string) value {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return value{}
}
