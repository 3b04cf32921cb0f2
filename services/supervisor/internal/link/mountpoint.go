package link

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
)

// mountPoint decides whether a sandbox of the agent's own may have an empty file or folder made to mount something on, though
// nothing could be written there by what rules say. Agents' sandboxes put what nobody can read or change in place of .git and
// .aws, where there is none too, and so need something there. In an agent's roots and in folders for temporary files that
// takes nothing from anybody: whoever else looks finds it empty, and what would be put into it is decided on. It is recorded.
func (l *Link) mountPoint(ctx context.Context, e *kernelEvent) bool {
	e.seen = paths.NewSeen()
	if l.opts.Kernel.How.Observe || !l.mountsIn(filepath.Dir(e.Path), e.seen) {
		return false
	}
	o, err := l.strictest(ctx, e)
	if err != nil || o.d.Verdict == gate.Allow || o.d.Rule == gate.RuleProtected {
		return false
	}
	l.opts.Gate.AllowMountPoint(o.d)
	return l.opts.Gate.RecordAllowed(o.d, e.Program) == nil
}

// mountsIn reports whether a folder, by its real path, lies in a root of the agent's sessions, is the agent's own, or is for
// temporary files.
func (l *Link) mountsIn(folder string, seen *paths.Seen) bool {
	places := append(slices.Clone(l.opts.Sessions.Roots()), os.TempDir(), "/tmp")
	return l.isKept(filepath.Join(folder, "file"), seen) ||
		slices.ContainsFunc(places, func(p string) bool { return paths.Below(seen.Real(p), folder) })
}
