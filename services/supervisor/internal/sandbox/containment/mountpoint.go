package containment

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/paths"
)

// mountPoint decides whether a sandbox of the agent may create an empty file or folder as a mount point, even if rules
// deny writes there. Sandboxes of agents mount unreadable and read-only files over .git and .aws, even where these do
// not exist, and need a mount point. A hidden name in the agent's roots or own folders, or directly in a folder for
// temporary files, harms nobody: other processes find it empty, and files put into it are decided. The decision is
// recorded.
func (d *Decider) mountPoint(ctx context.Context, e *event) bool {
	e.seen = paths.NewCache()
	if d.observes() || !strings.HasPrefix(filepath.Base(e.Path), ".") || !d.mountsIn(filepath.Dir(e.Path), e.seen) {
		return false
	}
	o, err := d.strictest(ctx, e)
	return err == nil && d.opts.Gate.AllowMountPoint(o.Decision) && d.opts.Gate.RecordAllowed(o.Decision, e.Program) == nil
}

// mountsIn reports whether a folder, by its real path, lies in a root of the agent's sessions, belongs to the agent, or
// is for temporary files.
func (d *Decider) mountsIn(folder string, seen *paths.Cache) bool {
	return d.isKept(filepath.Join(folder, "file"), seen) || folder == seen.Real(os.TempDir()) || folder == seen.Real("/tmp") ||
		slices.ContainsFunc(d.opts.Sessions.Roots(), func(root string) bool { return paths.Below(seen.Real(root), folder) })
}
