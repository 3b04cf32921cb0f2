// Package formschema checks the answer to an agent's form against the schema that came with it: as much of JSON Schema as
// ACP's elicitation forms have, an object of texts, numbers, booleans and choices.
//
// It knows schemas and values, and neither questions nor terminals: whoever takes an answer asks it, so that what one lets a
// person type is what the other accepts. A schema is the agent's, so that what it says is bounded here and never trusted;
// what of it is not known, or cannot be read, asks for nothing.
package formschema

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/mail"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxSchema is the longest schema that is looked at, in bytes. Answers to a longer one are not checked.
const maxSchema = 1 << 20

// Misfit is a value that is not what its schema asks for. Its text has what was expected and never the value, which may be
// a secret.
type Misfit struct {
	// Field is the field's name; empty where a value was checked alone.
	Field string
	// Missing: the field is required and was left out.
	Missing bool
	// Want is what was expected, for people.
	Want string
}

// Error says which field it is and what was expected.
func (m *Misfit) Error() string {
	switch {
	case m.Field == "":
		return "expected " + m.Want
	case m.Missing:
		return fmt.Sprintf("the field %s is required: expected %s", quoted(m.Field), m.Want)
	}
	return fmt.Sprintf("the field %s does not fit: expected %s", quoted(m.Field), m.Want)
}

