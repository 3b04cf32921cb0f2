//go:build !linux

package terminal

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
)

// snapshots are shared by all trees. Empty here.
type snapshots struct{}

func newSnapshots() snapshots { return snapshots{} }

// tree is the command's process group: its other processes cannot be found here.
type tree struct {
	pid     int
	retired atomic.Bool
}

func (s *Terminals) newTree(pid int, _ string) *tree { return &tree{pid: pid} }

// retire records that the command's pid is released.
func (t *tree) retire() { t.retired.Store(true) }

func (t *tree) isRetired() bool { return t.retired.Load() }

// end ends the group: SIGTERM, and SIGKILL after the grace.
func (t *tree) end(ctx context.Context, grace time.Duration) error {
	deadline := time.NewTimer(max(grace, 0))
	defer deadline.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for sig := syscall.SIGTERM; ; {
		if err := syscall.Kill(-t.pid, sig); errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.EPERM) {
			return nil // no process, or only zombies
		}
		sig = 0
		select {
		case <-look.C:
		case <-deadline.C:
			sig = syscall.SIGKILL
		case <-ctx.Done():
			return fmt.Errorf("end process group %d: %w", t.pid, context.Cause(ctx))
		}
	}
}
