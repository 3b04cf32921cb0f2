package proc

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// minRoom is how many processes and threads of its user's StartLimited leaves free at least, where there are as many.
const minRoom = 64

// StartLimited starts a process so that it, with all that it starts, cannot use up the processes that its user may have
// (RLIMIT_NPROC): the kernel compares their number with each process's own limit, and so a lower one leaves room for the
// calling process and others of the user, a twentieth or 64. A process that can start no thread dies. start starts the
// process, with attr. Call StartLimited on a thread of its own (Confine).
//
// The process is held by ptrace at its first instruction until its limit is set. Where that is forbidden, or could take
// rights from a program that the walls leave them (sudo), it may have begun before. Where the caller has no limit there is
// nothing to leave room in. The first user of the system has no limit at all, whatever is set. Limits of control groups
// (pids.max) are not concerned.
func StartLimited(attr *syscall.SysProcAttr, start func() (pid int, err error)) (pid int, err error) {
	limit, ok := limitOfOthers()
	if !ok {
		return start()
	}
	noNew, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	attr.Ptrace = err == nil && noNew == 1
	if attr.Ptrace {
		pid, err = start()
	}
	if !attr.Ptrace || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		attr.Ptrace = false
		if pid, err = start(); err == nil {
			limitProcesses(pid, limit)
		}
		return pid, err
	}
	if err != nil {
		return pid, err
	}
	attr.Ptrace = false
	stopped := awaitStop(pid)
	limitProcesses(pid, limit)
	if stopped {
		_ = unix.PtraceDetach(pid) // if not: it was killed meanwhile
	}
	return pid, nil
}

// limitOfOthers is the limit of processes that leaves this process room; false: there is none that it needs.
func limitOfOthers() (limit uint64, ok bool) {
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &own); err != nil || own.Cur == unix.RLIM_INFINITY {
		return 0, false
	}
	return own.Cur - min(max(minRoom, own.Cur/20), own.Cur/2), true
}

// limitProcesses sets the limit of another process. The calling thread may be behind a filter that refuses that.
func limitProcesses(pid int, limit uint64) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = unix.Prlimit(pid, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: limit, Max: limit}, nil) // it can only have ended
	}()
	<-done
}

// awaitStop waits until a traced process stands still, or has ended (false), in which case it is left to be reaped.
func awaitStop(pid int) bool {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			const trapped = 4 // CLD_TRAPPED
			return err == nil && info.Code == trapped
		}
	}
}
