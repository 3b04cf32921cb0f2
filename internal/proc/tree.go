package proc

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// Tree is a process and all its descendants. Make one with TreeOf while the process is known to be there, so that
// another process that later gets the same pid is not taken for it.
type Tree struct {
	// Root is the pid at the top.
	Root int
	// Started is when Root started, in clock ticks since boot; 0 takes whatever process has the pid.
	Started uint64
}

// List lists the live processes of the tree, the root first. It is empty when the root has ended: its descendants, if
// it left any, are then somebody else's.
func (t Tree) List() ([]int, error) { return t.list() }

// Signal sends sig to every process of the tree. A process that ended meanwhile is no error.
func (t Tree) Signal(sig syscall.Signal) error {
	targets, err := aim(t.List)
	if err != nil {
		return fmt.Errorf("signal the tree of process %d: %w", t.Root, err)
	}
	defer targets.close()
	return targets.signal(sig, nil)
}

// End ends the tree as End does.
func (t Tree) End(ctx context.Context, grace time.Duration) error {
	return End(ctx, t.List, grace)
}
