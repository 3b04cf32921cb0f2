//go:build !linux

package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// target is a process known only by its pid.
type target struct {
	process
}

func take(pid int) (target, bool, error) {
	if pid <= 1 || pid == os.Getpid() {
		return target{}, false, fmt.Errorf("process %d is not one to end", pid)
	}
	return target{process: process{pid: pid}}, true, nil
}

func (t target) signal(sig syscall.Signal) error {
	if err := syscall.Kill(t.pid, sig); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

func (target) close() {}

func (t targets) awaitOne(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// List needs /proc: here it returns ErrUnsupported.
func (t Tree) List() ([]int, error) { return Descendants(t.Root) }

// TreeOf needs /proc: here it returns ErrUnsupported.
func TreeOf(pid int) (Tree, error) {
	return Tree{}, fmt.Errorf("tree of process %d: %w", pid, ErrUnsupported)
}
