package plaintext

import (
	"slices"
	"unicode/utf8"
)

// The size that is reported to programs, and so the part of the output that cursor movements can reach.
const (
	Columns = 120
	Rows    = 30
)

// position is a position on the grid.
type position struct{ y, col int }

// grid is the part of the output that can still change: at most Rows rows, and the cursor. A row is a whole line,
// regardless of its length: lines are not wrapped, because wrapped lines are of no use in text.
type grid struct {
	rows [Rows]row // a ring
	head int       // index of the first row
	n    int       // rows in use, at least 1

	y   int // row of the cursor
	pos int // byte of the cursor in that row's text
	col int // column of pos; -1: unknown
	gap int // columns between the end of the row and a cursor beyond it
	// seen is the last cell whose column was counted, at or before pos: counting from the start of a long line after
	// every character would take quadratic time.
	seen cell

	top, bottom int // the scroll region
	saved       position
}

func newGrid() *grid { return &grid{n: 1, bottom: Rows - 1} }

func (g *grid) at(y int) *row {
	if y += g.head; y >= Rows {
		y -= Rows
	}
	return &g.rows[y]
}

func (g *grid) cursorRow() *row { return g.at(g.y) }

// column returns the cursor's column.
func (g *grid) column() int {
	if g.col < 0 {
		g.col = g.cursorRow().column(g.pos, g.seen)
		g.seen = cell{g.pos, g.col}
	}
	return g.col + g.gap
}

// moveTo moves the cursor to a position, limited to the screen.
func (g *grid) moveTo(y, col int) {
	g.y = min(max(y, 0), Rows-1)
	g.extend(g.y)
	col = min(max(col, 0), Columns-1)
	r := g.cursorRow()
	g.seen = cell{}
	g.pos, g.gap = r.seek(col)
	g.col = col - g.gap
	if r.complex && g.gap == 0 {
		g.col = -1 // the column may be in the middle of a wide character
	}
}

// extend creates all rows down to y.
func (g *grid) extend(y int) {
	for g.n <= y {
		g.at(g.n).clear()
		g.n++
	}
}

// moveLeft moves one cell to the left.
func (g *grid) moveLeft() {
	switch {
	case g.gap > 0:
		g.gap--
	case g.pos > 0:
		col := g.column()
		if col <= Columns {
			g.moveTo(g.y, col-1)
			return
		}
		// The position is beyond the screen. One character counts as one cell, because counting columns from 0 would
		// take quadratic time.
		text := g.cursorRow().text
		for g.pos--; g.pos > 0 && !utf8.RuneStart(text[g.pos]); {
			g.pos--
		}
		g.col = col - 1
		g.seen = cell{g.pos, g.col}
	}
}

// forward moves n columns to the right, at most to the edge of the screen.
func (g *grid) forward(n int) {
	if col := g.column(); col < Columns-1 {
		g.moveTo(g.y, col+n)
	}
}

// print writes characters at the cursor; seg has no control characters. simple: all are ASCII.
func (g *grid) print(seg []byte, simple bool) {
	r := g.cursorRow()
	if g.gap > 0 {
		r.text = append(r.text, blanks[:g.gap]...)
		g.pos, g.col, g.gap = len(r.text), g.column(), 0
		g.seen = cell{g.pos, g.col}
	}
	switch {
	case g.pos == len(r.text):
		r.text = append(r.text, seg...)
		g.pos = len(r.text)
		r.complex = r.complex || !simple
	default:
		col := 0
		if r.complex || !simple {
			col = g.column()
		}
		g.pos = r.overwrite(g.pos, col, seg, simple)
	}
	if g.col = g.pos; r.complex {
		g.col = -1
	}
}

// tab moves to the next tab stop. At the end of a row it writes the tab itself, so that the output of a Makefile
// contains tabs.
func (g *grid) tab() {
	r := g.cursorRow()
	if g.pos == len(r.text) && g.gap == 0 {
		r.text = append(r.text, '\t')
		r.complex = true
		g.pos, g.col = len(r.text), -1
		return
	}
	if col := g.column(); col < Columns {
		g.moveTo(g.y, col+tabWidth-col%tabWidth)
	}
}

// swap exchanges two rows.
func (g *grid) swap(a, b int) {
	x, y := g.at(a), g.at(b)
	*x, *y = *y, *x
}

// insertLines inserts n blank rows at y; rows that pass the bottom are dropped.
func (g *grid) insertLines(y, n int) {
	g.extend(g.bottom)
	for range min(n, g.bottom-y+1) {
		for i := g.bottom; i > y; i-- {
			g.swap(i, i-1)
		}
		g.at(y).clear()
	}
	g.home()
}

// deleteLines removes n rows at y; blank rows appear at the bottom.
func (g *grid) deleteLines(y, n int) {
	g.extend(g.bottom)
	for range min(n, g.bottom-y+1) {
		for i := y; i < g.bottom; i++ {
			g.swap(i, i+1)
		}
		g.at(g.bottom).clear()
	}
	g.home()
}

// home moves to the start of the row.
func (g *grid) home() { g.pos, g.col, g.gap, g.seen = 0, 0, 0, cell{} }

// eraseRow erases to the right of the cursor (0), to its left (1), or the whole row (2).
func (g *grid) eraseRow(mode int) {
	r, col := g.cursorRow(), g.column()
	switch mode {
	case 0:
		r.text = r.text[:g.pos]
	case 1:
		g.eraseCells(0, 0, min(col+1, Columns))
		g.moveTo(g.y, min(col, Columns-1))
	case 2:
		r.clear()
		g.moveTo(g.y, min(col, Columns-1))
	}
}

// eraseCells replaces n columns from byte pos and column col on by spaces, up to the end of the row.
func (g *grid) eraseCells(pos, col, n int) {
	r := g.cursorRow()
	end, covered := r.cells(pos, col, n)
	r.text = slices.Replace(r.text, pos, end, spaces(covered)...)
}

// blank reports whether the row has no text.
func (r *row) blank() bool { return len(r.text) == 0 }

// clear erases the whole grid, and moves the cursor to the top left.
func (g *grid) clear() {
	for y := range g.n {
		g.at(y).clear()
	}
	g.n, g.y = 1, 0
	g.home()
}
