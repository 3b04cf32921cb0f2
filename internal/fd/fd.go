// Package fd has system calls made on files and sockets that stay open meanwhile, and as they are: File.Fd would make them
// blocking. What is asked of the system, its callers know.
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
