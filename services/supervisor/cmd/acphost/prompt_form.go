package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/formschema"
	"github.com/acphost/acphost/services/supervisor/internal/render"
)

// maxTyped is how much can be typed for a field, in characters.
const maxTyped = 4096

// formDialog is a form, asked for field by field.
type formDialog struct {
	fields  []*field
	broken  error // why it cannot be asked for
	begun   bool
	at      int
	typed   []rune
	content []jsontext.Value // of fields before at; nil: left out
}

func newFormDialog(e *supervisorv1.Elicitation) *formDialog {
	d := &formDialog{}
	d.fields, d.broken = parseForm(e.GetRequestedSchema())
	return d
}

func (d *formDialog) intro() string {
	if d.broken != nil {
		return "    The form cannot be shown: " + render.Clean(d.broken.Error()) + "\n"
	}
	return ""
}

func (d *formDialog) line() string {
	switch {
	case d.broken != nil:
		return "Press d to decline "
	case !d.begun:
		return fmt.Sprintf("A form of %d fields. Press Enter to fill it in, d to decline: ", len(d.fields))
	case d.at == len(d.fields):
		return "Press Enter to send the form, Esc to begin again, d to decline: "
	}
	f := d.fields[d.at]
	typed := string(d.typed)
	if n := utf8.RuneCountInString(typed); n > 60 { // its end is what is looked at
		typed = "…" + string(d.typed[n-60:])
	}
	return render.Fit(render.CleanLine(f.title), 40) + f.hint() + ": " + render.Clean(typed)
}

// hint says how to answer a field.
func (f *field) hint() string {
	var parts []string
	switch {
	case f.kind == "boolean":
		parts = append(parts, "y or n")
	case f.kind == "array":
		parts = append(parts, "numbers, with commas")
	case len(f.options) > 0:
		parts = append(parts, "a number")
	case f.kind == "number" || f.kind == "integer":
		parts = append(parts, f.kind)
	case f.format != "":
		parts = append(parts, render.Fit(render.CleanLine(f.format), 20))
	}
	switch {
	case len(f.def) > 0:
		parts = append(parts, "Enter: "+render.Fit(render.CleanLine(f.shown(f.def)), 30))
	case !f.required:
		parts = append(parts, "Enter: leave out")
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, "; ") + ")"
}

// shown is a value for people.
func (f *field) shown(v jsontext.Value) string {
	var text string
	if json.Unmarshal(v, &text) == nil {
		for _, op := range f.options {
			if op.value == text {
				return op.title
			}
		}
		return text
	}
	var list []string
	if json.Unmarshal(v, &list) == nil {
		return strings.Join(list, ", ")
	}
	return string(v)
}

// describe is what is printed before a field is asked for.
func (f *field) describe() string {
	var b strings.Builder
	if f.about != "" {
		fmt.Fprintf(&b, "    %s: %s\n", render.CleanLine(f.title), render.CleanLine(f.about))
	}
	for i, op := range f.options {
		fmt.Fprintf(&b, "    [%d] %s\n", i+1, render.CleanLine(op.title))
	}
	return b.String()
}

func (d *formDialog) key(k key) (string, *supervisorv1.AnswerApprovalRequest) {
	reviewing := d.begun && d.at == len(d.fields)
	if d.broken != nil || !d.begun || reviewing {
		switch {
		case k.name == keyRune && k.r == 'd':
			return "", decline()
		case d.broken != nil:
		case k.name == keyEscape && reviewing, k.name == keyEnter && !d.begun:
			d.begun, d.at, d.content, d.typed = true, 0, nil, nil
			return d.describe(), nil
		case k.name == keyEnter:
			return "", accept(d.object())
		}
		return "", nil
	}
	switch k.name {
	case keyRune:
		if len(d.typed) < maxTyped {
			d.typed = append(d.typed, k.r)
		}
	case keyBackspace:
		d.typed = d.typed[:max(0, len(d.typed)-1)]
	case keyKill:
		d.typed = nil
	case keyEscape:
		d.begun = false
	case keyEnter:
		return d.enter(), nil
	}
	return "", nil
}

