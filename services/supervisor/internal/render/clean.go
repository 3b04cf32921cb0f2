package render

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// Bounds of what one thing can take on the screen, in characters or lines.
const (
	maxLine  = 400      // of a title, a name, a path
	maxMarks = 8        // combining marks on one character
	maxCode  = 4 << 10  // of one line of code, a diff or output
	maxText  = 64 << 10 // of one piece of text that is shown whole: a description, a question
)

// Clean writes characters that a terminal obeys, or that change how others show, as escapes: "\u{1b}". Line feeds and
// tabs stay; a carriage return before a line feed goes. What is left cannot move the cursor, change a colour, set a
// title, or turn the direction of text.
func Clean(text string) string {
	plain := true
	for i := 0; i < len(text); i++ {
		if c := text[i]; c >= utf8.RuneSelf || c < 0x20 && c != '\n' && c != '\t' || c == 0x7f {
			plain = false
			break
		}
	}
	if plain {
		return text
	}
	var c cleaner
	return c.add(text) + c.end()
}

// CleanLine is Clean for what has to stay on one line: line feeds and tabs become spaces, spaces at the ends go, and what
// is over 400 characters is cut.
func CleanLine(text string) string { return oneLine(text, maxLine) }

// oneLine is text on one line of at most so many characters.
func oneLine(text string, most int) string {
	text, cut := prefix(text, most*4)
	text = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' {
			return ' '
		}
		return r
	}, text)
	text = Clean(strings.TrimSpace(text))
	if n := utf8.RuneCountInString(text); n > most {
		text, cut = string([]rune(text)[:most]), true
	}
	if cut {
		text += "…"
	}
	return text
}

// prefix is the first n bytes of text, whole characters.
func prefix(text string, n int) (string, bool) {
	if len(text) <= n {
		return text, false
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n], true
}

// cleaner is Clean for text that comes in pieces.
type cleaner struct {
	cr    bool // a carriage return was seen, and not what follows it
	marks int  // combining marks in a row
}

func (c *cleaner) add(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range text {
		if c.cr {
			c.cr = false
			if r != '\n' {
				b.WriteString(`\u{d}`)
			}
		}
		switch {
		case r == '\r':
			c.cr = true
			continue
		case unicode.In(r, unicode.Mn, unicode.Me):
			if c.marks++; c.marks > maxMarks {
				continue
			}
			b.WriteRune(r)
			continue
		case harmless(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
		c.marks = 0
	}
	return b.String()
}

// end is what was held back.
func (c *cleaner) end() string {
	c.marks = 0
	if c.cr {
		c.cr = false
		return `\u{d}`
	}
	return ""
}

func harmless(r rune) bool {
	switch r {
	case '\n', '\t', '\u200d', '\u200c', utf8.RuneError: // joiners belong to scripts and to pictures
		return true
	}
	return unicode.IsPrint(r) || unicode.Is(unicode.Zs, r)
}

// Fit is one line cut to so many columns; text should be clean and without colours.
func Fit(text string, most int) string {
	if width(text) <= most {
		return text
	}
	return columns.Truncate(text, most, "…")
}

// width is how many columns text takes.
func width(text string) int { return columns.StringWidth(text) }

// columns counts as terminals outside East Asia do, whatever the environment says.
var columns = &runewidth.Condition{StrictEmojiNeutral: true}
