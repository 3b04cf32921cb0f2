package prompt

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/acp/form"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// maxTyped limits the characters of a field's value.
const maxTyped = 4096

// formDialog asks for the fields of a form one by one.
type formDialog struct {
	form    *form.Form
	started bool
	at      int
	typed   []rune
	content []jsontext.Value // values of the fields before at; nil: omitted
}

func newFormDialog(e *supervisorv1.Elicitation) *formDialog {
	return &formDialog{form: form.Parse([]byte(e.GetRequestedSchema()))}
}

func (d *formDialog) intro() string {
	if err := d.form.Err(); err != nil {
		return "    The form cannot be shown: " + safetext.Text(err.Error()) + "\n"
	}
	return ""
}

func (d *formDialog) typing() bool {
	return d.started && d.at < len(d.form.Fields) && d.form.Err() == nil
}

func (d *formDialog) withheld(k key, unseen render.Hidden) bool {
	return k.name == keyEnter && unseen.Withholds(nil)
}

func (d *formDialog) line() string {
	switch {
	case d.form.Err() != nil:
		return "Press d to decline "
	case !d.started:
		return fmt.Sprintf("A form of %d fields. Press Enter to fill it in, d to decline: ", len(d.form.Fields))
	case d.at == len(d.form.Fields):
		return "Press Enter to send the form, Esc to begin again, d to decline: "
	}
	f := d.form.Fields[d.at]
	typed := string(d.typed)
	if n := utf8.RuneCountInString(typed); n > 60 { // show its end
		typed = "…" + string(d.typed[n-60:])
	}
	return safetext.Fit(safetext.Line(f.Title), 40) + fieldHint(f) + ": " + safetext.Text(typed)
}

// fieldHint describes how to answer a field.
func fieldHint(f *form.Field) string {
	var parts []string
	switch {
	case f.Kind == form.Bool:
		parts = append(parts, "y or n")
	case f.Kind == form.Many:
		parts = append(parts, "numbers, with commas")
	case f.Kind == form.One:
		parts = append(parts, "a number")
	case f.Kind == form.Number:
		parts = append(parts, "number")
	case f.Kind == form.Integer:
		parts = append(parts, "integer")
	case f.Format != "":
		parts = append(parts, safetext.Fit(safetext.Line(f.Format), 20))
	}
	switch {
	case f.Default != nil:
		parts = append(parts, "Enter: "+safetext.Fit(safetext.Line(f.Show(f.Default)), 30))
	case !f.Required:
		parts = append(parts, "Enter: leave out")
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, "; ") + ")"
}

// fieldIntro returns the text before the input of a field.
func fieldIntro(f *form.Field) string {
	var b strings.Builder
	if f.About != "" {
		fmt.Fprintf(&b, "    %s: %s\n", safetext.Line(f.Title), safetext.Line(f.About))
	}
	for i, op := range f.Options {
		fmt.Fprintf(&b, "    [%d] %s\n", i+1, safetext.Line(op.Title))
	}
	return b.String()
}

func (d *formDialog) key(k key) (string, *supervisorv1.AnswerApprovalRequest) {
	reviewing := d.started && d.at == len(d.form.Fields)
	if d.form.Err() != nil || !d.started || reviewing {
		switch {
		case k.name == keyRune && k.r == 'd':
			return "", client.Decline()
		case d.form.Err() != nil:
		case k.name == keyEscape && reviewing, k.name == keyEnter && !d.started:
			d.started, d.at, d.content, d.typed = true, 0, nil, nil
			return d.describe(), nil
		case k.name == keyEnter:
			return "", client.Accept(d.form.Content(d.content))
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
		d.started = false
	case keyEnter:
		return d.enter(), nil
	}
	return "", nil
}

func (d *formDialog) describe() string {
	if d.at < len(d.form.Fields) {
		return fieldIntro(d.form.Fields[d.at])
	}
	return ""
}

// enter processes the typed value of a field.
func (d *formDialog) enter() string {
	f := d.form.Fields[d.at]
	value, err := f.Default, error(nil)
	if typed := string(d.typed); value == nil || strings.TrimSpace(typed) != "" {
		value, err = f.Parse(typed)
	}
	if err != nil {
		return "    " + safetext.Line(err.Error()) + "\n"
	}
	shown := "(left out)"
	if value != nil {
		shown = f.Show(value)
	}
	d.content = append(d.content, value)
	d.at++
	d.typed = nil
	return "    " + safetext.Line(f.Title) + ": " + safetext.Line(shown) + "\n" + d.describe()
}
