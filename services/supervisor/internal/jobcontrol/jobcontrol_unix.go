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

// stopTime is how long a signal that stops the process may take to do so.
const stopTime = 300 * time.Millisecond

// Signals are those that a program with a terminal has to catch: the one that asks it to stop, and the one that lets it go
// on. Once the first is caught, only Stop stops the process. A program that is started with it ignored cannot be stopped by
// its keyboard.
func Signals() []os.Signal {
	if signal.Ignored(syscall.SIGTSTP) {
		return []os.Signal{syscall.SIGCONT}
	}
	return []os.Signal{syscall.SIGTSTP, syscall.SIGCONT}
}

// Asks reports whether a signal asks the process to stop.
func Asks(s os.Signal) bool { return s == syscall.SIGTSTP }

// Continues reports whether a signal lets a stopped process go on.
func Continues(s os.Signal) bool { return s == syscall.SIGCONT }

// Suspend asks all of the job to stop, as the terminal does for Ctrl-Z where it heeds that key.
func Suspend() { _ = syscall.Kill(0, syscall.SIGTSTP) }

// Quit sends all of the job what the terminal sends for Ctrl-\ where it heeds that key.
func Quit() { _ = syscall.Kill(0, syscall.SIGQUIT) }

// Stop stops the process and returns when it goes on, which a signal for Continues tells as well. False: it was not stopped,
// since no shell is there to let it go on.
func Stop() bool {
	if childOfShell() {
		return halt(syscall.SIGSTOP)
	}
	// Perhaps nobody would ever continue it. Of SIGSTOP's kin the system knows that; SIGTSTP itself can no longer be left to
	// it, since it was caught.
	return halt(syscall.SIGTTIN)
}

// Foreground reports whether a terminal is this job's to read keys from and to set. One that is not the process's own
// terminal has no jobs, and is.
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

// Await returns when a terminal is this job's. Until then the process is stopped, which is what tells the shell, and the
// person, that it wants the terminal. ErrBackground: nobody hands it over. It ends with its context, where the process is
// let go on for that.
func Await(ctx context.Context, terminal *os.File) error {
	for stays := 0; stays < 3; {
		if Foreground(terminal) {
			return nil
		}
		// Perhaps it was let go on for another signal, which is on its way.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(stopTime):
		}
		switch {
		case Foreground(terminal): // meanwhile
		case halt(syscall.SIGTTIN):
			stays = 0
		default:
			stays++
		}
	}
	return ErrBackground
}

// childOfShell reports whether the process is a job of its parent's: then that one continues it.
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

// halt stops the process by a signal and returns when it goes on; false: it was not stopped.
func halt(by syscall.Signal) bool {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if raise(by) != nil {
		return false
	}
	// Time goes by while it is stopped: the first wait may be over before there is word that it goes on.
	for range 2 {
		select {
		case <-continued:
			return true
		case <-time.After(stopTime):
		}
	}
	return false
}
