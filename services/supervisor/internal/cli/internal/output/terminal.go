package output

import (
	"os"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
)

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool {
	_, _, is := command.Window(f)
	return is
}

// terminalWidth returns the number of columns of a terminal, or 0 if it is unknown.
func terminalWidth(f *os.File) int {
	columns, _, _ := command.Window(f)
	return columns
}

// terminalHeight returns the number of rows of a terminal, or 0 if it is unknown.
func terminalHeight(f *os.File) int {
	_, rows, _ := command.Window(f)
	return rows
}
