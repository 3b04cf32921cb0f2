//go:build linux || darwin

package jobcontrol

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/child"
	"github.com/acphost/acphost/internal/fd"
	"github.com/acphost/acphost/internal/proc"
)

// borrowGrace is how long a command that has the terminal may take to end when it is told to.
const borrowGrace = time.Second

// Borrower is a command that has the terminal while it runs. The zero value is ready. Run is for one goroutine at a time,
// Suspend for any.
type Borrower struct {
	mu  sync.Mutex
	pid int // of the command and of its process group, which were not waited for; 0: none
}

// Run runs a command as a job of its own in the foreground of the terminal, as a shell does: the terminal's keys for signals
// are the command's, and not this process's. If the command stops, this process takes the terminal back and calls stop; when
// it goes on and has the terminal, the command has it again. If the context ends, the command's process group gets SIGTERM,
// and SIGKILL a second later.
//
// The terminal is this job's when Run returns, and its settings are the command's. An error is a command that did not start,
// or ErrBackground: the terminal is another job's for good, or still when the context ended, and the command was ended.
func (b *Borrower) Run(ctx context.Context, terminal *os.File, cmd *exec.Cmd, stop func() bool) (Ended, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(cmd); err != nil {
		return Ended{}, err
	}
	pid := cmd.Process.Pid
	defer func() { _ = cmd.Process.Release() }() // waited for here, since os/exec does not tell of stops
	defer proc.LeaveChild(pid)
	b.set(pid)
	var ending sync.WaitGroup
	defer ending.Wait()
	over := make(chan struct{})
	defer close(over)
	ending.Go(func() { b.endWith(ctx, over) })

	var lost error
	handOver(terminal, pid)
	for early := 0; ; {
		status, err := b.wait(pid)
		switch {
		case err != nil:
			handOver(terminal, unix.Getpgrp())
			return Ended{Code: -1}, err
		case !status.Stopped():
			if lost == nil {
				handOver(terminal, unix.Getpgrp())
			}
			if status.Signaled() {
				return Ended{Code: -1, Signal: unix.SignalName(status.Signal())}, lost
			}
			return Ended{Code: status.ExitStatus()}, lost
		case early < 3 && (status.StopSignal() == syscall.SIGTTIN || status.StopSignal() == syscall.SIGTTOU):
			early++ // it wanted the terminal before it had it
		default:
			handOver(terminal, unix.Getpgrp())
			_ = stop()
			if Await(ctx, terminal) != nil {
				lost = ErrBackground
				b.send(syscall.SIGTERM)
			}
		}
		if lost == nil {
			handOver(terminal, pid)
		}
		b.send(syscall.SIGCONT)
	}
}

// Suspend asks the command to stop, if one runs.
func (b *Borrower) Suspend() { b.send(syscall.SIGTSTP) }

func (b *Borrower) set(pid int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pid = pid
}

// send sends the command's process group a signal, if the command was not waited for.
func (b *Borrower) send(s syscall.Signal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pid != 0 {
		_ = syscall.Kill(-b.pid, s)
	}
}

// endWith ends the command with the context.
func (b *Borrower) endWith(ctx context.Context, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-ctx.Done():
	}
	b.send(syscall.SIGTERM)
	b.send(syscall.SIGCONT)
	select {
	case <-over:
	case <-time.After(borrowGrace):
		b.send(syscall.SIGKILL)
	}
}

// wait waits until the command stops or ends. Once it was waited for, its number may be another's.
func (b *Borrower) wait(pid int) (syscall.WaitStatus, error) {
	for {
		changes(pid)
		if status, over, err := b.look(pid); over || err != nil {
			return status, err
		}
	}
}

func (b *Borrower) look(pid int) (status syscall.WaitStatus, changed bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := syscall.Wait4(pid, &status, syscall.WUNTRACED|syscall.WNOHANG, nil)
	if errors.Is(err, syscall.EINTR) {
		return status, false, nil
	}
	if err != nil || n == pid && !status.Stopped() {
		b.pid = 0
	}
	return status, n == pid, err
}

// handOver makes a job the terminal's foreground job. A terminal that is not the process's own has none.
func handOver(terminal *os.File, job int) {
	// In the background it would stop this process otherwise.
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	_ = fd.On(terminal, func(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, job) })
}
