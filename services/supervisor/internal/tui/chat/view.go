package chat

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

var spinner = [...]string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// View implements tea.Model: work in progress, questions, input, status. With little room, the priority is: the status,
// the input around its cursor, the question.
func (m *model) View() tea.View {
	if m.leaving {
		return tea.NewView("")
	}
	if m.away {
		return tea.NewView(" ") // one row, so that the shell's output begins on it
	}
	typing, x, y := m.inputRows(m.typingRows())
	room := m.middleRows()

	var lower []string // between work in progress and the input
	if m.confirming != nil {
		lower = m.confirming.rows(m)
	} else if m.search != nil {
		lower = m.search.rows(m, room)
	} else if q := m.question(); q != nil {
		lower = q.rows(m, room)
	} else if m.picker != nil {
		lower = m.picker.rows(m, room)
	} else {
		lower = m.menu.rows(m, min(room, maxMenu))
	}
	lower = lastRows(lower, room)
	room -= len(lower)

	queued := m.queueRows(min(room, 3))
	room -= len(queued)
	upper := m.liveRows(room)

	var rows []string
	rows = append(rows, upper...)
	rows = append(rows, queued...)
	rows = append(rows, lower...)
	top := len(rows)
	rows = append(rows, typing...)
	rows = append(rows, m.statusRow())
	for i, r := range rows {
		rows[i] = ansi.Truncate(untabbed(r), m.width, "…")
	}
	v := tea.NewView(strings.Join(rows, "\n"))
	v.ReportFocus = m.o.Notify != NotifyOff && m.o.Notify != ""
	if m.confirming == nil && m.search == nil && (m.question() == nil && m.picker == nil || m.questionWaits()) {
		v.Cursor = tea.NewCursor(x, top+y)
		v.Cursor.Shape = tea.CursorBar
	}
	return v
}

// typingRows returns the maximum height of the input.
func (m *model) typingRows() int { return max(min(m.viewRows()-2, m.height/3), 1) }

// middleRows returns the number of rows above the input.
func (m *model) middleRows() int {
	rows, _ := m.edit.layout(m.width - 2)
	return max(m.viewRows()-1-min(len(rows), m.typingRows()), 0) // one row is the status
}

const prompt = "❯ "

// inputRows returns the input, or the rows around its cursor, and the position of the cursor in them.
func (m *model) inputRows(limit int) (rows []string, x, y int) {
	all, x, y := m.edit.Show(m.width - 2)
	from := 0
	if len(all) > limit {
		from = min(max(0, y-limit+1), len(all)-limit)
		all = all[from : from+limit]
	}
	for i, r := range all {
		mark := "  "
		if i == 0 && from == 0 {
			mark = m.sty.cyan(prompt)
		}
		rows = append(rows, mark+r)
	}
	if m.edit.Empty() {
		rows[0] += m.sty.dim(m.placeholder())
	}
	return rows, x + 2, y - from
}

func (m *model) placeholder() string {
	switch {
	case m.phase == starting || m.phase == opening:
		return "you can write already"
	case m.turn != nil:
		return "a message for after this turn"
	}
	return ""
}

func (m *model) queueRows(limit int) []string {
	if limit < 1 || len(m.queue) == 0 {
		return nil
	}
	var rows []string
	for i, text := range m.queue {
		if i == limit-1 && len(m.queue) > limit {
			rows = append(rows, m.sty.dim(fmt.Sprintf("  … %d more queued", len(m.queue)-i)))
			break
		}
		rows = append(rows, m.sty.dim(fit("  queued: "+safetext.Line(text), m.width)))
	}
	return rows
}

// liveRows returns work in progress: the plan, tool calls, and the end of the current text.
func (m *model) liveRows(room int) []string {
	if room < 1 {
		return nil
	}
	spin := m.sty.cyan(spinner[m.frame%len(spinner)])
	switch m.phase {
	case starting:
		return []string{spin + " starting " + m.agentName() + "…"}
	case opening:
		return []string{spin + " opening a session with " + m.agentTitle() + "…"}
	}
	var rows []string
	if m.own != nil {
		rows = append(rows, spin+" "+fit("! "+safetext.Line(m.own.line), m.width-2))
	}
	if m.turn == nil {
		rows = append(m.outputRows(room-len(rows)), rows...)
		return lastRows(append(m.partialRows(min(room-len(rows), 6)), rows...), room)
	}
	for _, c := range m.live.tools {
		rows = append(rows, spin+" "+fit(toolText(c), m.width-2))
	}
	if len(rows) > 4 {
		rows = append(rows[:3:3], m.sty.dim(fmt.Sprintf("  … %d more", len(rows)-3)))
	}
	if len(rows) == 0 {
		word := "working"
		switch {
		case m.turn.cancelled:
			word = "stopping"
		case m.live.thinking:
			word = "thinking"
		}
		rows = append(rows, spin+" "+m.sty.dim(word+"…"))
	}
	rows = lastRows(rows, room)
	room -= len(rows)
	output := m.outputRows(room)
	rows = append(output, rows...)
	room -= len(output)
	if !m.live.planShown && room > 1 {
		plan := m.planRows(min(room/2, 8))
		rows = append(rows, plan...)
		room -= len(plan)
	}
	return append(m.partialRows(min(room, 6)), rows...)
}

