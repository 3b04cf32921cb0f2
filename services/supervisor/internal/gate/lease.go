package gate

import (
	"os"
	"path"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/reuse"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Counter counts the actions that are allowed by a Lease.
type Counter interface {
	// Take returns the count, and ends the Counter.
	Take() uint64
}

// Lease describes the other changes of files that a decision covers: in the same folder, by the same program, as long as Reuse is valid and
// the Gate and the session have not changed.
type Lease struct {
	Reuse *permissionv1.Reuse
	// Keys are files that may not be changed by any name.
	Keys []os.FileInfo
	// Counter counts the changes.
	Counter Counter
}

// Lease returns the Lease of a decision that RecordAllowed recorded; nil: none. count returns a new Counter, or nil.
func (g *Gate) Lease(d *Decision, program string, count func() Counter) *Lease {
	a := d.request.Action
	if d.Verdict != Allow || d.By != ByPolicy || !d.active || d.reuse == nil || a.GetKind() != "fs.write" || len(a.GetPaths()) != 1 {
		return nil
	}
	p := a.GetPaths()[0]
	if name, ok := reuse.Name(a); !ok || name == "" || p.GetGitInternal() || p.GetPath() != p.GetResolvedPath() || git.MayBeOwn(p.GetPath()) {
		return nil
	}
	folder := strings.ToLower(path.Dir(p.GetPath()))
	beside := func(own string) bool { return strings.ToLower(path.Dir(own)) == folder }
	if slices.ContainsFunc(g.protected, beside) || g.keyNamed(beside) != "" {
		return nil
	}
	l := &Lease{Reuse: d.reuse}
	for _, k := range g.keyFiles() {
		if k.info != nil {
			l.Keys = append(l.Keys, k.info)
		}
		if now, err := os.Stat(k.asked); err == nil {
			l.Keys = append(l.Keys, now)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.kernel.tallies[d.request.Scope][tallyOf(d, program)]
	if t == nil {
		return nil
	}
	if t.leased == nil {
		t.leased = count()
	}
	l.Counter = t.leased
	if l.Counter == nil {
		return nil
	}
	return l
}
