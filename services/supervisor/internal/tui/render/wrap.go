package render

import (
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// wrapper breaks styled text into lines while it arrives. It holds back the last word until its end is known, except
// for a long word.
type wrapper struct {
	o     Options
	out   strings.Builder
	first string // prefix of the next line; "" after it was written
	hang  string // prefix of continuation lines

	column int        // columns used on this line
	began  bool       // the prefix of the line was written
	word   []fragment // held back
	wide   int        // columns of word
	space  int        // spaces before word
}

type fragment struct {
	style style
	text  string
}

// prefixed sets the prefixes of the next line and of its continuation lines. Both may have colours.
func (w *wrapper) prefixed(first, hang string) { w.first, w.hang = first, hang }

// text adds text of one line.
func (w *wrapper) text(s style, text string) {
	if w.o.Width <= 0 {
		w.begin()
		w.out.WriteString(w.o.paint(s, text))
		return
	}
	start := 0
	for i, r := range text {
		switch {
		case r == ' ':
			w.append(s, text[start:i])
			w.endWord()
			w.space++
			start = i + 1
		case safetext.BreaksBeside(r):
			w.append(s, text[start:i])
			w.endWord()
			start = i
		case i-start > 64: // not a word, but a horizontal line or similar
			w.append(s, text[start:i])
			start = i
		}
	}
	w.append(s, text[start:])
}

func (w *wrapper) append(s style, text string) {
	for text != "" {
		piece := text
		// a word that is longer than a line fills whole lines
		if room := w.room() - w.wide; safetext.Width(text) > room {
			piece = safetext.Head(text, room)
		}
		if piece == "" {
			if len(w.word) > 0 {
				w.endWord()
				continue
			}
			piece = text // one character that is wider than a line
		}
		if n := len(w.word); n > 0 && w.word[n-1].style == s {
			w.word[n-1].text += piece
		} else {
			w.word = append(w.word, fragment{s, piece})
		}
		w.wide += safetext.Width(piece)
		text = text[len(piece):]
		if text != "" || w.wide >= w.room() {
			w.endWord()
		}
	}
}

// room returns the number of columns for text on a line.
func (w *wrapper) room() int { return max(w.o.Width-safetext.Width(stripped(w.hang)), 16) }

// endWord writes the word that was held back.
func (w *wrapper) endWord() {
	if len(w.word) == 0 {
		return
	}
	w.begin()
	if w.space > 0 && w.column+w.space+w.wide > w.o.Width || w.column+w.wide > w.o.Width && w.column > safetext.Width(stripped(w.hang)) {
		w.out.WriteString("\n" + w.hang)
		w.column, w.space = safetext.Width(stripped(w.hang)), 0
	}
	w.out.WriteString(strings.Repeat(" ", w.space))
	w.column += w.space
	w.space = 0
	for _, f := range w.word {
		w.out.WriteString(w.o.paint(f.style, f.text))
	}
	w.column += w.wide
	w.word, w.wide = w.word[:0], 0
}

// begin writes the prefix of a line.
func (w *wrapper) begin() {
	if w.began {
		return
	}
	w.began = true
	w.out.WriteString(w.first)
	w.column = safetext.Width(stripped(w.first))
	w.first = ""
}

// newline ends the line.
func (w *wrapper) newline() {
	w.endWord()
	if w.first != "" {
		w.begin()
	}
	w.out.WriteByte('\n')
	w.column, w.space, w.began, w.first, w.hang = 0, 0, false, "", ""
}

// line writes a whole line unchanged.
func (w *wrapper) line(text string) {
	w.out.WriteString(text)
	w.out.WriteByte('\n')
}

// taken returns the text that was written since the last call.
func (w *wrapper) taken() string {
	s := w.out.String()
	w.out.Reset()
	return s
}

// paused writes the word that was held back. More text of the word follows it directly.
func (w *wrapper) paused() string {
	w.endWord()
	return w.taken()
}

// stripped returns text without acphost's colour sequences.
func stripped(text string) string {
	if !strings.Contains(text, "\x1b") {
		return text
	}
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(text, "\x1b[")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		_, text, _ = strings.Cut(after, "m")
	}
}