func (d *formDialog) describe() string {
	if d.at < len(d.fields) {
		return d.fields[d.at].describe()
	}
	return ""
}

// enter takes what was typed for a field.
func (d *formDialog) enter() string {
	f := d.fields[d.at]
	value, err := f.parse(string(d.typed))
	if err == nil && value != nil {
		err = formschema.FitsField(f.schema, value) // what the supervisor will ask of it
	}
	if err != nil {
		return "    " + render.CleanLine(err.Error()) + "\n"
	}
	said := "(left out)"
	if value != nil {
		said = f.shown(value)
	}
	d.content = append(d.content, value)
	d.at++
	d.typed = nil
	return "    " + render.CleanLine(f.title) + ": " + render.CleanLine(said) + "\n" + d.describe()
}

// parse is the value that was typed; nil: the field is left out.
func (f *field) parse(typed string) (jsontext.Value, error) {
	if strings.TrimSpace(typed) == "" {
		switch {
		case len(f.def) > 0:
			return f.def, nil
		case f.required:
			return nil, errors.New("it cannot be left out")
		}
		return nil, nil
	}
	if len(f.options) > 0 {
		return f.choose(typed)
	}
	switch f.kind {
	case "boolean":
		switch strings.ToLower(strings.TrimSpace(typed)) {
		case "y", "yes", "true", "on", "1":
			return jsontext.Value("true"), nil
		case "n", "no", "false", "off", "0":
			return jsontext.Value("false"), nil
		}
		return nil, errors.New("answer y or n")
	case "integer":
		n, err := strconv.ParseInt(strings.TrimSpace(typed), 10, 64)
		if err != nil {
			return nil, errors.New("that is no whole number")
		}
		return jsontext.Value(strconv.FormatInt(n, 10)), f.within(float64(n), "")
	case "number":
		n, err := strconv.ParseFloat(strings.TrimSpace(typed), 64)
		if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
			return nil, errors.New("that is no number")
		}
		return jsontext.Value(strconv.FormatFloat(n, 'g', -1, 64)), f.within(n, "")
	}
	return marshalled(typed), f.within(float64(utf8.RuneCountInString(typed)), " characters")
}

// choose takes the numbers of options, or the option itself.
func (f *field) choose(typed string) (jsontext.Value, error) {
	words := []string{strings.TrimSpace(typed)}
	if f.kind == "array" {
		words = strings.FieldsFunc(typed, func(r rune) bool { return r == ',' || r == ' ' || r == ';' })
	}
	chosen := []string{}
	for _, word := range words {
		i := slices.IndexFunc(f.options, func(op fieldOption) bool { return op.value == word || strings.EqualFold(op.title, word) })
		if n, err := strconv.Atoi(word); err == nil && n >= 1 && n <= len(f.options) {
			i = n - 1
		}
		if i < 0 {
			return nil, fmt.Errorf("answer with numbers from 1 to %d, not %q", len(f.options), render.CleanLine(word))
		}
		if v := f.options[i].value; !slices.Contains(chosen, v) {
			chosen = append(chosen, v)
		}
	}
	if f.kind != "array" {
		return marshalled(chosen[0]), nil
	}
	return marshalled(chosen), f.within(float64(len(chosen)), " choices")
}

// within looks at the bounds of a field.
func (f *field) within(n float64, of string) error {
	show := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) + of }
	switch {
	case f.hasMin && n < f.min:
		return fmt.Errorf("that is too little: at least %s", show(f.min))
	case f.hasMax && n > f.max:
		return fmt.Errorf("that is too much: at most %s", show(f.max))
	}
	return nil
}

func marshalled(v any) jsontext.Value {
	data, err := json.Marshal(v)
	if err != nil { // texts and lists of texts always can be
		return jsontext.Value("null")
	}
	return data
}

// object is the form's content.
func (d *formDialog) object() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, f := range d.fields {
		if d.content[i] == nil {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(marshalled(f.name))
		b.WriteByte(':')
		b.Write(d.content[i])
	}
	b.WriteByte('}')
	return b.String()
}
