package chat

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// search searches the history, in the place of the menu. Typed text is the search term. The input is unchanged until an
// entry is chosen.
type search struct {
	words editor
	found []string // newest first
	at    int
}

// maxFound limits the results of a search.
const maxFound = 200

func (m *model) beginSearch() {
	m.menu = menu{hidden: true}
	m.search = &search{}
	m.search.find(m.past)
}

// find finds the entries with all words, ignoring case.
func (s *search) find(past *history) {
	s.found, s.at = nil, 0
	words := strings.Fields(strings.ToLower(s.words.Text()))
	seen := map[string]bool{}
entries:
	for i := len(past.entries) - 1; i >= 0 && len(s.found) < maxFound; i-- {
		entry := past.entries[i]
		if seen[entry] {
			continue
		}
		lower := strings.ToLower(entry)
		for _, w := range words {
			if !strings.Contains(lower, w) {
				continue entries
			}
		}
		seen[entry] = true
		s.found = append(s.found, entry)
	}
}

func (s *search) key(m *model, k tea.KeyPressMsg, name string) tea.Cmd {
	switch name {
	case "ctrl+r":
		name = "down" // older, as in shells
	case "ctrl+s":
		name = "up"
	}
	switch {
	case choose(&s.at, len(s.found), name):
	case name == "esc" || name == "ctrl+g":
		m.search = nil
	case name == "enter" || name == "tab":
		m.search = nil
		if s.at < len(s.found) {
			m.edit.Set(s.found[s.at]) // the user reviews it before sending
		}
		return m.completion()
	case s.words.key(name):
		s.find(m.past)
	case k.Text != "":
		s.words.Insert(strings.ReplaceAll(k.Text, "\n", " "))
		s.find(m.past)
	}
	return nil
}

func (s *search) rows(m *model, room int) []string {
	hint := m.sty.dims(hints(m.width, "↑↓ choose", "enter takes it", "esc leaves"))
	shown, x, y := s.words.Show(m.width - 10)
	rows := []string{fit(m.sty.bold("search: ")+markCursor(m, shown[y], x), m.width)}
	room = max(min(room, maxMenu+2)-1-len(hint), 1)
	from, to := window(len(s.found), s.at-room+1, room)
	for i := from; i < to; i++ {
		rows = append(rows, m.listed(i == s.at, safetext.Line(s.found[i]), ""))
	}
	if len(s.found) == 0 {
		rows = append(rows, m.sty.dim("  nothing that was typed before has these words"))
	}
	return append(rows, hint...)
}
