package terminal

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/entries"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/sandbox"
)

// leader is the command itself. Its remains are kept until reap, so that its pid, which is also the number of its
// session, cannot come to mean somebody else.
//
// A sandbox stands in the place of a command that runs in one, and tells how that goes: it lives on with what the
// command has left.
type leader struct {
	pid     int
	pidfd   *os.File      // nil: none could be had
	outcome *bufio.Reader // what the sandbox tells; nil: there is none
	pipe    *os.File      // what outcome reads from
	begun   chan error    // has room for one: how the start in the sandbox went
}

func newLeader(pid int, outcome *os.File) *leader {
	l := &leader{pid: pid}
	if outcome != nil {
		l.outcome, l.pipe, l.begun = bufio.NewReader(outcome), outcome, make(chan error, 1)
	}
	if fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK); err == nil {
		l.pidfd = os.NewFile(uintptr(fd), "pidfd")
	}
	return l
}

// wait waits for the end of the command without taking a thread for it, and closes the files that this takes. It is called
// once.
func (l *leader) wait() proc.ExitStatus {
	if l.pidfd != nil {
		defer l.pidfd.Close()
	}
	if l.outcome == nil {
		return l.waitFor()
	}
	defer l.pipe.Close()
	var o sandbox.Outcome
	err := entries.Read(l.outcome, &o)
	switch {
	case err != nil:
		l.begun <- errors.New("its sandbox ended before it could start it")
	case o.Errno != 0:
		l.begun <- unix.Errno(o.Errno)
	case o.Failed != "":
		l.begun <- errors.New(o.Failed)
	default:
		l.begun <- nil
		o = sandbox.Outcome{}
		if entries.Read(l.outcome, &o) == nil && o.Ended != nil {
			return endedAs(*o.Ended)
		}
	}
	return l.waitFor() // the sandbox is gone, and so is the command
}

// boxTime is how long a sandbox may take to start a command. It asks nobody about it.
const boxTime = 20 * time.Second

// started waits until the command of a sandbox runs, or does not.
func (l *leader) started() error {
	if l.begun == nil {
		return nil
	}
	late := time.NewTimer(boxTime)
	defer late.Stop()
	select {
	case err := <-l.begun:
		return err
	case <-late.C:
		return fmt.Errorf("its sandbox did not start it within %v", boxTime)
	}
}

func endedAs(e sandbox.Ended) proc.ExitStatus {
	if e.Signal == 0 {
		return proc.ExitStatus{Code: e.Code}
	}
	sig := unix.Signal(e.Signal)
	return proc.ExitStatus{Code: -1, Signal: proc.SignalName(sig), Number: e.Signal}
}

// waitFor waits for the end of the process.
func (l *leader) waitFor() proc.ExitStatus {
	if l.pidfd != nil {
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
			return endedAs(sandbox.Ended{Signal: int(info.status)}), true
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
