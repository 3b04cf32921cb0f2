package transcript

import (
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// screened returns the output of a command as a terminal would show it in the end: without escape sequences, and without
// text that was written over after a carriage return, as progress bars are.
func screened(text string) string {
	text = strings.ReplaceAll(safetext.Strip(text), "\r\n", "\n")
	if !strings.Contains(text, "\r") {
		return safetext.Text(text)
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		l = strings.TrimRight(l, "\r")
		lines[i] = l[strings.LastIndexByte(l, '\r')+1:]
	}
	return safetext.Text(strings.Join(lines, "\n"))
}
