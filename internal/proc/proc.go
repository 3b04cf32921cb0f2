// Package proc controls hostile processes: it finds all descendants of a process, ends them without ever signalling an
// unrelated process, and confines children so that they cannot access their ancestors.
//
// It knows processes, signals and /proc. It must not know agents, handlers, terminals or configuration. It starts no
// process and no lasting goroutine of its own. It never waits for "any child": it reaps only by pid, so it works beside
// os/exec.
//
// Everything works on Linux. On other systems the functions that need /proc, pidfds, subreapers or Landlock return an
// error that wraps ErrUnsupported, and the caller has only process groups.
//
// All functions are safe for concurrent use.
package proc

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrUnsupported is wrapped by every error for an operation that this kernel or operating system does not support.
var ErrUnsupported = errors.New("not supported here")

// ExitStatus is how a process ended.
type ExitStatus struct {
	// Code is the exit code, 0 to 255; -1 if a signal ended the process.
	Code int
	// Signal names the signal that ended the process, "SIGKILL"; empty if it exited by itself.
	Signal string
	// Number is the number of that signal; 0 if the process exited by itself.
	Number int
}

// StatusOf converts the state of a process that package os has waited for. A nil state is an exit with code -1.
func StatusOf(state *os.ProcessState) ExitStatus {
	if state == nil {
		return ExitStatus{Code: -1}
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok {
		return statusOf(ws)
	}
	return ExitStatus{Code: state.ExitCode()}
}

// String returns the status in words: "exited with status 3", "was ended by SIGKILL".
func (s ExitStatus) String() string {
	if s.Signal != "" {
		return "was ended by " + s.Signal
	}
	return fmt.Sprintf("exited with status %d", s.Code)
}

// SignalName returns the signal's name, "SIGTERM"; for a signal without a name, "SIG" and its number.
func SignalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("SIG%d", int(sig))
}

// Reap reaps the child with this pid if it has ended, and returns its exit status. It never blocks. reaped is false,
// with a nil error, while the child runs. syscall.ECHILD means that there is no such child, or that it was reaped
// before.
func Reap(pid int) (status ExitStatus, reaped bool, err error) {
	if pid <= 0 {
		return ExitStatus{}, false, fmt.Errorf("reap process %d: a child is reaped by its own pid", pid)
	}
	var ws syscall.WaitStatus
	for {
		got, err := syscall.Wait4(pid, &ws, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return ExitStatus{}, false, fmt.Errorf("reap process %d: %w", pid, err)
		case got == 0:
			return ExitStatus{}, false, nil
		}
		return statusOf(ws), true, nil
	}
}

func statusOf(ws syscall.WaitStatus) ExitStatus {
	if ws.Signaled() {
		return ExitStatus{Code: -1, Signal: SignalName(ws.Signal()), Number: int(ws.Signal())}
	}
	return ExitStatus{Code: ws.ExitStatus()}
}
