//go:build !linux

package orphans

import (
	"context"
	"syscall"
	"time"
)

// endOrphans ends the process groups of the sessions' leaders: other processes cannot be found here.
func endOrphans(ctx context.Context, _ string, sessions map[int]bool) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		for session := range sessions {
			_ = syscall.Kill(-session, sig)
		}
		select {
		case <-ctx.Done():
		case <-time.After(grace):
		}
	}
}
