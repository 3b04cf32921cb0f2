package jobcontrol

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// raise sends the process a signal.
func raise(s syscall.Signal) error { return syscall.Kill(unix.Getpid(), s) }

// changes returns when a child may have stopped or exited. This system reports that only to a process that reaps the
// child.
func changes(int) { time.Sleep(20 * time.Millisecond) }
