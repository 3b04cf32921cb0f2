package terminal

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/nulmsg"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/sandbox"
)

// leader is the process of the command. It is not reaped before reap, so that its pid, which is also the number of its
// session, is not reused.
//
// If the command runs in a sandbox, the leader is the sandbox, which reports the command's start and end. The sandbox
// continues to run with the command's remaining processes.
type leader struct {
	pid         int
	pidfd       *os.File      // nil: not available
	outcome     *bufio.Reader // the sandbox's reports; nil: there is no sandbox
	pipe        *os.File      // the file that outcome reads
	startResult chan error    // has room for one: the result of the start in the sandbox
}

func newLeader(pid int, outcome *os.File) *leader {
	l := &leader{pid: pid}
	if outcome != nil {
		l.outcome, l.pipe, l.startResult = bufio.NewReader(outcome), outcome, make(chan error, 1)
	}
	if fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK); err == nil {
		l.pidfd = os.NewFile(uintptr(fd), "pidfd")
	}
	return l
}

// wait waits for the end of the command without blocking a thread, and closes the files that it uses. It is called
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
	err := nulmsg.Read(l.outcome, &o)
	switch {
	case err != nil:
		l.startResult <- errors.New("its sandbox ended before it could start it")
	case o.Errno != 0:
		l.startResult <- unix.Errno(o.Errno)
	case o.Failed != "":
		l.startResult <- errors.New(o.Failed)
	default:
		l.startResult <- nil
		o = sandbox.Outcome{}
		if nulmsg.Read(l.outcome, &o) == nil && o.Ended != nil {
			return endedAs(*o.Ended)
		}
	}
	return l.waitFor() // the sandbox is gone, and so is the command
}

// sandboxStartTimeout limits the time in which a sandbox starts a command. The sandbox starts it without asking for a
// decision.
const sandboxStartTimeout = 20 * time.Second

// started waits until the command of a sandbox runs, or has failed to start.
func (l *leader) started() error {
	if l.startResult == nil {
		return nil
	}
	late := time.NewTimer(sandboxStartTimeout)
	defer late.Stop()
	select {
	case err := <-l.startResult:
		return err
	case <-late.C:
		return fmt.Errorf("its sandbox did not start it within %v", sandboxStartTimeout)
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
			finished := false
			err := conn.Read(func(uintptr) bool {
				status, finished = l.peek(unix.WNOHANG)
				return finished
			})
			if err == nil && finished {
				return status
			}
		}
	}
	status, _ := l.peek(0)
	return status
}

// reap reaps the command's process, which has ended.
func (l *leader) reap() { _, _, _ = proc.Reap(l.pid) }

// peek reports whether the command has ended, without reaping it.
func (l *leader) peek(option int) (proc.ExitStatus, bool) {
	const exited, killed, dumped = 1, 2, 3 // si_code: CLD_EXITED, CLD_KILLED, CLD_DUMPED
	for {
		var info childInfo
		err := unix.Waitid(unix.P_PID, l.pid, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOWAIT|option, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			// No other code waits for these children; if it did, only the end itself is known.
			return proc.ExitStatus{Code: 255}, true
		case info.code == exited:
			return proc.ExitStatus{Code: int(info.status)}, true
		case info.code == killed || info.code == dumped:
			return endedAs(sandbox.Ended{Signal: int(info.status)}), true
		}
		return proc.ExitStatus{}, false
	}
}

// childInfo is siginfo_t as waitid(2) fills it.
type childInfo struct {
	_      [2]int32 // signo, errno
	code   int32
	_      [unsafe.Sizeof(uintptr(0)) - 4]byte
	_      [2]int32 // pid, uid
	status int32
	_      [100]byte
}
