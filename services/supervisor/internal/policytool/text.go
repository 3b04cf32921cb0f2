package policytool

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Style is how output looks.
type Style struct {
	// Color uses colours, for a terminal.
	Color bool
	// Width is the terminal's, in columns: long lines are broken. 0: they are not.
	Width int
}

const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// paint puts a text into a colour.
func (s Style) paint(color, text string) string {
	if !s.Color || color == "" || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// colorOf returns the colour of a verdict, an effect or a severity.
func colorOf(word string) string {
	switch word {
	case "allow":
		return green
	case "deny", "error":
		return red
	case "ask", "warning":
		return yellow
	}
	return ""
}

// heading writes a title over what follows, an empty line before it.
func (s Style) heading(w io.Writer, text string) { fmt.Fprintf(w, "\n%s\n", s.paint(bold, text)) }

// cell is a text in a table.
type cell struct{ text, color string }

// table prints rows in columns, two spaces between them, each line after indent. The last column is broken into lines
// if it does not fit. Texts come from agents and files: what could move the cursor is shown, not obeyed.
func (s Style) table(w io.Writer, indent string, rows [][]cell) {
	var widths []int
	for _, row := range rows {
		for i := range row {
			row[i].text = plain(row[i].text)
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if i < len(row)-1 { // the last one may be as long as it likes
				widths[i] = max(widths[i], width(row[i].text))
			}
		}
	}
	for _, row := range rows {
		var b strings.Builder
		b.WriteString(indent)
		at := width(indent)
		for i, c := range row {
			if i < len(row)-1 {
				b.WriteString(s.paint(c.color, c.text))
				b.WriteString(strings.Repeat(" ", widths[i]-width(c.text)+2))
				at += widths[i] + 2
				continue
			}
			if s.Width > 0 && at+width(c.text) > s.Width && s.Width-at < minWidth {
				// Too narrow a column: the text has lines of its own below.
				at = width(indent) + 4
				b.WriteString("\n" + strings.Repeat(" ", at))
			}
			for n, line := range s.wrap(c.text, at) {
				if n > 0 {
					b.WriteString("\n" + strings.Repeat(" ", at))
				}
				b.WriteString(s.paint(c.color, line))
			}
		}
		for line := range strings.SplitSeq(b.String(), "\n") {
			fmt.Fprintln(w, strings.TrimRight(line, " "))
		}
	}
}

// minWidth is the narrowest column that text is broken into.
const minWidth = 24

// wrap breaks a text between words into lines for the columns from at on.
func (s Style) wrap(text string, at int) []string {
	room := s.Width - at
	if s.Width == 0 || room < minWidth || width(text) <= room {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && width(line)+1+width(word) > room {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

func width(s string) int { return utf8.RuneCountInString(s) }

// shorten cuts a text to n characters, the last one an ellipsis.
func shorten(s string, n int) string {
	if width(s) <= n {
		return s
	}
	return string([]rune(s)[:max(n-1, 0)]) + "…"
}

// plain spells out the characters that a terminal obeys, and those that hide or turn around what stands beside them.
func plain(s string) string {
	if !strings.ContainsFunc(s, unsafe) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		if unsafe(r) {
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unsafe(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// count writes a number with its noun: "1 rule", "1,240 decisions".
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return thousands(n) + " " + noun
}

func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
