//go:build linux || darwin

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalWidth returns how many columns a terminal has; 0 if there is no telling.
func terminalWidth(f *os.File) int {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	width := 0
	_ = raw.Control(func(fd uintptr) {
		if size, err := unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ); err == nil {
			width = int(size.Col)
		}
	})
	return width
}
