package chat

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"

	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// maxInput limits the bytes of the input. A larger text can be attached as a file.
const maxInput = 1 << 20

// editor is a text with a cursor. It stores each grapheme cluster as one element, so that the cursor is never inside of
// a cluster. The zero value is empty.
type editor struct {
	text []string // clusters; a line feed is one
	at   int      // the cluster at the cursor
	size int      // bytes
}

// Text returns the text as it is sent.
func (e *editor) Text() string { return strings.Join(e.text, "") }

// Empty reports whether there is no text.
func (e *editor) Empty() bool { return e.size == 0 }

// Set replaces the text, and moves the cursor to its end.
func (e *editor) Set(text string) {
	*e = editor{}
	e.Insert(text)
}

// Insert inserts text at the cursor. It returns false, and changes nothing, if the text would be too long.
func (e *editor) Insert(text string) bool {
	text = typed(text)
	if e.size+len(text) > maxInput {
		return false
	}
	from, to := e.line()
	before := e.Before() + text
	// Split the whole line into clusters: a typed accent joins the letter before it.
	line := clusters(before + strings.Join(e.text[e.at:to], ""))
	e.text = slices.Replace(e.text, from, to, line...)
	e.at = from + min(len(clusters(before)), len(line))
	e.size += len(text)
	return true
}

// cut deletes clusters, and moves the cursor to their position.
func (e *editor) cut(from, to int) {
	e.size -= len(strings.Join(e.text[from:to], ""))
	e.text = slices.Delete(e.text, from, to)
	e.at = from
	e.Insert("") // neighbours may now form one cluster
}

// line returns the begin and the end of the line with the cursor.
func (e *editor) line() (from, to int) {
	from, to = e.at, e.at
	for from > 0 && e.text[from-1] != "\n" {
		from--
	}
	for to < len(e.text) && e.text[to] != "\n" {
		to++
	}
	return from, to
}

// Backspace deletes the cluster before the cursor.
func (e *editor) Backspace() {
	if e.Left() {
		e.Delete()
	}
}

// Delete deletes the cluster at the cursor.
func (e *editor) Delete() { e.cut(e.at, min(e.at+1, len(e.text))) }

// Left moves the cursor left. It returns false at the beginning.
func (e *editor) Left() bool {
	if e.at == 0 {
		return false
	}
	e.at--
	return true
}

// Right moves the cursor right. It returns false at the end.
func (e *editor) Right() bool {
	if e.at == len(e.text) {
		return false
	}
	e.at++
	return true
}

// Home moves the cursor to the beginning of the line.
func (e *editor) Home() { e.at, _ = e.line() }

// End moves the cursor to the end of the line.
func (e *editor) End() { _, e.at = e.line() }

// WordLeft moves the cursor to the beginning of a word.
func (e *editor) WordLeft() {
	for e.Left() && e.blank() {
	}
	for e.at > 0 && !blank(e.text[e.at-1]) {
		e.at--
	}
}

// WordRight moves the cursor to the end of a word.
func (e *editor) WordRight() {
	for e.blank() && e.Right() {
	}
	for !e.blank() && e.Right() {
	}
}

// DeleteWord deletes the word before the cursor.
func (e *editor) DeleteWord() {
	end := e.at
	e.WordLeft()
	e.cut(e.at, end)
}

// DeleteToStart deletes the line up to the cursor.
func (e *editor) DeleteToStart() {
	from, _ := e.line()
	e.cut(from, e.at)
}

// DeleteToEnd deletes the line from the cursor on.
func (e *editor) DeleteToEnd() {
	_, to := e.line()
	e.cut(e.at, to)
}

// Before returns the text of the line before the cursor.
func (e *editor) Before() string {
	from, _ := e.line()
	return strings.Join(e.text[from:e.at], "")
}

// ReplaceBefore replaces the last n bytes before the cursor, which are on its line.
func (e *editor) ReplaceBefore(n int, text string) {
	from := e.at
	for ; n > 0 && from > 0; from-- {
		n -= len(e.text[from-1])
	}
	e.cut(from, e.at)
	e.Insert(text)
}

// Up moves the cursor to the row above, at a display width. It returns false in the first row.
func (e *editor) Up(width int) bool { return e.vertical(width, -1) }

// Down moves the cursor to the row below. It returns false in the last row.
func (e *editor) Down(width int) bool { return e.vertical(width, 1) }

func (e *editor) vertical(width, by int) bool {
	rows, at := e.layout(width)
	if at+by < 0 || at+by >= len(rows) {
		return false
	}
	x := cells(e.text[rows[at].from:e.at])
	to := rows[at+by]
	e.at = to.from
	for e.at < to.to && cells(e.text[to.from:e.at+1]) <= x {
		e.at++
	}
	if e.at == to.to && !to.last && to.to > to.from {
		e.at-- // the next row begins after the last one
	}
	return true
}

// Show returns the rows at a display width, and the position of the cursor in them.
func (e *editor) Show(width int) (rows []string, x, y int) {
	parts, y := e.layout(width)
	for _, p := range parts {
		var b strings.Builder
		for _, c := range e.text[p.from:p.to] {
			b.WriteString(shownCluster(c))
		}
		rows = append(rows, b.String())
	}
	return rows, cells(e.text[parts[y].from:e.at]), y
}

// row is a line, or a part of a line, as displayed.
type row struct {
	from, to int
	last     bool // the last row of its line
}

// layout breaks lines that are too wide at the ends of words. at is the row of the cursor. It keeps a cell free for the
// cursor, or for the space after a word.
func (e *editor) layout(width int) (rows []row, at int) {
	width = max(width-1, 1)
	from, used := 0, 0
	end, upTo := 0, 0 // the end of the last word, and the cells up to it
	for i, c := range e.text {
		if c == "\n" {
			rows = append(rows, row{from, i, true})
			from, used = i+1, 0
			continue
		}
		w := safetext.Width(shownCluster(c))
		free := 0
		if c == " " && i+1 < len(e.text) && e.text[i+1] != "\n" {
			free = 1
		}
		for used+w > width+free && i > from {
			if end <= from {
				end, upTo = i, used
			}
			rows = append(rows, row{from, end, false})
			from, used = end, used-upTo
		}
		used += w
		if r, _ := utf8.DecodeRuneInString(c); c == " " || safetext.BreaksBeside(r) {
			end, upTo = i+1, used
		}
	}
	rows = append(rows, row{from, len(e.text), true})
	at = slices.IndexFunc(rows, func(r row) bool { return e.at < r.to || r.last && e.at == r.to })
	return rows, at
}

// blank reports whether the cursor is at a space, or at the end of the text.
func (e *editor) blank() bool { return e.at == len(e.text) || blank(e.text[e.at]) }

func blank(c string) bool { return strings.TrimSpace(c) == "" }

// typed returns text without control characters, except for line feeds and tabs.
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
	if !strings.ContainsFunc(text, func(c rune) bool { return c >= 0x7f }) { // the usual case
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

// shownCluster returns the displayed form of a cluster. A cluster that would affect its neighbours is displayed as a
// dot. The text that is sent is unchanged.
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
