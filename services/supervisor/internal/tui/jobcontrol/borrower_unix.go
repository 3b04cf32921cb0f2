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

// killGrace is the time between SIGTERM and SIGKILL for a command that has the terminal.
const killGrace = time.Second

// Runner runs a command that uses the terminal. The zero value is ready. Run must not be called concurrently. Suspend
// is safe for concurrent use.
type Runner struct {
	mu  sync.Mutex
	pid int // process id of the command and of its process group, until it is reaped; 0: none
}

// Run runs a command as a separate job in the foreground of the terminal, as a shell does: the terminal sends the
// signals of its keys to the command, and not to this process. If the command stops, this process becomes the
// foreground job again and calls stop. If stop returns true after the process was continued, the command continues in
// the foreground. If the context ends, the command's process group receives SIGTERM, and SIGKILL a second later.
//
// When Run returns, this job is in the foreground, and the terminal has the settings of the command. An error means
// that the command did not start, or it is ErrBackground: another job keeps the terminal, or kept it until the context
// ended, and the command was ended.
func (b *Runner) Run(ctx context.Context, terminal *os.File, cmd *exec.Cmd, stop func() bool) (Result, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(cmd); err != nil {
		return Result{}, err
	}
	pid := cmd.Process.Pid
	defer func() { _ = cmd.Process.Release() }() // reaped here, because os/exec does not report stopped processes
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
			return Result{Code: -1}, err
		case !status.Stopped():
			if lost == nil {
				handOver(terminal, unix.Getpgrp())
			}
			if status.Signaled() {
				return Result{Code: -1, Signal: unix.SignalName(status.Signal())}, lost
			}
			return Result{Code: status.ExitStatus()}, lost
		case early < 3 && (status.StopSignal() == syscall.SIGTTIN || status.StopSignal() == syscall.SIGTTOU):
			early++ // it used the terminal before it was in the foreground
		default:
			handOver(terminal, unix.Getpgrp())
			_ = stop()
			if AwaitForeground(ctx, terminal) != nil {
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

// Suspend sends SIGTSTP to the running command, if there is one.
func (b *Runner) Suspend() { b.send(syscall.SIGTSTP) }

func (b *Runner) set(pid int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pid = pid
}

// send sends a signal to the command's process group, if the command was not reaped.
func (b *Runner) send(s syscall.Signal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pid != 0 {
		_ = syscall.Kill(-b.pid, s)
	}
}

// endWith ends the command when the context ends.
func (b *Runner) endWith(ctx context.Context, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-ctx.Done():
	}
	b.send(syscall.SIGTERM)
	b.send(syscall.SIGCONT)
	select {
	case <-over:
	case <-time.After(killGrace):
		b.send(syscall.SIGKILL)
	}
}

// wait waits until the command stops or exits. After it is reaped, its process id may be reused.
func (b *Runner) wait(pid int) (syscall.WaitStatus, error) {
	for {
		changes(pid)
		if status, over, err := b.poll(pid); over || err != nil {
			return status, err
		}
	}
}

func (b *Runner) poll(pid int) (status syscall.WaitStatus, changed bool, err error) {
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

// handOver makes a job the terminal's foreground job. A terminal that does not control this process has no jobs.
func handOver(terminal *os.File, job int) {
	// Otherwise the signal would stop this process while it is in the background.
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	_ = fd.On(terminal, func(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, job) })
}
