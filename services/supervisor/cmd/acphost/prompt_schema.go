package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acphost/acphost/services/supervisor/internal/formschema"
	"github.com/acphost/acphost/services/supervisor/internal/render"
)

// Bounds of a form's schema.
const (
	maxFields  = 64
	maxOptions = 200
)

// field is a property of a form.
type field struct {
	name     string
	required bool
	kind     string // "string", "number", "integer", "boolean", "array"
	title    string
	about    string
	options  []fieldOption // of an enum or a multi-select
	def      jsontext.Value

	min, max       float64 // of numbers; of a text's length; of how many are selected
	hasMin, hasMax bool
	format         string
	schema         jsontext.Value
}

type fieldOption struct{ value, title string }

// schema is what is read of a property's JSON schema.
type schema struct {
	Type        string         `json:"type"`
	Title       string         `json:"title"`
	Description string         `json:"description"`
	Enum        []string       `json:"enum"`
	EnumNames   []string       `json:"enumNames"`
	OneOf       []constant     `json:"oneOf"`
	AnyOf       []constant     `json:"anyOf"`
	Items       *schema        `json:"items"`
	Default     jsontext.Value `json:"default"`
	Format      string         `json:"format"`
	MinLength   *float64       `json:"minLength"`
	MaxLength   *float64       `json:"maxLength"`
	Minimum     *float64       `json:"minimum"`
	Maximum     *float64       `json:"maximum"`
	MinItems    *float64       `json:"minItems"`
	MaxItems    *float64       `json:"maxItems"`
}

type constant struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// parseForm reads a form's JSON schema: an object whose properties are texts, numbers, booleans, enums and multi-selects, in
// the order that they stand in.
func parseForm(raw string) ([]*field, error) {
	var form struct {
		Properties jsontext.Value `json:"properties"`
		Required   []string       `json:"required"`
	}
	if err := json.Unmarshal([]byte(raw), &form); err != nil {
		return nil, fmt.Errorf("its schema cannot be read: %w", err)
	}
	if len(form.Properties) == 0 || form.Properties.Kind() == 'n' {
		return nil, nil
	}
	dec := jsontext.NewDecoder(strings.NewReader(string(form.Properties)))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return nil, errors.New("its schema has no properties that can be read")
	}
	var fields []*field
	for dec.PeekKind() == '"' {
		tok, err := dec.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("its schema cannot be read: %w", err)
		}
		name := tok.String()
		property, err := dec.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("its field %q cannot be read: %w", render.CleanLine(name), err)
		}
		f, err := newField(name, property.Clone())
		if err != nil {
			return nil, err
		}
		f.required = slices.Contains(form.Required, name)
		if fields = append(fields, f); len(fields) > maxFields {
			return nil, fmt.Errorf("it has over %d fields", maxFields)
		}
	}
	return fields, nil
}

func newField(name string, property jsontext.Value) (*field, error) {
	s := &schema{}
	if err := json.Unmarshal(property, s); err != nil {
		return nil, fmt.Errorf("its field %q cannot be read: %w", render.CleanLine(name), err)
	}
	f := &field{name: name, kind: s.Type, title: cmp.Or(s.Title, name), about: s.Description, def: s.Default, format: s.Format, schema: property}
	bound := func(low, high *float64) {
		if low != nil {
			f.min, f.hasMin = *low, true
		}
		if high != nil {
			f.max, f.hasMax = *high, true
		}
	}
	switch s.Type {
	case "string":
		bound(s.MinLength, s.MaxLength)
		f.options = optionsOf(s)
	case "number", "integer":
		bound(s.Minimum, s.Maximum)
	case "boolean":
	case "array":
		bound(s.MinItems, s.MaxItems)
		if s.Items != nil {
			f.options = optionsOf(s.Items)
		}
		if len(f.options) == 0 {
			return nil, fmt.Errorf("its field %q has nothing to choose from", render.CleanLine(name))
		}
	default:
		return nil, fmt.Errorf("its field %q is of a kind that acphost does not know: %q", render.CleanLine(name), render.CleanLine(s.Type))
	}
	if len(f.def) > 0 && formschema.FitsField(property, f.def) != nil {
		f.def = nil
	}
	if len(f.options) > maxOptions {
		return nil, fmt.Errorf("its field %q has over %d choices", render.CleanLine(name), maxOptions)
	}
	return f, nil
}

func optionsOf(s *schema) []fieldOption {
	var list []fieldOption
	for i, v := range s.Enum {
		title := ""
		if i < len(s.EnumNames) {
			title = s.EnumNames[i]
		}
		list = append(list, fieldOption{v, cmp.Or(title, v)})
	}
	for _, c := range slices.Concat(s.OneOf, s.AnyOf) {
		list = append(list, fieldOption{c.Const, cmp.Or(c.Title, c.Const)})
	}
	return list
}
