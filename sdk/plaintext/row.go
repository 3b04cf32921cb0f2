package plaintext

import (
	"slices"
	"unicode/utf8"
)

const tabWidth = 8

// row is one line as it can still be changed. Its text is valid UTF-8 without control characters but tabs.
type row struct {
	text []byte
	// complex says that a column is not simply a byte: there is something other than printable ASCII.
	complex bool
}

// cellAt is the cell that starts at byte i and column col: its bytes and its columns. What has no width of its own
// belongs to the cell before it.
func (r *row) cellAt(i, col int) (size, width int) {
	c, size := utf8.DecodeRune(r.text[i:])
	if width = runeWidth(c); c == '\t' {
		width = tabWidth - col%tabWidth
	}
	for i+size < len(r.text) {
		c, k := utf8.DecodeRune(r.text[i+size:])
		if c < 0x300 || runeWidth(c) != 0 {
			break
		}
		size += k
	}
	return size, width
}

// column is the column of the cell that starts at byte pos, counted on from a cell before it.
func (r *row) column(pos int, from cell) int {
	if !r.complex {
		return pos
	}
	col := from.col
	for i := from.pos; i < pos; {
		size, width := r.cellAt(i, col)
		i, col = i+size, col+width
	}
	return col
}

// seek finds column col: the byte where it starts, and how many columns lie between the end of the row and it. A tab that
// reaches across the column becomes spaces; a wide character stands for all its columns.
func (r *row) seek(col int) (pos, gap int) {
	if !r.complex {
		pos = min(col, len(r.text))
		return pos, col - pos
	}
	at := 0
	for pos < len(r.text) && at < col {
		size, width := r.cellAt(pos, at)
		if at+width > col {
			if r.text[pos] == '\t' {
				r.text = slices.Replace(r.text, pos, pos+1, spaces(width)...)
				return pos + col - at, 0
			}
			return pos, 0
		}
		pos, at = pos+size, at+width
	}
	return pos, col - at
}

// overwrite puts seg, which has no tab, over the cells at byte pos and column col, and returns the byte after it.
func (r *row) overwrite(pos, col int, seg []byte, simple bool) int {
	if !r.complex && simple {
		k := copy(r.text[pos:], seg)
		r.text = append(r.text, seg[k:]...)
		return pos + len(seg)
	}
	r.complex = true
	width := textWidth(seg)
	end, covered := r.cells(pos, col, width)
	r.text = slices.Replace(r.text, pos, end, seg...)
	if covered > width {
		r.text = slices.Insert(r.text, pos+len(seg), spaces(covered-width)...)
	}
	return pos + len(seg)
}

// remove takes n columns out at byte pos and column col.
func (r *row) remove(pos, col, n int) {
	end, _ := r.cells(pos, col, n)
	r.text = slices.Delete(r.text, pos, end)
}

// cells is where the cells end that cover n columns from byte pos and column col on, as far as the row goes, and how many
// columns they cover: more than n where the last one is wide.
func (r *row) cells(pos, col, n int) (end, covered int) {
	for end = pos; end < len(r.text) && covered < n; {
		size, w := r.cellAt(end, col+covered)
		end, covered = end+size, covered+w
	}
	return end, covered
}

// cell is a place in a row whose column is known.
type cell struct{ pos, col int }

func (r *row) clear() { r.text, r.complex = r.text[:0], false }

// blanks is as much as is ever filled in at once: a row of the screen, and a tab that reaches beyond it.
const blanks = "                                                                                                                                "

func spaces(n int) []byte { return []byte(blanks[:n]) }
