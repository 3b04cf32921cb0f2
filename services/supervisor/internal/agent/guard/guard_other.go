//go:build !linux

package guard

import (
	"context"
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// agentAttr: the agent leads a session and with it a process group, which is all that can be ended here.
func agentAttr(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Credential: c}
}

// reap has nothing to do where nothing is adopted.
func (g *guard) reap() {}

// endTree ends the agent's process group.
func (g *guard) endTree(ctx context.Context, grace time.Duration) error {
	return EndGroup(ctx, int(g.group.Load()), grace)
}

// keepFiles keeps files that the supervisor itself inherited, from an editor that leaks them, from the agent. There is
// no list of them here; descriptors are small numbers.
func keepFiles() {
	for fd := 3; fd < 1024; fd++ {
		unix.CloseOnExec(fd)
	}
}

func dupOnto(from, to int) error { return unix.Dup2(from, to) }

// EndGroup ends a process group, after a grace by force, until ctx ends.
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
