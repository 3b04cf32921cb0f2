// Package form parses the schema of an agent's form, parses typed values for its fields, and validates the answer. It
// knows the part of JSON Schema that ACP's elicitation forms use: an object of texts, numbers, booleans and choices.
//
// The commands prompt and chat and the validation of answers use this package, so that the supervisor accepts every
// answer that the user can type. The package must not know questions or terminals. The schema comes from the agent: its
// texts are not safe to display, the work that it causes is limited, and unknown or invalid constraints are ignored.
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
	// maxSchema limits the bytes of a schema. Answers to a larger schema are not checked.
	maxSchema = 1 << 20
	// maxFields limits the fields of a form that users fill in.
	maxFields = 64
	// maxOptions limits the options of a field that users fill in.
	maxOptions = 1000
)

// Form is a parsed schema. Its methods do not modify it, and are safe for concurrent use.
type Form struct {
	// Fields are the form's fields, in the order of the schema, including those that users cannot fill in.
	Fields []*Field
	err    error
}

// Parse parses a form's schema, the requestedSchema of ACP's elicitation/create. It always returns a form: if the
// schema is invalid, the form has no fields, and Err is the reason. The work is limited for any schema.
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
	case err != nil: // the schema is valid JSON, so its properties are, too
		return &Form{err: fmt.Errorf("its schema cannot be read: %w", err)}
	case f.err == nil && len(f.Fields) > maxFields:
		f.err = fmt.Errorf("it has over %d fields", maxFields)
	}
	return f
}

// Err returns the reason why users cannot fill in the form, or nil.
func (f *Form) Err() error { return f.err }

// Check validates the form's content, a JSON object. The error is a *Misfit about the first invalid field, in the order
// of the content, then about the first missing required field, in the order of the schema; it is another error if the
// content is not a JSON object. Fields that are not in the schema are accepted.
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
			misfit = &ValidationError{Field: name, Want: x.Want()}
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
			return &ValidationError{Field: x.Name, Missing: true, Want: x.Want()}
		}
	}
	return nil
}

// Content returns the form's content as JSON: the values of Fields, in their order. A field whose value is nil is
// omitted.
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

// ValidationError is the error for an invalid value. Its text describes the expected value and never contains the
// value, which may be a secret.
type ValidationError struct {
	// Field is the field's name. It is empty if only one field was checked.
	Field string
	// Missing reports that a required field is missing.
	Missing bool
	// Want describes the expected value for users.
	Want string
}

// Error returns the field and the expected value.
func (m *ValidationError) Error() string {
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
