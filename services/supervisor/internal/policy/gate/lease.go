package gate

import (
	"os"
	"path"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/pathglob"
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
	l := &Lease{Reuse: d.reuse, Keys: g.keyInfos()}
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

// ReadLease describes the other reads of processes that a decision covers. It is valid for a moment only, because the sandbox that uses it
// does not see changes of the Gate or the session (decisions.ReadLease).
type ReadLease struct {
	// Asked are patterns of the files that are decided apart (pathglob.Set).
	Asked []string
	// Keys are files that may not be read by any name.
	Keys []os.FileInfo
}

// ReadLease returns the ReadLease of a decision; nil: it covers no other reads. Reads that a ReadLease covers are not recorded.
func (g *Gate) ReadLease(d *Decision) *ReadLease {
	if d.Verdict != Allow || d.By != ByPolicy || !d.active || !d.reuse.GetEveryFile() {
		return nil
	}
	l := &ReadLease{Asked: slices.Clone(d.reuse.GetAsked()), Keys: g.keyInfos()}
	protect := func(path string) {
		path = strings.ToLower(pathglob.Escape(path))
		l.Asked = append(l.Asked, path, strings.TrimSuffix(path, "/")+"/**")
	}
	for _, path := range g.protected {
		protect(path)
	}
	for _, k := range g.keyFiles() {
		protect(k.asked)
		protect(k.real)
	}
	l.Asked = append(l.Asked, "/**/"+WorkspaceFolder+"/**")
	return l
}

// keyInfos returns the identities of the files with keys.
func (g *Gate) keyInfos() []os.FileInfo {
	var infos []os.FileInfo
	for _, k := range g.keyFiles() {
		if k.info != nil {
			infos = append(infos, k.info)
		}
		if now, err := os.Stat(k.asked); err == nil {
			infos = append(infos, now)
		}
	}
	return infos
}
