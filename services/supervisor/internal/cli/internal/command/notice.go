package command

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// Notice prints what acphost itself has to say on standard error, behind "acphost: ". The text must be safe.
func (c *Call) Notice(format string, args ...any) {
	fmt.Fprintln(c.Stderr, Broken(c.Stderr, "acphost: "+fmt.Sprintf(format, args...)))
}

// Broken is text for a writer, without a last line feed. If it is a terminal that says how wide it is, lines are broken at the
// ends of words, and what continues a line is indented. For programs they stay whole.
func Broken(to io.Writer, text string) string {
	text = strings.TrimSuffix(text, "\n")
	columns := 0
	if f, ok := to.(*os.File); ok {
		columns, _, _ = Window(f)
	}
	if columns == 0 {
		return text
	}
	return strings.Join(safetext.Wrap(strings.ReplaceAll(text, "\t", "    "), columns, "  "), "\n")
}
