package link

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
func (l *Link) mountPoint(ctx context.Context, e *kernelEvent) bool {
	e.seen = paths.NewSeen()
	if l.opts.Kernel.How.Observe || !strings.HasPrefix(filepath.Base(e.Path), ".") || !l.mountsIn(filepath.Dir(e.Path), e.seen) {
		return false
	}
	o, err := l.strictest(ctx, e)
	return err == nil && l.opts.Gate.AllowMountPoint(o.d) && l.opts.Gate.RecordAllowed(o.d, e.Program) == nil
}

// mountsIn reports whether a folder, by its real path, lies in a root of the agent's sessions, is the agent's own, or
// is for temporary files.
func (l *Link) mountsIn(folder string, seen *paths.Seen) bool {
	return l.isKept(filepath.Join(folder, "file"), seen) || folder == seen.Real(os.TempDir()) || folder == seen.Real("/tmp") ||
		slices.ContainsFunc(l.opts.Sessions.Roots(), func(root string) bool { return paths.Below(seen.Real(root), folder) })
}
