package chat

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acphost/acphost/services/supervisor/internal/formschema"
)

// fieldKind is how a field is filled in.
type fieldKind int

const (
	textField fieldKind = iota
	numberField
	integerField
	boolField
	oneField  // one of several
	manyField // any of several
)

// field is one property of the schema.
type field struct {
	name, title, help string
	kind              fieldKind
	required          bool
	options           []choice
	least, most       *float64 // of a number, of a text's length, or of how many are chosen
	schema            jsontext.Value

	edit   editor
	at     int // of options
	chosen map[int]bool
	yes    *bool
}

// property is as much of JSON Schema as ACP's forms have.
type property struct {
	Type        string         `json:"type"`
	Title       string         `json:"title"`
	Description string         `json:"description"`
	Enum        []string       `json:"enum"`
	EnumNames   []string       `json:"enumNames"`
	OneOf       []constant     `json:"oneOf"`
	Default     jsontext.Value `json:"default"`
	MinLength   *float64       `json:"minLength"`
	MaxLength   *float64       `json:"maxLength"`
	Minimum     *float64       `json:"minimum"`
	Maximum     *float64       `json:"maximum"`
	MinItems    *float64       `json:"minItems"`
	MaxItems    *float64       `json:"maxItems"`
	Items       struct {
		Enum  []string   `json:"enum"`
		AnyOf []constant `json:"anyOf"`
		OneOf []constant `json:"oneOf"`
	} `json:"items"`
}

type constant struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

func newField(name string, schema jsontext.Value, p *property, required bool) *field {
	f := &field{
		name: name, schema: schema, title: cmp.Or(short(p.Title), short(name)), help: short(p.Description), required: required,
		least: p.MinLength, most: p.MaxLength, chosen: map[int]bool{}, at: -1,
	}
	names := func(values []string, titles []string, constants []constant) {
		for i, v := range values {
			title := v
			if i < len(titles) {
				title = titles[i]
			}
			f.options = append(f.options, choice{value: v, label: short(title)})
		}
		for _, c := range constants {
			f.options = append(f.options, choice{value: c.Const, label: short(cmp.Or(c.Title, c.Const))})
		}
	}
	switch p.Type {
	case "boolean":
		f.kind = boolField
		if k := p.Default.Kind(); k == 't' || k == 'f' {
			yes := k == 't'
			f.yes = &yes
		}
	case "number", "integer":
		f.kind = numberField
		if p.Type == "integer" {
			f.kind = integerField
		}
		f.least, f.most = p.Minimum, p.Maximum
		if p.Default.Kind() == '0' {
			f.edit.Set(string(p.Default))
		}
	case "array":
		f.kind = manyField
		f.least, f.most = p.MinItems, p.MaxItems
		names(p.Items.Enum, nil, slices.Concat(p.Items.AnyOf, p.Items.OneOf))
		var chosen []string
		_ = json.Unmarshal(p.Default, &chosen) // none, if it is something else
		for i, o := range f.options {
			f.chosen[i] = slices.Contains(chosen, o.value)
		}
		f.at = 0
	default:
		names(p.Enum, p.EnumNames, p.OneOf)
		var text string
		_ = json.Unmarshal(p.Default, &text) // none, if it is something else
		if len(f.options) > 0 {
			f.kind = oneField
			f.at = slices.IndexFunc(f.options, func(c choice) bool { return c.value == text })
			break
		}
		f.edit.Set(text)
	}
	return f
}

func (f *form) field() *field {
	if f.broken != "" || f.at >= len(f.fields) {
		return nil
	}
	return f.fields[f.at]
}

// key takes a key for the field.
func (x *field) key(k tea.KeyPressMsg, name string) {
	switch x.kind {
	case boolField:
		set := func(yes bool) { x.yes = &yes }
		switch name {
		case "y":
			set(true)
		case "n":
			set(false)
		case "space", "left", "right", "up", "down":
			set(x.yes == nil || !*x.yes)
		}
	case oneField, manyField:
		n := len(x.options)
		if n == 0 {
			return
		}
		switch name {
		case "up":
			x.at = (max(x.at, 0) + n - 1) % n
		case "down":
			x.at = (x.at + 1) % n
		case "backspace", "delete":
			if x.kind == oneField && !x.required {
				x.at = -1
			}
		case "space":
			if x.kind == manyField {
				x.chosen[x.at] = !x.chosen[x.at]
			}
		default:
			if d, err := strconv.Atoi(k.Text); err == nil && d >= 1 && d <= n {
				x.at = d - 1
				if x.kind == manyField {
					x.chosen[x.at] = !x.chosen[x.at]
				}
			}
		}
	default:
		if !x.edit.key(name) && k.Text != "" {
			x.edit.Insert(k.Text)
		}
	}
}

