// Package form reads the schema of an agent's form, reads what a person types for its fields, and checks the answer. It
// knows the part of JSON Schema that ACP's elicitation forms have: an object of texts, numbers, booleans and choices.
//
// The prompt, the chat and the check of answers use this package, so that the supervisor accepts what a person can fill in.
// The package knows neither questions nor terminals. The schema comes from the agent: its texts are not safe to show, the
// work that it causes is bounded, and a constraint that is unknown or cannot be read is ignored.
package form

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

const (
	// maxSchema is the longest schema that is looked at, in bytes. Answers to a longer one are not checked.
	maxSchema = 1 << 20
	// maxFields is how many fields a form may have that a person fills in.
	maxFields = 64
	// maxOptions is how many options a field may have that a person fills in.
	maxOptions = 1000
)

// Form is a schema that was read. Its methods do not change it, and are safe for concurrent use.
type Form struct {
	// Fields are the form's fields, in the order of the schema; also those that a person cannot fill in.
	Fields []*Field
	err    error
}

// Parse reads a form's schema, the requestedSchema of ACP's elicitation/create. It always returns a form: if the schema
// cannot be read, the form has no fields, and Err says why. The work is bounded, whatever the schema says.
func Parse(text []byte) *Form {
	if len(text) > maxSchema {
		return &Form{err: fmt.Errorf("its schema is longer than %d bytes", maxSchema)}
	}
	var s schema
	if err := json.Unmarshal(text, &s, lenient); err != nil {
		return &Form{err: fmt.Errorf("its schema cannot be read: %w", err)}
	}
	switch s["properties"].Kind() {
	case jsontext.KindInvalid, 'n':
		return &Form{}
	case '{':
	default:
		return &Form{err: errors.New("its schema has no properties that can be read")}
	}
	required := map[string]bool{}
	for _, name := range texts(s["required"]) {
		required[name] = true
	}
	f := &Form{}
	c := newChecker()
	err := acp.Members(s["properties"], func(name string, property []byte) bool {
		x := newField(name, property)
		x.Required = required[name]
		if len(f.Fields) < maxFields {
			x.setDefault(c)
		}
		f.Fields = append(f.Fields, x)
		if x.err != nil && f.err == nil {
			f.err = x.err
		}
		return true
	})
	switch {
	case err != nil: // the schema was read above, so that its properties can be
		return &Form{err: fmt.Errorf("its schema cannot be read: %w", err)}
	case f.err == nil && len(f.Fields) > maxFields:
		f.err = fmt.Errorf("it has over %d fields", maxFields)
	}
	return f
}

// Err says why a person cannot fill in the form; nil if one can.
func (f *Form) Err() error { return f.err }

// Check checks the form's content, a JSON object. The error is a *Misfit about the first field that does not fit, in the
// order of the content, then about the first that is required and missing, in the order of the schema; another error if the
// content is no JSON object. Fields that the schema does not have are let through.
func (f *Form) Check(content []byte) error {
	if jsontext.Value(content).Kind() != '{' {
		return errors.New("the content is not a JSON object")
	}
	fields := make(map[string]*Field, len(f.Fields))
	for _, x := range f.Fields {
		fields[x.Name] = x
	}
	filled := map[string]bool{}
	var misfit error
	c := newChecker()
	err := acp.Members(content, func(name string, value []byte) bool {
		filled[name] = true
		if x := fields[name]; x != nil && !c.fits(x, value) {
			misfit = &Misfit{Field: name, Want: x.Want()}
		}
		return misfit == nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("the content cannot be read: %w", err)
	case misfit != nil:
		return misfit
	}
	for _, x := range f.Fields {
		if x.Required && !filled[x.Name] {
			return &Misfit{Field: x.Name, Missing: true, Want: x.Want()}
		}
	}
	return nil
}

// Content returns the form's content as JSON: the values of Fields, in their order. A field whose value is nil is left out.
func (f *Form) Content(values []jsontext.Value) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, v := range values {
		if v == nil {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(encode(f.Fields[i].Name))
		b.WriteByte(':')
		b.Write(v)
	}
	b.WriteByte('}')
	return b.String()
}

// Misfit is a value that is not what its schema asks for. Its text has what was expected and never the value, which may be
// a secret.
type Misfit struct {
	// Field is the field's name; empty if a field was checked alone.
	Field string
	// Missing: the field is required and was left out.
	Missing bool
	// Want is what was expected, for people.
	Want string
}

// Error says which field it is and what was expected.
func (m *Misfit) Error() string {
	switch {
	case m.Field == "" && m.Missing:
		return "it is required"
	case m.Field == "":
		return "expected " + m.Want
	case m.Missing:
		return fmt.Sprintf("the field %s is required: expected %s", quoted(m.Field), m.Want)
	}
	return fmt.Sprintf("the field %s does not fit: expected %s", quoted(m.Field), m.Want)
}
