package chat

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/go-json-experiment/json/jsontext"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/form"
)

// formEditor is a form that a person fills in, field by field.
type formEditor struct {
	form   *form.Form
	fields []*fieldEditor
	at     int
	wrong  string // what is wrong with the field as it is
}

func newFormEditor(schema string) *formEditor {
	f := &formEditor{form: form.Parse([]byte(schema))}
	if f.form.Err() == nil {
		for _, x := range f.form.Fields {
			f.fields = append(f.fields, newFieldEditor(x))
		}
	}
	return f
}

// paste takes text from the clipboard.
func (f *formEditor) paste(text string) {
	if x := f.field(); x != nil && x.writes() {
		x.edit.Insert(strings.ReplaceAll(typed(text), "\n", " "))
	}
}

// key takes a key, and returns the answer once it is known; else nil.
func (f *formEditor) key(k tea.KeyPressMsg) *supervisorv1.AnswerApprovalRequest {
	name := k.Keystroke()
	x := f.field()
	switch {
	case name == "esc":
		return client.Undecided()
	case name == "ctrl+r":
		return client.Decline()
	case f.form.Err() != nil:
		return nil
	case name == "shift+tab":
		f.at, f.wrong = max(f.at-1, 0), ""
		return nil
	case name == "enter":
		if x != nil {
			if _, err := x.value(); err != nil {
				f.wrong = short(err.Error())
				return nil
			}
			f.wrong = ""
			f.at++
		}
		if f.at < len(f.fields) {
			return nil
		}
		f.at = max(len(f.fields)-1, 0)
		return client.Accept(f.answer())
	case x != nil:
		f.wrong = ""
		x.key(k, name)
	}
	return nil
}

// answer is the form as JSON; what was not filled in is left out.
func (f *formEditor) answer() string {
	var values []jsontext.Value
	for _, x := range f.fields {
		value, _ := x.value() // it was checked when the person went on
		values = append(values, value)
	}
	return f.form.Content(values)
}

// rows is the field that is being filled in.
func (f *formEditor) rows(m *model) []string {
	if err := f.form.Err(); err != nil {
		return []string{
			m.sty.red(fit("  the agent's form cannot be filled in: "+short(err.Error()), m.width)),
			m.sty.dim(fit("  ctrl+r declines · esc gives no answer", m.width)),
		}
	}
	keys := []string{"enter sends"}
	var rows []string
	if x := f.field(); x != nil {
		head := "  " + short(x.Title)
		if x.Required {
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
		if about := short(x.About); about != "" {
			rows = append(rows, m.sty.dim(fit("  "+about, m.width)))
		}
		rows = append(rows, x.rows(m)...)
	}
	if f.wrong != "" {
		for _, row := range wrap(f.wrong, m.width-2, 3) {
			rows = append(rows, m.sty.red("  "+row))
		}
	}
	return append(rows, m.sty.dims(hints(m.width, append(keys, "ctrl+r declines", "esc gives no answer")...))...)
}
