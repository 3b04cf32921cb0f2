//go:build linux || darwin

package command

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/fd"
)

// Window asks a terminal for its size, which is zero where nobody has set it. False: the file is no terminal. The file's mode stays as
// it is: Fd would make it blocking.
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
