package chat

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// picker is a list of choices, in the place of the menu.
type picker struct {
	title string
	items []choice
	at    int
	done  func(value string) tea.Cmd
}

// choice is an entry of a picker.
type choice struct {
	value, label, detail string
	current              bool
}

// pick opens a picker.
func (m *model) pick(p *picker) {
	for i, c := range p.items {
		if c.current {
			p.at = i
		}
	}
	m.picker = p
}

func (p *picker) key(m *model, name string) tea.Cmd {
	switch name {
	case "tab":
		name = "down"
	case "shift+tab":
		name = "up"
	}
	if chooseEnds(&p.at, len(p.items), name) {
		return nil
	}
	switch name {
	case "esc", "ctrl+d":
		m.picker = nil
	case "enter":
		m.picker = nil
		return p.done(p.items[p.at].value)
	}
	return nil
}

func (p *picker) rows(m *model, room int) []string {
	keys := []string{"↑↓ choose", "enter takes it", "esc leaves"}
	if len(p.items) > 8 {
		keys = append([]string{fmt.Sprintf("%d of %d", p.at+1, len(p.items))}, keys...)
	}
	hint := m.sty.dims(hints(m.width, keys...))
	room = max(min(room, 14)-1-len(hint), 1)
	rows := []string{m.sty.bold(fit(p.title, m.width))}
	from, to := window(len(p.items), p.at-room/2, room)
	for i, c := range p.items[from:to] {
		label := safetext.Line(c.label)
		if c.current {
			label += " (current)"
		}
		rows = append(rows, m.listed(from+i == p.at, label, safetext.Line(c.detail)))
	}
	return append(rows, hint...)
}

// window returns the visible range of a list.
func window(all, at, room int) (from, to int) {
	from = min(max(0, at), max(0, all-room))
	return from, min(all, from+room)
}

// listed formats a row of a list.
func (m *model) listed(chosen bool, label, detail string) string {
	mark := "  "
	if chosen {
		mark, label = "▸ ", m.sty.bold(label)
	}
	if detail != "" {
		label += "  " + m.sty.dim(detail)
	}
	return fit(mark+label, m.width)
}

// find returns the choice for a word: its value, its name, or a unique beginning of one.
func find(items []choice, word string) (string, bool) {
	for _, c := range items {
		if c.value == word {
			return c.value, true
		}
	}
	var found []string
	for _, c := range items {
		if strings.EqualFold(c.label, word) || strings.EqualFold(c.value, word) {
			return c.value, true
		}
		if matches(c.label, word) || matches(c.value, word) {
			found = append(found, c.value)
		}
	}
	if len(found) == 1 {
		return found[0], true
	}
	return "", false
}

// names lists choices in a sentence.
func names(items []choice) string {
	var all []string
	for i, c := range items {
		if i == 50 {
			all = append(all, "…")
			break
		}
		all = append(all, short(c.value))
	}
	return strings.Join(all, ", ")
}
