//go:build !linux

package guard

import (
	"context"
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// agentAttr makes the agent the leader of a session and so of a process group, which is all that can be ended on this
// system.
func agentAttr(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Credential: c}
}

// reap does nothing: the guard adopts no processes on this system.
func (g *guard) reap() {}

// endTree ends the agent's process group.
func (g *guard) endTree(ctx context.Context, grace time.Duration) error {
	return EndGroup(ctx, int(g.group.Load()), grace)
}

// keepFiles keeps the agent from inheriting files that the supervisor itself inherited, for example from an editor that
// leaks them. This system has no list of open files, but descriptors are small numbers.
func keepFiles() {
	for fd := 3; fd < 1024; fd++ {
		unix.CloseOnExec(fd)
	}
}

func dupOnto(from, to int) error { return unix.Dup2(from, to) }

// EndGroup ends a process group, with SIGKILL after a grace period, until ctx ends.
func EndGroup(ctx context.Context, group int, grace time.Duration) error {
	if group <= 1 {
		return nil
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(grace)
	for sig := syscall.SIGTERM; ; sig = 0 {
		if !time.Now().Before(deadline) {
			sig = syscall.SIGKILL
		}
		if err := syscall.Kill(-group, sig); errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.EPERM) {
			return nil // macOS answers EPERM for a group of zombies
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
