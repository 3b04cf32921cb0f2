package command

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// Notice prints a message of acphost on standard error, after "acphost: ". The text must be safe.
func (c *Call) Notice(format string, args ...any) {
	fmt.Fprintln(c.Stderr, WrapLines(c.Stderr, "acphost: "+fmt.Sprintf(format, args...)))
}

// WrapLines formats text for a writer, without a last line feed. On a terminal with a known width, it breaks lines at
// the ends of words, and indents continuation lines. Otherwise lines are unchanged.
func WrapLines(to io.Writer, text string) string {
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
