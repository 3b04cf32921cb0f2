//go:build linux || darwin

package jobcontrol

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/fd"
)

// stopTime limits the time until a signal stops the process.
const stopTime = 300 * time.Millisecond

// Signals returns the signals that a program with a terminal has to catch: the one that stops it (SIGTSTP), and the one
// that continues it (SIGCONT). After SIGTSTP is caught, only Stop stops the process. If SIGTSTP was ignored when the
// program started, its keyboard cannot stop it.
func Signals() []os.Signal {
	if signal.Ignored(syscall.SIGTSTP) {
		return []os.Signal{syscall.SIGCONT}
	}
	return []os.Signal{syscall.SIGTSTP, syscall.SIGCONT}
}

// IsStop reports whether a signal asks the process to stop.
func IsStop(s os.Signal) bool { return s == syscall.SIGTSTP }

// IsContinue reports whether a signal continues a stopped process.
func IsContinue(s os.Signal) bool { return s == syscall.SIGCONT }

// Suspend sends SIGTSTP to all processes of this job, as the terminal does for Ctrl-Z unless the program has disabled
// that key.
func Suspend() { _ = syscall.Kill(0, syscall.SIGTSTP) }

// Quit sends SIGQUIT to all processes of this job, as the terminal does for Ctrl-\ unless the program has disabled that
// key.
func Quit() { _ = syscall.Kill(0, syscall.SIGQUIT) }

// Stop stops the process, and returns true when the process was continued. A signal for which Continues returns true
// arrives then, too. Stop returns false if it did not stop the process, because there is no shell that could continue
// it.
func Stop() bool {
	if childOfShell() {
		return halt(syscall.SIGSTOP)
	}
	// Perhaps no process would ever continue this one. The kernel ignores SIGTTIN in that case. It does the same for
	// SIGTSTP, but not after that signal was caught.
	return halt(syscall.SIGTTIN)
}

// Foreground reports whether this job may read keys from a terminal and change its settings. A terminal that does not
// control this process has no jobs, and Foreground returns true.
func Foreground(terminal *os.File) bool {
	foreground := true
	_ = fd.On(terminal, func(fd int) error {
		if job, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil {
			foreground = job == unix.Getpgrp()
		}
		return nil
	})
	return foreground
}

// AwaitForeground returns when this job is in the terminal's foreground. Until then the process is stopped, which
// informs the shell and the user that it needs the terminal. It returns ErrBackground if no shell can bring the job to
// the foreground. It returns when its context ends, provided that the process is continued.
func AwaitForeground(ctx context.Context, terminal *os.File) error {
	for stays := 0; stays < 3; {
		if Foreground(terminal) {
			return nil
		}
		// Perhaps the process was continued for another signal, which is about to arrive.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(stopTime):
		}
		switch {
		case Foreground(terminal): // the job came to the foreground meanwhile
		case halt(syscall.SIGTTIN):
			stays = 0
		default:
			stays++
		}
	}
	return ErrBackground
}

// childOfShell reports whether the process is a job of its parent, which can then continue it.
func childOfShell() bool {
	parent := unix.Getppid()
	session, err := unix.Getsid(parent)
	ours, e := unix.Getsid(0)
	if err != nil || e != nil || session != ours {
		return false
	}
	job, err := unix.Getpgid(parent)
	return err == nil && job != unix.Getpgrp()
}

// halt stops the process by a signal, and returns when it was continued. It returns false if the process was not
// stopped.
func halt(by syscall.Signal) bool {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if raise(by) != nil {
		return false
	}
	// Time passes while the process is stopped, so the first wait may expire before SIGCONT is received.
	for range 2 {
		select {
		case <-continued:
			return true
		case <-time.After(stopTime):
		}
	}
	return false
}
