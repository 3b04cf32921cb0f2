package launch

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// waitUnreaped returns when the child pid has ended, and leaves it to be reaped. The system's wait4 always reaps, so a
// kernel queue is asked; where that fails the group is killed at once, which is right for a failed start too.
func waitUnreaped(pid int) {
	queue, err := unix.Kqueue()
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(queue) }()
	change := unix.Kevent_t{
		Ident: uint64(pid), Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD | unix.EV_ONESHOT, Fflags: unix.NOTE_EXIT,
	}
	events := make([]unix.Kevent_t, 1)
	for {
		n, err := unix.Kevent(queue, []unix.Kevent_t{change}, events, nil)
		if n > 0 || (err != nil && err != syscall.EINTR) {
			return
		}
	}
}
