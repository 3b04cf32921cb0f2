//go:build linux || darwin

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// hasTermios asks for terminal attributes, which only terminals have. The file's mode stays as it is: Fd would make it
// blocking.
func hasTermios(f *os.File, request uint) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	terminal := false
	err = raw.Control(func(fd uintptr) {
		_, err := unix.IoctlGetTermios(int(fd), request)
		terminal = err == nil
	})
	return err == nil && terminal
}
