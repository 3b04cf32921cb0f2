package jobcontrol

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// raise sends the process a signal. The default action of the signal is complete when raise returns. If another thread
// received the signal, that could take any time on a busy machine.
func raise(s syscall.Signal) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return unix.Tgkill(unix.Getpid(), unix.Gettid(), s)
}

// changes returns when a child has stopped or exited, without reaping it.
func changes(pid int) {
	var info unix.Siginfo
	for unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}
