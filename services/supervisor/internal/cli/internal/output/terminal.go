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

// terminalWidth returns how many columns a terminal has; 0 if there is no telling.
func terminalWidth(f *os.File) int {
	columns, _, _ := command.Window(f)
	return columns
}

// terminalHeight returns how many rows a terminal has; 0 if there is no telling.
func terminalHeight(f *os.File) int {
	_, rows, _ := command.Window(f)
	return rows
}