// check says what is wrong with what is filled in; empty: nothing.
func (x *field) check() string {
	switch x.kind {
	case boolField:
		if x.required && x.yes == nil {
			return "choose yes or no"
		}
	case oneField:
		if x.required && x.at < 0 {
			return "choose one"
		}
	case manyField:
		if bad := within(float64(x.count()), x.least, x.most, x.required && x.count() == 0 && x.least == nil, "choose", "chosen"); bad != "" {
			return bad
		}
	case numberField, integerField:
		text := strings.TrimSpace(x.edit.Text())
		if text == "" {
			if x.required {
				return "it is needed"
			}
			return ""
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(n, 0) || math.IsNaN(n) || !jsontext.Value(text).IsValid() {
			return "a number is needed"
		}
		if x.kind == integerField && n != math.Trunc(n) {
			return "a whole number is needed"
		}
		if bad := within(n, x.least, x.most, false, "", ""); bad != "" {
			return bad
		}
	default:
		text := x.edit.Text()
		if text == "" {
			if x.required {
				return "it is needed"
			}
			return ""
		}
		if bad := within(float64(utf8.RuneCountInString(text)), x.least, x.most, false, "", "characters"); bad != "" {
			return bad
		}
	}
	return x.misfit()
}

// misfit says what else the supervisor will not take.
func (x *field) misfit() string {
	value := x.value()
	if value == nil {
		return ""
	}
	if err := formschema.FitsField(x.schema, value); err != nil {
		return short(err.Error())
	}
	return ""
}

func within(n float64, least, most *float64, missing bool, verb, unit string) string {
	switch {
	case missing:
		return verb + " at least one"
	case least != nil && n < *least:
		return strings.TrimSpace(fmt.Sprintf("at least %v %s", *least, unit))
	case most != nil && n > *most:
		return strings.TrimSpace(fmt.Sprintf("at most %v %s", *most, unit))
	}
	return ""
}

func (x *field) count() int {
	n := 0
	for _, yes := range x.chosen {
		if yes {
			n++
		}
	}
	return n
}

// value is what is filled in, as JSON; nil: it is left out.
func (x *field) value() jsontext.Value {
	encoded := func(v any) jsontext.Value {
		b, _ := json.Marshal(v, jsontext.AllowInvalidUTF8(true)) // a text, a list of texts or a bool: it cannot fail
		return b
	}
	switch x.kind {
	case boolField:
		if x.yes == nil {
			return nil
		}
		return encoded(*x.yes)
	case oneField:
		if x.at < 0 {
			return nil
		}
		return encoded(x.options[x.at].value)
	case manyField:
		list := []string{}
		for i, o := range x.options {
			if x.chosen[i] {
				list = append(list, o.value)
			}
		}
		return encoded(list)
	case numberField, integerField:
		if text := strings.TrimSpace(x.edit.Text()); text != "" {
			return jsontext.Value(text)
		}
		return nil
	}
	if text := x.edit.Text(); text != "" || x.required {
		return encoded(text)
	}
	return nil
}

// rows is what is filled in, or what there is to choose.
func (x *field) rows(m *model) []string {
	switch x.kind {
	case boolField:
		yes, no := "  yes", "  no"
		switch {
		case x.yes == nil:
		case *x.yes:
			yes = m.sty.bold("▸ yes")
		default:
			no = m.sty.bold("▸ no")
		}
		return []string{"  " + yes + "   " + no + m.sty.dim("   y, n")}
	case oneField, manyField:
		const shown = 8
		from := min(max(0, x.at-shown/2), max(0, len(x.options)-shown))
		var rows []string
		for i, o := range x.options[from:min(len(x.options), from+shown)] {
			mark := "    "
			if from+i == x.at {
				mark = "  ▸ "
			}
			if x.kind == manyField {
				mark += map[bool]string{true: "[x] ", false: "[ ] "}[x.chosen[from+i]]
			}
			rows = append(rows, fit(fmt.Sprintf("%s%d %s", mark, from+i+1, o.label), m.width))
		}
		return rows
	}
	rows, cx, cy := x.edit.Show(m.width - 4)
	// The cursor is drawn: the terminal's own is for the input.
	rows[cy] = markCursor(m, rows[cy], cx)
	for i, r := range rows {
		rows[i] = "  > " + r
	}
	return lastRows(rows, 4)
}
