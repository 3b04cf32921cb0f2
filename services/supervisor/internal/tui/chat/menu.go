package chat

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	tea "charm.land/bubbletea/v2"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// maxMenu limits the rows of a menu, and maxEntries the names that are read in a folder.
const (
	maxMenu    = 6
	maxEntries = 5000
)

// menu is the list of completions. The zero value is closed.
type menu struct {
	items     []item
	at        int
	typed     int  // bytes before the cursor that a completion replaces
	hidden    bool // until the next key
	moved     bool // the user has selected an item, so enter inserts it
	requested int  // number of the latest request to list a folder
}

// item is a completion.
type item struct {
	text   string // the inserted text
	label  string // the displayed text
	detail string
	more   bool // it is incomplete: no space after it
}

// filesMsg contains the names in a folder.
type filesMsg struct {
	requested int
	typed     int
	items     []item
}

func (n *menu) open() bool { return len(n.items) > 0 && !n.hidden }

func (n *menu) rows(m *model, limit int) []string {
	if !n.open() || limit < 1 {
		return nil
	}
	from, to := window(len(n.items), n.at-limit+1, limit)
	part := n.items[from:to]
	wide := 0
	for _, it := range part {
		wide = max(wide, min(safetext.Width(it.label), m.width/2))
	}
	var rows []string
	for i, it := range part {
		label := fit(it.label, wide)
		label += strings.Repeat(" ", max(0, wide-safetext.Width(label)))
		rows = append(rows, m.listed(from+i == n.at, label, it.detail))
	}
	return rows
}

// menuTake inserts the selected completion.
func (m *model) menuTake() tea.Cmd {
	if !m.menu.open() {
		return nil
	}
	it := m.menu.items[m.menu.at]
	text := it.text
	if !it.more {
		text += " "
	}
	m.edit.ReplaceBefore(m.menu.typed, text)
	return m.completion()
}

// completion determines the completions of the input.
func (m *model) completion() tea.Cmd {
	asked := m.menu.requested + 1
	m.menu = menu{requested: asked}
	before := m.edit.Before()
	if from, _ := m.edit.line(); from == 0 && strings.HasPrefix(before, "/") {
		m.menu.items, m.menu.typed = m.completeCommand(before)
		return nil
	}
	path, typed, ok := mention(before)
	if !ok {
		return nil
	}
	cwd := m.o.Cwd
	return m.sup.do(func(context.Context) tea.Msg {
		return filesMsg{requested: asked, typed: typed, items: completePath(cwd, path)}
	})
}

func (msg filesMsg) apply(m *model) tea.Cmd {
	if msg.requested == m.menu.requested {
		m.menu.items, m.menu.typed = msg.items, msg.typed
	}
	return nil
}

// completeCommand completes the name of a slash command, or its argument.
func (m *model) completeCommand(before string) (items []item, typed int) {
	name, arg, hasArg := strings.Cut(before, " ")
	if !hasArg {
		return m.completeName(name), len(name)
	}
	c, _ := m.ownCommand(name)
	if c == nil || c.values == nil {
		return nil, 0
	}
	typed = len(arg)
	if c.words { // only the last word
		typed = len(arg) - strings.LastIndexByte(arg, ' ') - 1
	}
	for _, it := range c.values(m, arg) {
		if matches(it.text, arg[len(arg)-typed:]) && it.text != arg[len(arg)-typed:] {
			items = append(items, it)
		}
	}
	return items, typed
}

func (m *model) completeName(name string) (items []item) {
	if !strings.HasPrefix(name, "//") {
		for _, c := range m.session.GetCommands() {
			text := "/" + short(c.GetName())
			if strings.HasPrefix(text, name) && c.GetName() == short(c.GetName()) {
				items = append(items, item{text: text, label: text, detail: short(c.GetDescription())})
			}
		}
	}
	for _, c := range commandList() {
		for _, text := range []string{"/" + c.name, "//" + c.name} {
			if strings.HasPrefix(text, name) && (text[1] == '/') == (m.agentHas(c.name) || strings.HasPrefix(name, "//")) {
				items = append(items, item{text: text, label: text, detail: c.help})
			}
		}
	}
	if len(items) == 1 && items[0].text == name {
		return nil
	}
	return items
}

func (m *model) agentHas(name string) bool {
	return slices.ContainsFunc(m.session.GetCommands(), func(c *supervisorv1.AvailableCommand) bool { return c.GetName() == name })
}

// matches reports whether text begins with prefix, ignoring case.
func matches(text, prefix string) bool {
	return len(prefix) <= len(text) && strings.EqualFold(text[:len(prefix)], prefix)
}

// mention returns the path after an @ at the end of the text.
func mention(before string) (path string, typed int, ok bool) {
	i := strings.LastIndexFunc(before, unicode.IsSpace) + 1
	if q := strings.LastIndex(before, `@"`); q >= 0 && (q == 0 || before[q-1] == ' ') && !strings.Contains(before[q+2:], `"`) {
		i = q
	}
	word := before[i:]
	if !strings.HasPrefix(word, "@") {
		return "", 0, false
	}
	return strings.TrimPrefix(word[1:], `"`), len(word), true
}

// completePath lists the completions of a path under a folder. It omits names with characters that cannot be typed.
func completePath(cwd, path string) (items []item) {
	dir, prefix := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir, prefix = path[:i+1], path[i+1:]
	}
	if !filepath.IsLocal(filepath.Join(".", dir)) || filepath.IsAbs(dir) {
		return nil
	}
	f, err := os.Open(filepath.Join(cwd, dir))
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(maxEntries) // an incomplete list is sufficient
	for _, e := range entries {
		name := e.Name()
		if !matches(name, prefix) || strings.HasPrefix(name, ".") && !strings.HasPrefix(prefix, ".") ||
			safetext.Text(name) != name || strings.ContainsAny(name, "\"\n\t") {
			continue
		}
		it := item{text: dir + name, label: name}
		if e.IsDir() {
			it.text, it.label, it.more = it.text+"/", name+"/", true
		}
		it.text = mentioned(it.text, it.more)
		items = append(items, it)
	}
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.label, b.label) })
	return items
}

// mentioned formats a path for the text.
func mentioned(path string, more bool) string {
	switch {
	case !strings.ContainsFunc(path, unicode.IsSpace):
		return "@" + path
	case more:
		return `@"` + path
	}
	return `@"` + path + `"`
}
