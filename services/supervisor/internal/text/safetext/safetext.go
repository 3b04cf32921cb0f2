// Package safetext makes text of agents, files and programs safe to display on a terminal. It escapes each character
// that controls a terminal, or that changes how other characters look, such as "\u{1b}". The result cannot move the
// cursor, change a colour, set a title, or reverse the direction of text.
//
// There are six levels:
//
//   - Text is for prose: line feeds and tabs are unchanged.
//   - Line is for titles, names and paths: one line of limited length.
//   - Exact and ExactLines are for text that a user decides about: no character is dropped or invisible.
//   - Strict is for such text inside a sentence of acphost.
//   - ASCII is for addresses.
//   - JSON keeps the meaning of JSON.
//
// The package also formats text for terminals: Color writes escape sequences, Width, Fit, Head, Middle and Prefix
// measure and shorten, Number and Count format numbers.
//
// The package imports no other package of acphost.
package safetext

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/invisible"
)

const (
	// MaxLine is the maximum number of characters of a Line.
	MaxLine = 400
	// MaxMarks is the maximum number of combining marks that Text keeps on one character.
	MaxMarks = 8
)

// Text returns text of any number of lines. It keeps line feeds and tabs, and removes carriage returns before line
// feeds, and combining marks beyond MaxMarks on one character.
func Text(text string) string {
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
	var c Cleaner
	return c.Add(text) + c.End()
}

// Line returns text on one line: line feeds and tabs become spaces, spaces at the ends are removed, and text beyond
// MaxLine characters is replaced by "…".
func Line(text string) string { return LineOf(text, MaxLine) }

// LineOf is Line with another limit, in characters.
func LineOf(text string, limit int) string {
	text, cut := Prefix(strings.TrimSpace(text), limit*4)
	text = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' {
			return ' '
		}
		return r
	}, text)
	text = Text(strings.TrimSpace(text))
	if n := utf8.RuneCountInString(text); n > limit {
		text, cut = string([]rune(text)[:limit]), true
	}
	if cut {
		text += "…"
	}
	return text
}

// JSON returns equivalent JSON.
func JSON(data []byte) string {
	var b strings.Builder
	for _, c := range string(data) {
		switch {
		case harmless(c):
			b.WriteRune(c)
		case c > 0xffff:
			c -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}

// Cleaner is Text for text that arrives in pieces. The zero value is ready.
type Cleaner struct {
	cr    bool // the last character was a carriage return
	marks int  // consecutive combining marks
}

// Add returns the next piece. It buffers a carriage return at the end.
func (c *Cleaner) Add(text string) string {
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
		case unicode.In(r, unicode.Mn, unicode.Me) && harmless(r):
			if c.marks++; c.marks > MaxMarks {
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

// End returns the buffered text, and resets the Cleaner.
func (c *Cleaner) End() string {
	c.marks = 0
	if c.cr {
		c.cr = false
		return `\u{d}`
	}
	return ""
}

// harmless reports whether Text leaves a character unchanged.
func harmless(r rune) bool {
	switch r {
	// joiners and selectors are parts of scripts and emoji
	case '\n', '\t', '\u200d', '\u200c', '\ufe0e', '\ufe0f', utf8.RuneError:
		return true
	}
	return !invisible.Is(r)
}
