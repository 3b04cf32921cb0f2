package chat

import (
	"slices"
	"strings"
	"unicode"

	"github.com/clipperhouse/uax29/v2/graphemes"

	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// maxInput bounds what can be typed or pasted into the input, in bytes. A file is attached instead.
const maxInput = 1 << 20

// editor is the text that is being written, with a cursor. It holds what a person sees as one character as one piece, so
// that the cursor never stands inside of one. The zero value is empty.
type editor struct {
	lines    [][]string // never changed in place by others; at least one once something was written
	row, col int
	size     int // bytes, line feeds included
}

// Text is the text as it is sent.
func (e *editor) Text() string {
	var b strings.Builder
	for i, line := range e.lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		for _, c := range line {
			b.WriteString(c)
		}
	}
	return b.String()
}

// Empty reports whether there is no text.
func (e *editor) Empty() bool { return e.size == 0 }

// Set replaces the text; the cursor stands at its end.
func (e *editor) Set(text string) {
	*e = editor{}
	e.Insert(text)
}

// Insert writes text at the cursor. It reports false, and leaves all as it is, where the text would get too long.
func (e *editor) Insert(text string) bool {
	text = typed(text)
	if e.size+len(text) > maxInput {
		return false
	}
	e.ensure()
	for i, part := range strings.Split(text, "\n") {
		if i > 0 {
			e.breakLine()
		}
		if part == "" {
			continue
		}
		line := e.lines[e.row]
		before, after := strings.Join(line[:e.col], "")+part, strings.Join(line[e.col:], "")
		// Seen as a whole: an accent that is typed joins the letter before it.
		e.lines[e.row] = clusters(before + after)
		e.col = min(len(clusters(before)), len(e.lines[e.row]))
	}
	e.size += len(text)
	return true
}

// Backspace deletes what stands before the cursor.
func (e *editor) Backspace() {
	if e.Left() {
		e.Delete()
	}
}

// Delete deletes what stands at the cursor.
func (e *editor) Delete() {
	e.ensure()
	line := e.lines[e.row]
	switch {
	case e.col < len(line):
		e.size -= len(line[e.col])
		e.lines[e.row] = slices.Delete(slices.Clone(line), e.col, e.col+1)
	case e.row+1 < len(e.lines):
		e.size--
		e.lines[e.row] = clusters(strings.Join(line, "") + strings.Join(e.lines[e.row+1], ""))
		e.lines = slices.Delete(e.lines, e.row+1, e.row+2)
	}
	e.col = min(e.col, len(e.lines[e.row]))
}

// Left goes back by one; false at the beginning.
func (e *editor) Left() bool {
	switch {
	case e.col > 0:
		e.col--
	case e.row > 0:
		e.row--
		e.col = len(e.lines[e.row])
	default:
		return false
	}
	return true
}

// Right goes on by one; false at the end.
func (e *editor) Right() bool {
	e.ensure()
	switch {
	case e.col < len(e.lines[e.row]):
		e.col++
	case e.row+1 < len(e.lines):
		e.row++
		e.col = 0
	default:
		return false
	}
	return true
}

// Home goes to the beginning of the line.
func (e *editor) Home() { e.col = 0 }

// End goes to the end of the line.
func (e *editor) End() {
	e.ensure()
	e.col = len(e.lines[e.row])
}

// WordLeft goes back to where a word begins.
func (e *editor) WordLeft() {
	for e.Left() && blank(e.at()) {
	}
	for e.col > 0 && !blank(e.lines[e.row][e.col-1]) {
		e.col--
	}
}

// WordRight goes on to where a word ends.
func (e *editor) WordRight() {
	for blank(e.at()) && e.Right() {
	}
	for !blank(e.at()) && e.Right() {
	}
}

// DeleteWord deletes the word before the cursor.
func (e *editor) DeleteWord() {
	row, col := e.row, e.col
	e.WordLeft()
	for e.row < row || e.row == row && e.col < col {
		if e.row < row && e.col == len(e.lines[e.row]) {
			row, col = row-1, len(e.lines[e.row])+col
		} else if e.row == row {
			col--
		}
		e.Delete()
	}
}

// DeleteToStart deletes the line up to the cursor.
func (e *editor) DeleteToStart() {
	for e.col > 0 {
		e.Backspace()
	}
}

// DeleteToEnd deletes the line from the cursor on.
func (e *editor) DeleteToEnd() {
	e.ensure()
	for e.col < len(e.lines[e.row]) {
		e.Delete()
	}
}

