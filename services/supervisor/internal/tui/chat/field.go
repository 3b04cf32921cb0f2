package chat

import (
	"fmt"
	"strconv"

	tea "charm.land/bubbletea/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acphost/acphost/services/supervisor/internal/acp/form"
)

// fieldEditor is a field of a form with the user's input.
type fieldEditor struct {
	*form.Field
	edit   editor // of a text
	at     int    // index of the chosen option; -1: none
	chosen map[int]bool
	yes    *bool // nil: no choice yet
}

func newFieldEditor(f *form.Field) *fieldEditor {
	x := &fieldEditor{Field: f, at: -1, chosen: map[int]bool{}}
	switch f.Kind {
	case form.Bool:
		if f.Default != nil {
			yes := f.Default.Kind() == 't'
			x.yes = &yes
		}
	case form.One:
		if chosen := f.Chosen(f.Default); len(chosen) > 0 {
			x.at = chosen[0]
		}
	case form.Many:
		x.at = 0
		for _, i := range f.Chosen(f.Default) {
			x.chosen[i] = true
		}
	default:
		if f.Default != nil {
			x.edit.Set(f.Show(f.Default))
		}
	}
	return x
}

// writes reports whether the field's value is typed.
func (x *fieldEditor) writes() bool {
	return x.Kind == form.Text || x.Kind == form.Number || x.Kind == form.Integer
}

func (f *formEditor) field() *fieldEditor {
	if f.at >= len(f.fields) {
		return nil
	}
	return f.fields[f.at]
}

// key processes a key for the field.
func (x *fieldEditor) key(k tea.KeyPressMsg, name string) {
	switch x.Kind {
	case form.Bool:
		set := func(yes bool) { x.yes = &yes }
		switch name {
		case "y":
			set(true)
		case "n":
			set(false)
		case "space", "left", "right", "up", "down":
			set(x.yes == nil || !*x.yes)
		}
	case form.One, form.Many:
		n := len(x.Options)
		if n == 0 {
			return
		}
		if chooseEnds(&x.at, n, name) {
			return
		}
		switch name {
		case "backspace", "delete":
			if x.Kind == form.One && !x.Required {
				x.at = -1
			}
		case "space":
			if x.Kind == form.Many {
				x.chosen[x.at] = !x.chosen[x.at]
			}
		default:
			if d, err := strconv.Atoi(k.Text); err == nil && d >= 1 && d <= n {
				x.at = d - 1
				if x.Kind == form.Many {
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

// keys describes the keys of the field.
func (x *fieldEditor) keys() []string {
	switch {
	case x.Kind == form.Bool:
		return []string{"y, n choose"}
	case x.Kind == form.Many:
		return []string{"↑↓ choose", "space marks"}
	case x.Kind == form.One && !x.Required:
		return []string{"↑↓ choose", "backspace takes none"}
	case x.Kind == form.One:
		return []string{"↑↓ choose"}
	}
	return nil
}

// value returns the value as JSON. Nil means that the field is omitted.
func (x *fieldEditor) value() (jsontext.Value, error) {
	switch x.Kind {
	case form.Bool:
		if x.yes == nil {
			return x.Parse("")
		}
		return x.Parse(strconv.FormatBool(*x.yes))
	case form.One:
		if x.at < 0 {
			return x.Choose()
		}
		return x.Choose(x.at)
	case form.Many:
		var chosen []int
		for i := range x.Options {
			if x.chosen[i] {
				chosen = append(chosen, i)
			}
		}
		return x.Choose(chosen...)
	}
	return x.Parse(x.edit.Text())
}

// rows shows the value, or the options.
func (x *fieldEditor) rows(m *model) []string {
	switch x.Kind {
	case form.Bool:
		yes, no := "  yes", "  no"
		switch {
		case x.yes == nil:
		case *x.yes:
			yes = m.sty.bold("▸ yes")
		default:
			no = m.sty.bold("▸ no")
		}
		return []string{"  " + yes + "   " + no}
	case form.One, form.Many:
		const shown = 8
		from, to := window(len(x.Options), x.at-shown/2, shown)
		var rows []string
		for i, o := range x.Options[from:to] {
			mark := "    "
			if from+i == x.at {
				mark = "  ▸ "
			}
			if x.Kind == form.Many {
				mark += map[bool]string{true: "[x] ", false: "[ ] "}[x.chosen[from+i]]
			}
			rows = append(rows, fit(fmt.Sprintf("%s%d %s", mark, from+i+1, short(o.Title)), m.width))
		}
		return rows
	}
	rows, cx, cy := x.edit.Show(m.width - 4)
	// Draw the cursor: the terminal's own cursor is in the input.
	rows[cy] = markCursor(m, rows[cy], cx)
	for i, r := range rows {
		rows[i] = "  > " + r
	}
	return lastRows(rows, 4)
}
