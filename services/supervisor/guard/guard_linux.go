package guard

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
)

// agentAttr starts a session for the agent. It separates the agent from the supervisor's terminal, and identifies the
// agent's processes.
func agentAttr(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Credential: c}
}

// reap reaps the processes that the guard adopted. The agent itself is reaped by its own waiter.
func (g *guard) reap() {
	_, _ = proc.ReapAdopted(func(pid int) bool { return int64(pid) == g.agent.Load() })
}

// endTree ends every descendant, and returns when the guard has no children.
func (g *guard) endTree(ctx context.Context, grace time.Duration) error {
	list := func() ([]int, error) { return proc.Descendants(os.Getpid()) }
	deadline := time.Now().Add(grace)
	tick := time.NewTicker(2 * time.Millisecond) // the agent's own waiter may be late
	defer tick.Stop()
	for {
		if err := proc.End(ctx, list, time.Until(deadline)); err != nil {
			return err
		}
		g.reap()
		if childless() {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// childless reports whether there are no children. It does not reap.
func childless() bool {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return errors.Is(err, unix.ECHILD)
		}
	}
}

// keepFiles keeps the agent from inheriting files that the supervisor itself inherited, for example from an editor that
// leaks them.
func keepFiles() { _ = unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) }

func dupOnto(from, to int) error { return unix.Dup3(from, to, 0) }
