package form

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Kind is the type of a field's value.
type Kind int

const (
	// Unknown is a field that users cannot fill in. Any value is accepted.
	Unknown Kind = iota
	// Text is any text.
	Text
	// Number is a number.
	Number
	// Integer is an integer.
	Integer
	// Bool is a boolean.
	Bool
	// One is one of the options.
	One
	// Many is any number of the options.
	Many
)

// Option is a text of a choice.
type Option struct {
	// Value is sent to the agent, Title is shown to the user.
	Value, Title string
}

// Field is a property of a form's schema. Its texts are unchanged texts of the agent.
type Field struct {
	Name     string
	Title    string // the name, if the schema has no title
	About    string // the description; may be empty
	Kind     Kind
	Required bool
	Options  []Option       // of One and Many
	Default  jsontext.Value // a valid value, or nil
	Format   string         // of Text: "email", "uri", "date", "date-time", or a format that is not checked

	minimum   *float64 // minimum of a number, of a text's length in characters, or of the number of chosen options
	maximum   *float64
	pattern   string
	textItems bool // of Many: its items are texts
	err       error
}

// schema is an object of a form's schema, by the names of its members.
type schema map[string]jsontext.Value

func newField(name string, property jsontext.Value) *Field {
	var s schema
	f := &Field{Name: name, Title: name}
	if json.Unmarshal(property, &s, lenient) != nil || s["type"] != nil && s["type"].Kind() != '"' {
		f.err = fmt.Errorf("its field %s cannot be read", quoted(name))
		return f
	}
	f.Title, f.About, f.Default = cmp.Or(strings.TrimSpace(text(s["title"])), name), text(s["description"]), s["default"]
	kind := text(s["type"])
	if s["type"] == nil {
		// Without a type any value is valid, unless the schema lists all options, and all of them are texts.
		if list, all := s.options(); len(list) > 0 && all {
			kind = "string"
		}
	}
	switch kind {
	case "string":
		f.Kind = Text
		f.minimum, f.maximum = number(s["minLength"]), number(s["maxLength"])
		f.pattern, f.Format = text(s["pattern"]), text(s["format"])
		if f.Options, _ = s.options(); len(f.Options) > 0 {
			f.Kind = One
		}
	case "number", "integer":
		f.Kind = Number
		if kind == "integer" {
			f.Kind = Integer
		}
		f.minimum, f.maximum = number(s["minimum"]), number(s["maximum"])
	case "boolean":
		f.Kind = Bool
	case "array":
		f.Kind = Many
		f.minimum, f.maximum = number(s["minItems"]), number(s["maxItems"])
		var items schema
		if json.Unmarshal(s["items"], &items, lenient) == nil {
			f.Options, _ = items.options()
			f.textItems = text(items["type"]) == "string"
		}
		if len(f.Options) == 0 {
			f.err = fmt.Errorf("its field %s has nothing to choose from", quoted(name))
		}
	default:
		f.err = fmt.Errorf("its field %s is of a kind that acphost does not know: %s", quoted(name), quoted(kind))
	}
	if len(f.Options) > maxOptions {
		f.err = fmt.Errorf("its field %s has over %d choices", quoted(name), maxOptions)
	}
	return f
}

// options returns the texts that can be chosen. It returns none if the choice is not restricted. all reports whether
// the list is complete.
func (s schema) options() (list []Option, all bool) {
	all = true
	names := elements(s["enumNames"])
	for i, v := range elements(s["enum"]) {
		if v.Kind() != '"' {
			all = false
			continue
		}
		o := Option{Value: text(v)}
		if i < len(names) {
			o.Title = text(names[i])
		}
		list = append(list, o)
	}
	for _, alternatives := range []jsontext.Value{s["oneOf"], s["anyOf"]} {
		for _, v := range elements(alternatives) {
			var c schema
			if json.Unmarshal(v, &c, lenient) != nil || c["const"].Kind() != '"' {
				return nil, false // an alternative without a constant may allow any value
			}
			list = append(list, Option{Value: text(c["const"]), Title: text(c["title"])})
		}
	}
	for i := range list {
		list[i].Title = cmp.Or(list[i].Title, list[i].Value)
	}
	return list, all
}

// setDefault sets the default if it is certain to be valid.
func (f *Field) setDefault(c *checker) {
	d := f.Default
	f.Default, c.skipped = nil, false
	// Invalid UTF-8 is replaced first, so that the checked value is the value that is sent.
	if f.err != nil || d == nil || d.Format(lenient) != nil || !c.fits(f, d) || c.skipped {
		return
	}
	if f.Kind == Number || f.Kind == Integer {
		d, _ = f.number(string(d)) // formatted as typed input, or nil if that is impossible
	}
	f.Default = d
}

// lenient replaces invalid UTF-8. Duplicate names are rejected, because parsers differ about which one counts.
var lenient = jsontext.AllowInvalidUTF8(true)

// text returns a string, or "" for another value.
func text(v jsontext.Value) string {
	s, _ := acp.String(v)
	return s
}

// texts returns a string, or the strings of a list.
func texts(v jsontext.Value) []string {
	if v.Kind() == '"' {
		return []string{text(v)}
	}
	var list []string
	for _, e := range elements(v) {
		if e.Kind() == '"' {
			list = append(list, text(e))
		}
	}
	return list
}

// elements returns the elements of a list, or none for another value.
func elements(v jsontext.Value) []jsontext.Value {
	var list []jsontext.Value
	if json.Unmarshal(v, &list, lenient) != nil {
		return nil
	}
	return list
}

// number returns a number, or nil for another value.
func number(v jsontext.Value) *float64 {
	if v.Kind() != '0' {
		return nil
	}
	n, err := strconv.ParseFloat(string(v), 64)
	if err != nil {
		return nil
	}
	return &n
}

// encode returns a string, or a list of strings, as JSON.
func encode(v any) jsontext.Value {
	b, _ := json.Marshal(v, lenient) // cannot fail
	return b
}
