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

// agentAttr: a session of its own keeps the agent off the supervisor's terminal, and gives what it starts a number to
// be found by.
func agentAttr(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Credential: c}
}

// reap collects what the guard adopted; the agent itself has its own waiter.
func (g *guard) reap() {
	_, _ = proc.ReapAdopted(func(pid int) bool { return int64(pid) == g.agent.Load() })
}

// endTree ends every descendant, and is done when the kernel says that the guard has no children at all.
func (g *guard) endTree(ctx context.Context, grace time.Duration) error {
	list := func() ([]int, error) { return proc.Descendants(os.Getpid()) }
	deadline := time.Now().Add(grace)
	tick := time.NewTicker(2 * time.Millisecond) // for the agent's own waiter to come round
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

// childless looks without reaping.
func childless() bool {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return errors.Is(err, unix.ECHILD)
		}
	}
}

// keepFiles keeps files that the supervisor itself inherited, from an editor that leaks them, from the agent.
func keepFiles() { _ = unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) }

func dupOnto(from, to int) error { return unix.Dup3(from, to, 0) }
