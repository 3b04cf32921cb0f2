package launch

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// waitUnreaped returns when the child pid has ended, and leaves it to be reaped: until then its process group's number
// cannot be given to anybody else. It returns false where it cannot tell.
func waitUnreaped(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, syscall.EINTR) {
			return err == nil
		}
	}
}
