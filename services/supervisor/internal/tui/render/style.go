package render

import (
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// style is a set of attributes and one of the terminal's 16 colours, so that it fits the user's theme.
type style uint16

const (
	bold style = 1 << iota
	dim
	italic
	underline
	reverse
	strike
	red
	green
	yellow
	blue
	magenta
	cyan
	normal style = 0
)

// paint returns text in a style. Each line has its own escape sequences, so that lines can be shown separately.
func (o Options) paint(s style, text string) string {
	if !o.Color || s == normal || text == "" {
		return text
	}
	codes := s.codes()
	if !strings.Contains(text, "\n") {
		return safetext.Color(codes, text)
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = safetext.Color(codes, l)
	}
	return strings.Join(lines, "\n")
}

func (s style) codes() string {
	var codes []string
	for i, code := range [...]string{"1", "2", "3", "4", "7", "9", "31", "32", "33", "34", "35", "36"} {
		if s&(1<<i) != 0 {
			codes = append(codes, code)
		}
	}
	return strings.Join(codes, ";")
}
