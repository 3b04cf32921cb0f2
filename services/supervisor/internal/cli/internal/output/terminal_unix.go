//go:build linux || darwin

package output

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/fd"
)

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool { return windowSize(f) != nil }

// terminalWidth returns how many columns a terminal has; 0 if there is no telling.
func terminalWidth(f *os.File) int {
	if size := windowSize(f); size != nil {
		return int(size.Col)
	}
	return 0
}

// terminalHeight returns how many rows a terminal has; 0 if there is no telling.
func terminalHeight(f *os.File) int {
	if size := windowSize(f); size != nil {
		return int(size.Row)
	}
	return 0
}

// windowSize asks for the size of a terminal, which is zero where nobody has set it; nil: the file is no terminal. The file's
// mode stays as it is: Fd would make it blocking.
func windowSize(f *os.File) (size *unix.Winsize) {
	_ = fd.On(f, func(fd int) error {
		s, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err == nil {
			size = s
		}
		return err
	})
	return size
}
