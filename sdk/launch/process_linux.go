package launch

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// waitUnreaped returns when the child pid has ended, without reaping it: until it is reaped, the number of its process
// group is not reused. It returns false if it cannot determine that.
func waitUnreaped(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, syscall.EINTR) {
			return err == nil
		}
	}
}