// Before is the text of the line up to the cursor.
func (e *editor) Before() string {
	if len(e.lines) == 0 {
		return ""
	}
	return strings.Join(e.lines[e.row][:e.col], "")
}

// ReplaceBefore puts text in the place of the last n bytes before the cursor, which are on its line.
func (e *editor) ReplaceBefore(n int, text string) {
	for n > 0 && e.col > 0 {
		n -= len(e.lines[e.row][e.col-1])
		e.Backspace()
	}
	e.Insert(text)
}

// Up goes to the row above, as rows are shown at a width; false in the first.
func (e *editor) Up(width int) bool { return e.vertical(width, -1) }

// Down goes to the row below, likewise; false in the last.
func (e *editor) Down(width int) bool { return e.vertical(width, 1) }

func (e *editor) vertical(width, by int) bool {
	rows, at := e.layout(width)
	if at+by < 0 || at+by >= len(rows) {
		return false
	}
	x := cells(e.lines[e.row][rows[at].from:e.col])
	to := rows[at+by]
	e.row, e.col = to.line, to.from
	for e.col < to.to && cells(e.lines[to.line][to.from:e.col+1]) <= x {
		e.col++
	}
	if e.col == to.to && !to.last && to.to > to.from {
		e.col-- // behind the last one is the next row
	}
	return true
}

// Show returns the rows at a width, and where in them the cursor stands.
func (e *editor) Show(width int) (rows []string, x, y int) {
	parts, y := e.layout(width)
	for _, p := range parts {
		var b strings.Builder
		for _, c := range e.lines[p.line][p.from:p.to] {
			b.WriteString(shownCluster(c))
		}
		rows = append(rows, b.String())
	}
	return rows, cells(e.lines[e.row][parts[y].from:e.col]), y
}

// row is a part of a line, as it is shown.
type row struct {
	line, from, to int
	last           bool // of its line
}

// layout breaks the lines where they are too wide; at is the row of the cursor. A cell is left free for the cursor.
func (e *editor) layout(width int) (rows []row, at int) {
	e.ensure()
	width = max(width-1, 1)
	for i, line := range e.lines {
		from, used := 0, 0
		for j, c := range line {
			w := safetext.Width(shownCluster(c))
			if used+w > width && j > from {
				rows = append(rows, row{line: i, from: from, to: j})
				from, used = j, 0
			}
			used += w
		}
		rows = append(rows, row{line: i, from: from, to: len(line), last: true})
	}
	for i, r := range rows {
		if r.line == e.row && r.from <= e.col && (e.col < r.to || r.last && e.col == r.to) {
			at = i
		}
	}
	return rows, at
}

func (e *editor) ensure() {
	if len(e.lines) == 0 {
		e.lines = [][]string{nil}
	}
}

func (e *editor) breakLine() {
	line := e.lines[e.row]
	rest := slices.Clone(line[e.col:])
	e.lines[e.row] = line[:e.col:e.col]
	e.lines = slices.Insert(e.lines, e.row+1, rest)
	e.row, e.col = e.row+1, 0
}

// at is what stands at the cursor; a line feed at a line's end.
func (e *editor) at() string {
	if len(e.lines) == 0 || e.col >= len(e.lines[e.row]) {
		return "\n"
	}
	return e.lines[e.row][e.col]
}

func blank(c string) bool { return strings.TrimSpace(c) == "" }

// typed is text as the editor takes it: line feeds and tabs, and nothing else that a terminal would obey.
func typed(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\r\n", "\n"), "\ufffd")
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\r':
			return '\n'
		case c == '\n' || c == '\t':
			return c
		case unicode.IsControl(c):
			return -1
		}
		return c
	}, text)
}

func clusters(text string) []string {
	var all []string
	if !strings.ContainsFunc(text, func(c rune) bool { return c >= 0x7f }) { // nearly always
		for i := range len(text) {
			all = append(all, text[i:i+1])
		}
		return all
	}
	for g := graphemes.FromString(text); g.Next(); {
		all = append(all, g.Value())
	}
	return all
}

// shownCluster is how a piece of the text is shown. What would change how others show is a dot; it is still sent.
func shownCluster(c string) string {
	if c == "\t" {
		return "  "
	}
	if len(c) == 1 && c[0] >= ' ' && c[0] < 0x7f {
		return c
	}
	if safe := safetext.Text(c); safe != c || safetext.Width(c) == 0 {
		return "·"
	}
	return c
}

func cells(line []string) int {
	n := 0
	for _, c := range line {
		n += safetext.Width(shownCluster(c))
	}
	return n
}
