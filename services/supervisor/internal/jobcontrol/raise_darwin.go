package jobcontrol

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// raise sends the process a signal.
func raise(s syscall.Signal) error { return syscall.Kill(unix.Getpid(), s) }
