package chat

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/go-json-experiment/json/jsontext"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/acp/form"
)

// formEditor is a form that the user fills in, field by field.
type formEditor struct {
	form   *form.Form
	fields []*fieldEditor
	at     int
	wrong  string // the error of the current field
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

// paste processes text from the clipboard.
func (f *formEditor) paste(text string) {
	if x := f.field(); x != nil && x.writes() {
		x.edit.Insert(strings.ReplaceAll(typed(text), "\n", " "))
	}
}

// key processes a key. It returns the answer when the form is complete, else nil.
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
		if x != nil && !f.right(f.at) || f.next() {
			return nil
		}
		for i := range f.fields {
			if !f.right(i) {
				f.at = i
				return nil
			}
		}
		return client.Accept(f.answer())
	case x != nil:
		f.wrong = ""
		x.key(k, name)
	}
	return nil
}

// next moves to the next field. It returns false after the last one.
func (f *formEditor) next() bool {
	if f.at+1 >= len(f.fields) {
		return false
	}
	f.at, f.wrong = f.at+1, ""
	return true
}

// right reports whether a field is valid, and stores its error.
func (f *formEditor) right(i int) bool {
	f.wrong = ""
	if _, err := f.fields[i].value(); err != nil {
		f.wrong = short(err.Error())
	}
	return f.wrong == ""
}

// answer returns the form as JSON, without empty fields.
func (f *formEditor) answer() string {
	var values []jsontext.Value
	for _, x := range f.fields {
		value, _ := x.value() // it was validated when the user moved on
		values = append(values, value)
	}
	return f.form.Content(values)
}

// rows shows the current field, above the description of its keys.
func (f *formEditor) rows(m *model, elsewhere ...string) []string {
	if err := f.form.Err(); err != nil {
		return []string{
			m.sty.red(fit("  the agent's form cannot be filled in: "+short(err.Error()), m.width)),
			m.sty.dim(fit("  "+strings.Join(f.keys(elsewhere), " · "), m.width)),
		}
	}
	var rows []string
	if x := f.field(); x != nil {
		head := "  " + short(x.Title)
		if x.Required {
			head += " *"
		}
		if len(f.fields) > 1 {
			head += m.sty.dim(fmt.Sprintf("  %d of %d", f.at+1, len(f.fields)))
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
	return append(rows, m.sty.dims(hints(m.width, f.keys(elsewhere)...))...)
}

// keys describes the keys, and the keys in elsewhere.
func (f *formEditor) keys(elsewhere []string) []string {
	if len(elsewhere) > 0 {
		return elsewhere
	}
	var keys []string
	if x := f.field(); x != nil && f.form.Err() == nil {
		keys = x.keys()
	}
	switch last := f.at+1 >= len(f.fields); {
	case f.form.Err() != nil:
		keys = append(keys, "tab goes to the input")
	case !last:
		keys = append(keys, "enter, tab go on")
	default:
		keys = append(keys, "enter sends", "tab goes to the input")
	}
	if f.at > 0 {
		keys = append(keys, "shift+tab goes back")
	}
	return append(keys, "ctrl+r declines", "esc gives no answer")
}