// Fits checks a form's content against its schema, the requestedSchema of ACP's elicitation/create. The error is a *Misfit
// about the first field that does not fit, in the order of the content, then of those that are required and missing; another
// error where the content is no JSON object. Fields that the schema does not have are let through.
//
// Safe for concurrent use. The work is bounded, whatever the schema says.
func Fits(schema, content []byte) error {
	var form struct {
		Properties map[string]jsontext.Value `json:"properties"`
		Required   jsontext.Value            `json:"required"`
	}
	if len(schema) > maxSchema || json.Unmarshal(schema, &form, lenient) != nil {
		form.Properties = nil // it asks for nothing that can be known
	}
	c := checker{work: maxWork}
	members := map[string]bool{}
	d := jsontext.NewDecoder(bytes.NewReader(content), lenient)
	if tok, err := d.ReadToken(); err != nil || tok.Kind() != '{' {
		return errors.New("the content is not a JSON object")
	}
	for d.PeekKind() == '"' {
		tok, err := d.ReadToken()
		if err != nil {
			return fmt.Errorf("the content cannot be read: %w", err)
		}
		name := tok.String()
		value, err := d.ReadValue()
		if err != nil {
			return fmt.Errorf("the content cannot be read: %w", err)
		}
		members[name] = true
		property, known := form.Properties[name]
		if !known {
			continue
		}
		p := read(property)
		if !c.fits(p, value) {
			return &Misfit{Field: name, Want: p.want()}
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return fmt.Errorf("the content cannot be read: %w", err)
	}
	for _, name := range texts(form.Required) {
		// One that the form does not have could not be filled in by anybody.
		if property, known := form.Properties[name]; known && !members[name] {
			return &Misfit{Field: name, Missing: true, Want: read(property).want()}
		}
	}
	return nil
}

// FitsField checks one field's value, JSON, against its property of a form's schema. The error is a *Misfit without a name.
func FitsField(property, value []byte) error {
	if len(property) > maxSchema {
		return nil
	}
	p := read(property)
	c := checker{work: maxWork}
	if !c.fits(p, value) {
		return &Misfit{Want: p.want()}
	}
	return nil
}

// lenient reads what peers write: bytes that are no text are replaced. Names that stand twice are refused, for nobody can
// say which one counts.
var lenient = jsontext.AllowInvalidUTF8(true)

// property is a field's schema. What it does not say, or says in a way that is not known, is empty.
type property struct {
	kind      string // "string", "number", "integer", "boolean", "array"; anything else is not checked
	options   []string
	least     *float64 // of a number, of a text's length in characters, of how many are chosen
	most      *float64
	pattern   string
	format    string
	textItems bool // of an array: its items are texts, if not options
}

func read(schema []byte) *property {
	var s struct {
		Type      jsontext.Value `json:"type"`
		Enum      jsontext.Value `json:"enum"`
		OneOf     jsontext.Value `json:"oneOf"`
		AnyOf     jsontext.Value `json:"anyOf"`
		Items     jsontext.Value `json:"items"`
		MinLength jsontext.Value `json:"minLength"`
		MaxLength jsontext.Value `json:"maxLength"`
		Minimum   jsontext.Value `json:"minimum"`
		Maximum   jsontext.Value `json:"maximum"`
		MinItems  jsontext.Value `json:"minItems"`
		MaxItems  jsontext.Value `json:"maxItems"`
		Pattern   jsontext.Value `json:"pattern"`
		Format    jsontext.Value `json:"format"`
	}
	if json.Unmarshal(schema, &s, lenient) != nil {
		return &property{}
	}
	p := &property{kind: str(s.Type)}
	switch p.kind {
	case "string":
		p.least, p.most = num(s.MinLength), num(s.MaxLength)
		p.pattern, p.format = str(s.Pattern), str(s.Format)
		p.options = optionsOf(s.Enum, s.OneOf, s.AnyOf)
	case "number", "integer":
		p.least, p.most = num(s.Minimum), num(s.Maximum)
	case "array":
		p.least, p.most = num(s.MinItems), num(s.MaxItems)
		var items struct {
			Type  jsontext.Value `json:"type"`
			Enum  jsontext.Value `json:"enum"`
			OneOf jsontext.Value `json:"oneOf"`
			AnyOf jsontext.Value `json:"anyOf"`
		}
		if json.Unmarshal(s.Items, &items, lenient) == nil {
			p.options = optionsOf(items.Enum, items.OneOf, items.AnyOf)
			p.textItems = str(items.Type) == "string"
		}
	}
	return p
}

// optionsOf are the texts that can be chosen. None: nothing is known that would narrow the choice.
func optionsOf(enum jsontext.Value, constants ...jsontext.Value) []string {
	options := texts(enum)
	for _, list := range constants {
		var each []jsontext.Value
		if json.Unmarshal(list, &each, lenient) != nil {
			continue
		}
		for _, v := range each {
			var c struct {
				Const jsontext.Value `json:"const"`
			}
			if json.Unmarshal(v, &c, lenient) != nil || c.Const.Kind() != '"' {
				return nil // an alternative that is no constant may allow anything
			}
			options = append(options, str(c.Const))
		}
	}
	return options
}

// texts are the texts in a list.
func texts(v jsontext.Value) []string {
	var each []jsontext.Value
	if json.Unmarshal(v, &each, lenient) != nil {
		return nil
	}
	var list []string
	for _, e := range each {
		if e.Kind() == '"' {
			list = append(list, str(e))
		}
	}
	return list
}

// str is a text; empty if it is something else.
func str(v jsontext.Value) string {
	var s string
	if json.Unmarshal(v, &s, lenient) != nil {
		return ""
	}
	return s
}

// num is a number; nil if it is something else.
func num(v jsontext.Value) *float64 {
	if v.Kind() != '0' {
		return nil
	}
	n, err := strconv.ParseFloat(string(v), 64)
	if err != nil {
		return nil
	}
	return &n
}

// checker checks values. All patterns together may cost work.
type checker struct{ work int }

func (c *checker) fits(p *property, value jsontext.Value) bool {
	kind := value.Kind()
	switch p.kind {
	case "boolean":
		return kind == 't' || kind == 'f'
	case "number", "integer":
		if kind != '0' {
			return false
		}
		n, _ := strconv.ParseFloat(string(value), 64) // one that is too large is infinite
		return p.within(n) && (p.kind == "number" || n == math.Trunc(n) && !math.IsInf(n, 0))
	case "string":
		return kind == '"' && c.textFits(p, str(value))
	case "array":
		return kind == '[' && p.listFits(value)
	}
	return true
}

func (c *checker) textFits(p *property, text string) bool {
	if len(p.options) > 0 && !set(p.options)[text] {
		return false
	}
	return p.within(float64(utf8.RuneCountInString(text))) && formatted(p.format, text) && c.matches(p.pattern, text)
}

func (p *property) listFits(value jsontext.Value) bool {
	var list []jsontext.Value
	if json.Unmarshal(value, &list, lenient) != nil || !p.within(float64(len(list))) {
		return false
	}
	if len(p.options) == 0 && !p.textItems {
		return true
	}
	options := set(p.options)
	for _, v := range list {
		if v.Kind() != '"' || len(options) > 0 && !options[str(v)] {
			return false
		}
	}
	return true
}

func (p *property) within(n float64) bool {
	return (p.least == nil || n >= *p.least) && (p.most == nil || n <= *p.most)
}

func set(list []string) map[string]bool {
	m := make(map[string]bool, len(list))
	for _, s := range list {
		m[s] = true
	}
	return m
}

// formatted tells whether a text has one of the formats that ACP knows. Any text has another one.
func formatted(format, text string) bool {
	var err error
	switch format {
	case "email":
		var a *mail.Address
		if a, err = mail.ParseAddress(text); err == nil && a.Address != text {
			return false // it has a name or comments, too
		}
	case "uri":
		var u *url.URL
		if u, err = url.Parse(text); err == nil && u.Scheme == "" {
			return false
		}
	case "date":
		_, err = time.Parse(time.DateOnly, text)
	case "date-time":
		_, err = time.Parse(time.RFC3339, strings.ToUpper(text))
	}
	return err == nil
}

// matches tells whether a pattern is found in a text. One that Go does not know, or that would cost too much, is the
// agent's own to check.
func (c *checker) matches(pattern, text string) bool {
	if pattern == "" || len(pattern) > maxPattern {
		return true
	}
	size := programSize(pattern)
	if size == 0 || size > maxProgram || size*(len(text)+1) > c.work {
		return true
	}
	c.work -= size * (len(text) + 1)
	re, err := regexp.Compile(pattern)
	return err != nil || re.MatchString(text)
}
