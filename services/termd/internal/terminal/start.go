package terminal

import (
	"fmt"
	"os"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"

	"github.com/acphost/acphost/sdk/plaintext"
	"github.com/acphost/acphost/services/termd/internal/command"
)

// startCommand starts the program on a new pseudo-terminal and returns the master side.
//
// The command leads its own session without a controlling terminal: no person is at it, and a program that asks for
// input (a password, a host key, a pager's next page) fails on /dev/tty at once instead of waiting forever. For the
// same reason it gets the terminal for writing only, and its stdin is the null device. A program that looks up the
// terminal's name, as less does, still waits if it runs as root.
func startCommand(plan command.Plan, env []string, confine func(start func() error) error) (master *os.File, l *leader, err error) {
	master, output, err := openTerminal()
	if err != nil {
		return nil, nil, command.CannotStart(plan.Args[0], fmt.Errorf("open a pseudo-terminal: %w", err))
	}
	defer unix.Close(output)
	defer func() {
		if err != nil {
			_ = master.Close()
		}
	}()
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, command.CannotStart(plan.Args[0], fmt.Errorf("open the null device: %w", err))
	}
	defer unix.Close(null)
	dir, release, err := holdDirectory(*plan.Folder)
	if err != nil {
		return nil, nil, err
	}
	defer release()

	inner := start{plan.Program, plan.Args, &syscall.ProcAttr{
		Dir:   dir,
		Env:   env,
		Files: []uintptr{uintptr(null), uintptr(output), uintptr(output)},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}}
	var outcome *os.File
	if plan.Sandbox != nil {
		var closeFiles func()
		if inner, outcome, closeFiles, err = inSandbox(inner, plan.Sandbox); err != nil {
			return nil, nil, command.CannotStart(plan.Args[0], err)
		}
		defer closeFiles()
	}
	var pid int
	err = confine(func() error {
		var err error
		pid, err = proc.StartLimited(inner.attr.Sys, func() (int, error) { return syscall.ForkExec(inner.program, inner.args, inner.attr) })
		return err
	})
	if err != nil {
		if outcome != nil {
			_ = outcome.Close()
		}
		return nil, nil, command.CannotStart(plan.Args[0], err)
	}
	return master, newLeader(pid, outcome), nil
}

// start describes a process to start.
type start struct {
	program string
	args    []string
	attr    *syscall.ProcAttr
}

// openTerminal makes a pseudo-terminal: the master side, and a descriptor that the command writes to.
func openTerminal() (*os.File, int, error) {
	master, replica, err := pty.Open()
	if err != nil {
		return nil, -1, err
	}
	defer master.Close()
	defer replica.Close()
	if err := pty.Setsize(master, &pty.Winsize{Rows: plaintext.Rows, Cols: plaintext.Columns}); err != nil {
		return nil, -1, fmt.Errorf("set its size: %w", err)
	}
	// Then only root can open it for reading by its name.
	_ = os.Chmod(replica.Name(), 0o200)
	output, err := unix.Open(replica.Name(), unix.O_WRONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, -1, fmt.Errorf("open %s: %w", replica.Name(), err)
	}
	// The pty package has made the file blocking, which costs a thread for each terminal. The runtime's poller handles
	// a non-blocking duplicate.
	fd, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		_ = unix.Close(output)
		return nil, -1, fmt.Errorf("duplicate it: %w", err)
	}
	return os.NewFile(uintptr(fd), master.Name()), output, nil
}

// confineFunc returns a function that starts commands so that they can signal and trace only one another, as far as the
// kernel supports that.
func (s *Terminals) confineFunc(limits Limits) func(start func() error) error {
	return func(start func() error) error {
		return proc.Confine(limits.Confinement, func(w proc.Restrictions) error {
			c := limits.Confinement
			if (!w.Landlock && !c.NoLandlock) || (!w.Seccomp && !c.NoSeccomp) || !w.Capabilities {
				s.warnOnce.Do(func() {
					s.log.Warn("commands can reach further than they should", "missing", w.Notes)
				})
			}
			return start()
		})
	}
}
