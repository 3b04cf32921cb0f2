package plaintext

import (
	"slices"
	"unicode/utf8"
)

const tabWidth = 8

// row is a line that can still change. Its text is valid UTF-8 without control characters except tabs.
type row struct {
	text []byte
	// complex means that columns differ from bytes: the text contains characters other than printable ASCII.
	complex bool
}

// cellAt returns the bytes and columns of the cell that starts at byte i and column col. Characters without width
// belong to the cell before them.
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

// column returns the column of the cell that starts at byte pos, counted from an earlier cell.
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

// seek finds column col: the byte where it starts, and the number of columns between the end of the row and it. A tab
// that contains the column becomes spaces; a wide character covers all its columns.
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

// overwrite writes seg, which has no tab, over the cells at byte pos and column col, and returns the byte after it.
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

// remove removes n columns at byte pos and column col.
func (r *row) remove(pos, col, n int) {
	end, _ := r.cells(pos, col, n)
	r.text = slices.Delete(r.text, pos, end)
}

// cells returns the end of the cells that cover n columns from byte pos and column col on, up to the end of the row,
// and the number of columns that they cover: more than n if the last cell is wide.
func (r *row) cells(pos, col, n int) (end, covered int) {
	for end = pos; end < len(r.text) && covered < n; {
		size, w := r.cellAt(end, col+covered)
		end, covered = end+size, covered+w
	}
	return end, covered
}

// cell is a position in a row whose column is known.
type cell struct{ pos, col int }

func (r *row) clear() { r.text, r.complex = r.text[:0], false }

// blanks is the longest text that is ever inserted: a row of the screen, and a tab that passes its end.
const blanks = "                                                                                                                                "

func spaces(n int) []byte { return []byte(blanks[:n]) }
