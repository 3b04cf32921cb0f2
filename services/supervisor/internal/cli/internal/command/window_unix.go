//go:build linux || darwin

package command

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/fd"
)

// Window returns the size of a terminal, which is zero if it was not set. It returns false if the file is not a
// terminal. It does not use Fd, which would make the file blocking.
func Window(f *os.File) (columns, rows int, terminal bool) {
	_ = fd.On(f, func(fd int) error {
		size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err == nil {
			columns, rows, terminal = int(size.Col), int(size.Row), true
		}
		return err
	})
	return columns, rows, terminal
}