// maxOutputRows limits the rows of a command's output, unless it is expanded.
const maxOutputRows = 5

// outputRows returns the end of the latest output of a command that was not printed.
func (m *model) outputRows(room int) []string {
	limit := min(room, maxOutputRows)
	if m.expanded {
		limit = room
	}
	if limit < 2 || m.live.spoke.draw == nil {
		return nil
	}
	lines, hidden := m.live.spoke.draw.Tail(m.live.spoke.id, limit)
	if len(lines) == 0 {
		return nil
	}
	if hidden > 0 {
		lines, hidden = m.live.spoke.draw.Tail(m.live.spoke.id, limit-1)
	}
	bar := "    " + m.sty.dim("│") + " "
	var rows []string
	if hidden > 0 {
		key := "ctrl+o shows more"
		if m.expanded {
			key = "ctrl+o shows less"
		}
		rows = append(rows, fit(bar+m.sty.dim("… "+safetext.Count(hidden, "line")+" · "+key), m.width))
	}
	for _, l := range lines {
		rows = append(rows, fit(bar+l, m.width))
	}
	return rows
}

// expand shows more or less output of the running command, or the omitted output of the command that ended last.
func (m *model) expand() {
	if m.live.spoke.draw != nil {
		m.expanded = !m.expanded
		return
	}
	if m.cut == nil {
		return
	}
	m.flush()
	m.print(m.cut.TakeOmitted())
	m.cut = nil
}

// partialRows returns the current incomplete line.
func (m *model) partialRows(room int) []string {
	if room < 1 || m.partial == "" {
		return nil
	}
	return lastRows(safetext.Wrap(untabbed(m.partial), m.width, ""), room)
}

// statusRow returns the status. If it is too long, it omits the least important parts.
func (m *model) statusRow() string {
	s := m.session
	type part struct {
		text string
		rank int // higher ranks are omitted first
	}
	parts := []part{{m.agentName(), 0}}
	add := func(text string, rank int) {
		if text != "" {
			parts = append(parts, part{text, rank})
		}
	}
	add(short(current(s, "mode")), 2)
	add(short(current(s, "model")), 4)
	if u := s.GetUsage(); u.GetSize() > 0 {
		add(fmt.Sprintf("%s/%s", count(u.GetUsed()), count(u.GetSize())), 3)
	} else if u.GetUsed() > 0 {
		add(count(u.GetUsed())+" tokens", 3)
	}
	if u := s.GetUsage(); u != nil && u.Cost != nil {
		add(money(u.GetCost(), u.GetCurrency()), 5)
	}
	if m.turn != nil {
		add(duration(m.now().Sub(m.turn.since)), 3)
	}
	add(m.keys(), m.keyRank())
	for {
		var texts []string
		worst := 0
		for i, p := range parts {
			texts = append(texts, p.text)
			if p.rank > parts[worst].rank {
				worst = i
			}
		}
		text := strings.Join(texts, " · ")
		if safetext.Width(text) <= m.width || len(parts) == 1 {
			return m.sty.dim(fit(text, m.width))
		}
		parts = append(parts[:worst:worst], parts[worst+1:]...)
	}
}

// keyRank returns the rank of the keys. Keys for work in progress are omitted last but one, before the agent.
func (m *model) keyRank() int {
	if m.turn != nil || m.own != nil || m.prefixed || m.menu.open() || m.now().Before(m.quitBy) {
		return 1
	}
	return 6
}

// keys describes the keys that are useful now.
func (m *model) keys() string {
	switch {
	case m.now().Before(m.quitBy):
		return "ctrl+c again leaves"
	case m.prefixed:
		return "ctrl+e opens your editor"
	case m.menu.open() && m.menu.moved:
		return "enter, tab take it · esc closes"
	case m.menu.open():
		return "↑↓ choose · tab takes it · esc closes"
	case m.own != nil:
		return "ctrl+c ends your command"
	case m.turn != nil:
		return "esc cancels"
	case m.phase == broken:
		return strings.TrimSuffix(m.hint("/new · /quit"), " leaves")
	case m.cut != nil:
		return "ctrl+o shows " + safetext.Count(m.cut.Omitted(), "more line") + " · /help"
	}
	return "/help"
}

// money formats an amount. The currency is a text of the agent.
func money(amount float64, currency string) string {
	text := fmt.Sprintf("%.2f", amount)
	if amount > 0 && amount < 0.01 {
		text = fmt.Sprintf("%.4f", amount)
	}
	switch currency = short(currency); currency {
	case "USD", "":
		return "$" + text
	case "EUR":
		return "€" + text
	}
	return text + " " + currency
}

// markCursor marks the column of the cursor in a row.
func markCursor(m *model, row string, x int) string {
	before, after := ansi.Cut(row, 0, x), ansi.Cut(row, x, m.width)
	at := " "
	if after != "" {
		at = ansi.Cut(after, 0, max(1, safetext.Width(clusters(after)[0])))
		after = after[len(at):]
	}
	if !m.sty.color {
		return before + "▏" + strings.TrimPrefix(at, " ") + after
	}
	return before + m.sty.chosen(at) + after
}
