package orphans

import (
	"context"
	"os"
	"slices"

	"github.com/acphost/acphost/internal/proc"

	"github.com/acphost/acphost/services/termd/internal/procsnapshot"
)

// endOrphans ends the processes with the mark, those in the sessions, and all their descendants.
func endOrphans(ctx context.Context, mark string, sessions map[int]bool) {
	_ = proc.End(ctx, func() ([]int, error) {
		now, err := procsnapshot.Take(mark)
		if err != nil {
			return nil, err
		}
		roots := slices.Clone(now.Marked(mark))
		for session := range sessions {
			roots = append(roots, now.Session(session)...)
		}
		orphans := now.Descendants(roots...)
		return slices.DeleteFunc(orphans, func(pid int) bool { return pid == os.Getpid() }), nil
	}, grace)
}
