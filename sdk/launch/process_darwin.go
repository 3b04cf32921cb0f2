package launch

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// waitUnreaped returns when the child pid has ended, without reaping it: until it is reaped, the number of its process
// group is not reused. It returns false if it cannot determine that. The system's wait4 always reaps, so a kernel queue
// is used.
func waitUnreaped(pid int) bool {
	queue, err := unix.Kqueue()
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(queue) }()
	unix.CloseOnExec(queue)
	change := unix.Kevent_t{
		Ident: uint64(pid), Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD | unix.EV_ONESHOT, Fflags: unix.NOTE_EXIT,
	}
	events := make([]unix.Kevent_t, 1)
	for {
		n, err := unix.Kevent(queue, []unix.Kevent_t{change}, events, nil)
		switch {
		case n > 0:
			return events[0].Flags&unix.EV_ERROR == 0 || events[0].Data == int64(syscall.ESRCH)
		case errors.Is(err, syscall.ESRCH): // it is a zombie already
			return true
		case err != nil && !errors.Is(err, syscall.EINTR):
			return false
		}
	}
}
