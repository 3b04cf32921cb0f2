package proc

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// minRoom is the minimum number of processes and threads that StartLimited reserves for other processes of the user.
const minRoom = 64

// StartLimited starts a process with a lower RLIMIT_NPROC, so that its process tree cannot use up the processes of its
// user. The kernel compares the user's processes with each process's own limit, so a lower limit reserves room for the
// calling process and others of the user: a twentieth, or 64. Without room, a process that cannot start a thread dies.
// start starts the process with attr. Call StartLimited on a separate thread (Confine).
//
// ptrace stops the process at its first instruction until its limit is set. If ptrace is forbidden, or could remove
// privileges that the confinement leaves to a program (sudo), the process may run before its limit is set. If the
// caller has no limit, no limit is set. The first user of the system has no limit in any case. Limits of control groups
// (pids.max) are not affected.
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
		_ = unix.PtraceDetach(pid) // fails if it was killed meanwhile
	}
	return pid, nil
}

// limitOfOthers returns the limit of processes that reserves room for this process; false: no limit is needed.
func limitOfOthers() (limit uint64, ok bool) {
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &own); err != nil || own.Cur == unix.RLIM_INFINITY {
		return 0, false
	}
	return own.Cur - min(max(minRoom, own.Cur/20), own.Cur/2), true
}

// limitProcesses sets the limit of another process. It uses another thread, because the calling thread may have a
// filter that rejects the call.
func limitProcesses(pid int, limit uint64) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = unix.Prlimit(pid, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: limit, Max: limit}, nil) // fails only if the process has ended
	}()
	<-done
}

// awaitStop waits until a traced process has stopped (true) or ended (false). It does not reap an ended process.
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
