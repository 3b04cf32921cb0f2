package containment

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/paths"
)

// mountPoint decides whether a sandbox of the agent's own may have an empty file or folder made to mount something
// on, though nothing could be written there by what rules say. Agents' sandboxes put what nobody can read or change
// in place of .git and .aws, where there is none too, and so need something there. A hidden name in an agent's roots
// or own folders, or directly in a folder for temporary files, takes nothing from anybody: whoever else looks finds
// it empty, and what would be put into it is decided on. It is recorded.
func (d *Decider) mountPoint(ctx context.Context, e *event) bool {
	e.seen = paths.NewSeen()
	if d.observes() || !strings.HasPrefix(filepath.Base(e.Path), ".") || !d.mountsIn(filepath.Dir(e.Path), e.seen) {
		return false
	}
	o, err := d.strictest(ctx, e)
	return err == nil && d.opts.Gate.AllowMountPoint(o.Decision) && d.opts.Gate.RecordAllowed(o.Decision, e.Program) == nil
}

// mountsIn reports whether a folder, by its real path, lies in a root of the agent's sessions, is the agent's own, or
// is for temporary files.
func (d *Decider) mountsIn(folder string, seen *paths.Seen) bool {
	return d.isKept(filepath.Join(folder, "file"), seen) || folder == seen.Real(os.TempDir()) || folder == seen.Real("/tmp") ||
		slices.ContainsFunc(d.opts.Sessions.Roots(), func(root string) bool { return paths.Below(seen.Real(root), folder) })
}
