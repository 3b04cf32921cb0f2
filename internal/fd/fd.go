// Package fd makes system calls on files and sockets that stay open during the call, without making them blocking as
// File.Fd does. The callers know the system calls.
package fd

import "syscall"

// On calls f with the descriptor of an open file or socket, and returns f's error.
func On(c syscall.Conn, f func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}
