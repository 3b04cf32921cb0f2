package terminal

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
)

// leader is the command itself. Its remains are kept until reap, so that its pid, which is also the number of its
// session, cannot come to mean somebody else.
type leader struct {
	pid   int
	pidfd *os.File // nil: none could be had
}

func newLeader(pid int) *leader {
	l := &leader{pid: pid}
	if fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK); err == nil {
		l.pidfd = os.NewFile(uintptr(fd), "pidfd")
	}
	return l
}

// wait waits for the end of the command without taking a thread for it.
func (l *leader) wait() proc.ExitStatus {
	if l.pidfd != nil {
		defer l.pidfd.Close()
		if conn, err := l.pidfd.SyscallConn(); err == nil {
			var status proc.ExitStatus
			over := false
			err := conn.Read(func(uintptr) bool {
				status, over = l.peek(unix.WNOHANG)
				return over
			})
			if err == nil && over {
				return status
			}
		}
	}
	status, _ := l.peek(0)
	return status
}

// reap lets the kernel forget the command. It has ended.
func (l *leader) reap() { _, _, _ = proc.Reap(l.pid) }

// peek looks whether the command has ended, and leaves its remains.
func (l *leader) peek(option int) (proc.ExitStatus, bool) {
	const exited, killed, dumped = 1, 2, 3 // si_code: CLD_EXITED, CLD_KILLED, CLD_DUMPED
	for {
		var info childInfo
		err := unix.Waitid(unix.P_PID, l.pid, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOWAIT|option, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			// Nobody else waits for our children; if somebody did, all that is known is that it is over.
			return proc.ExitStatus{Code: 255}, true
		case info.code == exited:
			return proc.ExitStatus{Code: int(info.status)}, true
		case info.code == killed || info.code == dumped:
			sig := unix.Signal(info.status)
			return proc.ExitStatus{Code: -1, Signal: proc.SignalName(sig), Number: int(sig)}, true
		}
		return proc.ExitStatus{}, false
	}
}

// childInfo is siginfo_t as waitid(2) fills it in.
type childInfo struct {
	_      [2]int32 // signo, errno
	code   int32
	_      [unsafe.Sizeof(uintptr(0)) - 4]byte
	_      [2]int32 // pid, uid
	status int32
	_      [100]byte
}
