package render

import (
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/text/markdown"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// tableRow stores a row until the table is complete.
func (m *markdownWriter) tableRow(line string) {
	m.take(line)
	if len(m.table) == 1 && !markdown.IsTableRule(line) { // not a table
		m.endTable()
	}
	m.table = append(m.table, line)
	if m.tabled += len(line); m.tabled > maxHeldTable {
		m.endTable()
	}
}

// endTable shows the stored rows: in columns if they fit, else unchanged.
func (m *markdownWriter) endTable() {
	rows := m.table
	m.table, m.tabled = nil, 0
	if len(rows) == 0 {
		return
	}
	if len(rows) < 2 || !markdown.IsTableRule(rows[1]) {
		for _, row := range rows {
			m.w.prefixed("", "")
			m.spans.Begin()
			m.style = normal
			m.spans.Read(row, true)
			m.w.newline()
		}
		return
	}
	cells := [][]string{m.cells(rows[0], bold)}
	for _, row := range rows[2:] {
		cells = append(cells, m.cells(row, normal))
	}
	var widths []int
	total := 0
	for _, list := range cells {
		for c, cell := range list {
			if c == len(widths) {
				widths = append(widths, 0)
				total += 3
			}
			if more := safetext.Width(stripped(cell)) - widths[c]; more > 0 {
				widths[c] += more
				total += more
			}
		}
	}
	if m.o.Width > 0 && total-3 > m.o.Width {
		for _, row := range rows {
			m.w.line(row)
		}
		return
	}
	for i, list := range cells {
		var b strings.Builder
		for c, w := range widths {
			cell := ""
			if c < len(list) {
				cell = list[c]
			}
			if c > 0 {
				b.WriteString(m.o.paint(dim, " │ "))
			}
			b.WriteString(cell)
			if c < len(widths)-1 {
				b.WriteString(strings.Repeat(" ", w-safetext.Width(stripped(cell))))
			}
		}
		m.w.line(strings.TrimRight(b.String(), " "))
		if i == 0 {
			var rule []string
			for _, w := range widths {
				rule = append(rule, strings.Repeat("─", w))
			}
			m.w.line(m.o.paint(dim, strings.Join(rule, "─┼─")))
		}
	}
}

// cells returns the formatted cells of a row.
func (m *markdownWriter) cells(row string, s style) []string {
	o := m.o
	o.Width = 0
	list := markdown.Cells(row)
	for i, cell := range list {
		one := newMarkdown(o)
		one.style = s
		one.spans.Begin()
		one.spans.Read(cell, true)
		list[i] = one.w.taken()
	}
	return list
}
