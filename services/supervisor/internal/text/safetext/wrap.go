package safetext

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// Wrap breaks text into rows of at most width columns, at the ends of words. It breaks only words that are wider than a
// row, and never between a character and its combining marks. Spaces at the end of a row are removed; others are kept.
// A row that continues a line begins with hang, unless hang leaves less than half of the width.
//
// The text may have colours, written by Color: they are ended at the end of a row, and continued in the next one. Line
// feeds end rows. The text must not contain tabs.
func Wrap(text string, width int, hang string) []string {
	w := wrapping{width: max(width, 1), hang: hang, indent: Width(hang)}
	if w.indent > w.width/2 || w.indent > w.width-2 { // a character may be two columns wide
		w.hang, w.indent = "", 0
	}
	for line := range strings.SplitSeq(text, "\n") {
		w.line(line)
	}
	return w.rows
}

// BreaksBeside reports whether a character belongs to a script without spaces between words, so that a line may be
// broken beside it.
func BreaksBeside(r rune) bool {
	return r >= 0x2e80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

// wrapping is the state of Wrap.
type wrapping struct {
	width  int
	hang   string
	indent int // columns of hang
	rows   []string

	row     strings.Builder // without the buffered word
	column  int
	content int // columns of the row after hang
	spaces  int // after row
	word    strings.Builder
	wide    int    // columns of word
	color   string // active sequences at the start of the row
	now     string // active sequences now
}

// line breaks one line into rows.
func (w *wrapping) line(line string) {
	w.color = w.now
	w.row.WriteString(w.color)
	for line != "" {
		if rest, sequence, ok := colors(line); ok {
			w.word.WriteString(sequence)
			if w.now += sequence; sequence == "\x1b[0m" || sequence == "\x1b[m" {
				w.now = ""
			}
			line = rest
			continue
		}
		c := first(line)
		line = line[len(c):]
		if c == " " {
			w.endWord()
			w.spaces++
			continue
		}
		r, _ := utf8.DecodeRuneInString(c)
		if BreaksBeside(r) {
			w.endWord()
		}
		w.add(c)
		if BreaksBeside(r) {
			w.endWord()
		}
	}
	w.endWord()
	if w.column+w.spaces <= w.width {
		w.row.WriteString(strings.Repeat(" ", w.spaces))
	}
	w.endRow()
	w.column, w.content, w.spaces = 0, 0, 0
}

// add adds a character to the word. A word that fills a row is written at once.
func (w *wrapping) add(c string) {
	n := Width(c)
	if w.wide > 0 && w.wide+n > w.width-w.indent {
		w.endWord()
	}
	w.word.WriteString(c)
	w.wide += n
}

// endWord writes the buffered word, on the next row if it does not fit on this one.
func (w *wrapping) endWord() {
	if w.word.Len() == 0 {
		return
	}
	if w.column+w.spaces+w.wide > w.width && w.content > 0 {
		w.endRow()
		w.row.WriteString(w.hang + w.color)
		w.column, w.content, w.spaces = w.indent, 0, 0
	}
	if n := w.width - w.wide - w.column; w.spaces > n {
		w.spaces = max(n, 0)
	}
	w.row.WriteString(strings.Repeat(" ", w.spaces))
	w.row.WriteString(w.word.String())
	w.column += w.spaces + w.wide
	w.content += w.spaces + w.wide
	w.spaces, w.wide, w.color = 0, 0, w.now
	w.word.Reset()
}

// endRow ends the row, and its colours.
func (w *wrapping) endRow() {
	if w.color != "" {
		w.row.WriteString("\x1b[0m")
	}
	w.rows = append(w.rows, w.row.String())
	w.row.Reset()
}

// colors returns the escape sequence of Color at the beginning of text.
func colors(text string) (rest, sequence string, ok bool) {
	if !strings.HasPrefix(text, "\x1b[") {
		return text, "", false
	}
	n := 2
	for n < len(text) && (text[n] >= '0' && text[n] <= '9' || text[n] == ';') {
		n++
	}
	if n == len(text) || text[n] != 'm' {
		return text, "", false
	}
	return text[n+1:], text[:n+1], true
}

// first returns the first visible character of text, with its combining marks.
func first(text string) string {
	if len(text) == 1 || text[0] < utf8.RuneSelf && text[1] < utf8.RuneSelf {
		return text[:1]
	}
	g := graphemes.FromString(text)
	g.Next()
	return g.Value()
}
