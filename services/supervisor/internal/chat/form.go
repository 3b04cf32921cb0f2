package chat

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// maxFields bounds a form.
const maxFields = 50

// form is what an agent wants to know, field by field.
type form struct {
	fields []*field
	at     int
	wrong  string // what is wrong with the field as it is
	broken string // why it cannot be filled in
}

func newForm(schema string) *form {
	var s struct {
		Properties jsontext.Value `json:"properties"`
		Required   []string       `json:"required"`
	}
	f := &form{}
	if err := json.Unmarshal([]byte(schema), &s, jsontext.AllowInvalidUTF8(true)); err != nil {
		f.broken = "the agent's form cannot be read"
		return f
	}
	if len(s.Properties) == 0 {
		return f
	}
	d := jsontext.NewDecoder(bytes.NewReader(s.Properties), jsontext.AllowInvalidUTF8(true))
	if _, err := d.ReadToken(); err != nil || s.Properties.Kind() != '{' {
		f.broken = "the agent's form cannot be read"
		return f
	}
	for d.PeekKind() == '"' { // in the order of the schema
		name, err := d.ReadToken()
		if err != nil {
			break
		}
		key := name.String()
		var p property
		schema, err := d.ReadValue()
		if err == nil {
			err = json.Unmarshal(schema, &p, jsontext.AllowInvalidUTF8(true))
		}
		if err != nil || len(f.fields) == maxFields {
			f.broken = fmt.Sprintf("the field %q of the agent's form cannot be filled in here", short(key))
			return f
		}
		f.fields = append(f.fields, newField(key, schema.Clone(), &p, slices.Contains(s.Required, key)))
	}
	return f
}

// paste takes text from the clipboard.
func (f *form) paste(text string) {
	if x := f.field(); x != nil && x.kind <= integerField {
		x.edit.Insert(strings.ReplaceAll(typed(text), "\n", " "))
	}
}

// key takes a key; done: r has the answer.
func (f *form) key(k tea.KeyPressMsg, r *supervisorv1.AnswerApprovalRequest) (done bool, _ tea.Cmd) {
	name := k.Keystroke()
	x := f.field()
	switch {
	case name == "esc":
		r.Answer = &supervisorv1.AnswerApprovalRequest_Cancel{Cancel: true}
		return true, nil
	case name == "ctrl+r":
		r.Answer = &supervisorv1.AnswerApprovalRequest_Decline{Decline: true}
		return true, nil
	case f.broken != "":
		return false, nil
	case name == "shift+tab":
		f.at, f.wrong = max(f.at-1, 0), ""
		return false, nil
	case name == "enter":
		if x != nil {
			if f.wrong = x.check(); f.wrong != "" {
				return false, nil
			}
			f.at++
		}
		if f.at < len(f.fields) {
			return false, nil
		}
		f.at = max(len(f.fields)-1, 0)
		r.Answer = &supervisorv1.AnswerApprovalRequest_Accept{Accept: f.answer()}
		return true, nil
	case x != nil:
		f.wrong = ""
		x.key(k, name)
	}
	return false, nil
}

// answer is the form as JSON; what was not filled in is left out.
func (f *form) answer() string {
	var b bytes.Buffer
	e := jsontext.NewEncoder(&b, jsontext.AllowInvalidUTF8(true))
	write := func(t jsontext.Token) { _ = e.WriteToken(t) } // into memory, in the right order: it cannot fail
	write(jsontext.BeginObject)
	for _, x := range f.fields {
		if value := x.value(); value != nil {
			write(jsontext.String(x.name))
			_ = e.WriteValue(value) // it was checked
		}
	}
	write(jsontext.EndObject)
	return strings.TrimSuffix(b.String(), "\n")
}

// rows is the field that is being filled in.
func (f *form) rows(m *model) []string {
	if f.broken != "" {
		return []string{m.sty.red(fit("  "+f.broken, m.width)), m.sty.dim(fit("  ctrl+r declines · esc gives no answer", m.width))}
	}
	keys := []string{"enter sends"}
	var rows []string
	if x := f.field(); x != nil {
		head := "  " + x.title
		if x.required {
			head += " *"
		}
		if len(f.fields) > 1 {
			head += m.sty.dim(fmt.Sprintf("  %d of %d", f.at+1, len(f.fields)))
			if f.at+1 < len(f.fields) {
				keys[0] = "enter goes on"
			}
			keys = append(keys, "shift+tab goes back")
		}
		rows = append(rows, fit(m.sty.bold(head), m.width))
		if x.help != "" {
			rows = append(rows, m.sty.dim(fit("  "+x.help, m.width)))
		}
		rows = append(rows, x.rows(m)...)
	}
	if f.wrong != "" {
		rows = append(rows, m.sty.red(fit("  "+f.wrong, m.width)))
	}
	return append(rows, m.sty.dims(hints(m.width, append(keys, "ctrl+r declines", "esc gives no answer")...))...)
}
