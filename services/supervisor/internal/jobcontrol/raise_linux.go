package jobcontrol

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// raise sends the process a signal. What the signal does by default is done when it returns: another thread could take as
// long as it likes, on a busy machine.
func raise(s syscall.Signal) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return unix.Tgkill(unix.Getpid(), unix.Gettid(), s)
}

// changes returns when a child has stopped or ended, which it leaves to be waited for.
func changes(pid int) {
	var info unix.Siginfo
	for unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}
