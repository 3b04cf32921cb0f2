package policytool

import (
	"fmt"
	"io"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// Style is the style of output.
type Style struct {
	// Color uses colours, for a terminal.
	Color bool
	// Width is the width of the terminal in columns, at which long lines are broken. 0 means that they are not.
	Width int
}

const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// paint adds a colour to a text.
func (s Style) paint(color, text string) string { return safetext.Paint(s.Color, color, text) }

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

// section prints rows below a title, after an empty line. It prints nothing without rows.
func (s Style) section(w io.Writer, title string, rows [][]cell) {
	if len(rows) > 0 {
		fmt.Fprintf(w, "\n%s\n", s.paint(bold, title))
		s.table(w, "  ", rows)
	}
}

// cell is a text in a table.
type cell struct{ text, color string }

// table prints rows in columns, separated by two spaces, each line after indent. It breaks the last column into lines
// if it does not fit. Texts may come from agents and files, and are escaped.
func (s Style) table(w io.Writer, indent string, rows [][]cell) {
	var widths []int
	for _, row := range rows {
		for i := range row {
			row[i].text = safetext.Exact(row[i].text)
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if i < len(row)-1 { // the last one may have any length
				widths[i] = max(widths[i], safetext.Width(row[i].text))
			}
		}
	}
	for _, row := range rows {
		var b strings.Builder
		b.WriteString(indent)
		at := safetext.Width(indent)
		for i, c := range row {
			if i < len(row)-1 {
				b.WriteString(s.paint(c.color, c.text))
				b.WriteString(strings.Repeat(" ", widths[i]-safetext.Width(c.text)+2))
				at += widths[i] + 2
				continue
			}
			if s.Width > 0 && at+safetext.Width(c.text) > s.Width && s.Width-at < minWidth {
				// The column is too narrow: the text is printed on separate lines below.
				at = safetext.Width(indent) + 4
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

// minWidth is the minimum width of a column that is broken into lines.
const minWidth = 24

// wrap breaks a text between words into lines for the columns from at on.
func (s Style) wrap(text string, at int) []string {
	room := s.Width - at
	if s.Width == 0 || room < minWidth || safetext.Width(text) <= room {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && safetext.Width(line)+1+safetext.Width(word) > room {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
