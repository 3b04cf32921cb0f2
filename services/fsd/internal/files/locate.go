package files

import (
	"errors"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/paths"
)

// accessMode is the kind of access to a path.
type accessMode int

const (
	resolveOnly accessMode = iota // only resolve the path
	readAccess                    // must be inside the roots and not protected
	writeAccess                   // and must not be in a read-only root
)

// locate resolves a path and checks it. With readAccess or writeAccess, the result may be accessed.
func (s *state) locate(b Bounds, path string, mode accessMode) (*resolvedPath, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	w := &walker{}
	roots, err := w.roots(b.Roots)
	if err != nil {
		return nil, err
	}
	p, err := w.resolve(roots, path, mode)
	if outside := new(Error); errors.As(err, &outside) && outside.Kind == Escapes {
		switch {
		case mode == resolveOnly:
			// The path cannot be fully resolved, but the unresolved part is outside already.
			p, err = &resolvedPath{requested: path, path: filepath.Clean(path), missing: []string{path}, leavesRoots: true}, nil
		case b.Allowed != "":
			p, err = w.resolveAllowed(b.Allowed, roots, path)
		}
	}
	if err != nil {
		return nil, err
	}
	if p.protected, err = s.isProtected(p); err != nil {
		return nil, err
	}
	if mode == resolveOnly {
		return p, nil
	}
	if p.protected {
		return nil, errProtected(path)
	}
	if mode == writeAccess && (git.Own(p.path) || git.Own(path) || git.Completes(p.path)) {
		return nil, errGit(path)
	}
	if mode == writeAccess && p.root.ReadOnly {
		return nil, fail(Denied, "the root %s is read-only: %s", p.root.Path, path)
	}
	if b.Resolved != "" && b.Resolved != p.path {
		return nil, fail(Changed, "the path led to %s when the call was allowed and leads to %s now, try again: %s", b.Resolved, p.path, path)
	}
	return p, nil
}

// resolve resolves a path. Unless mode is resolveOnly, the path must lie inside the roots.
func (w *walker) resolve(roots rootSet, path string, mode accessMode) (*resolvedPath, error) {
	p, err := w.walk(path, roots.insideOrAbove, mode != resolveOnly)
	if err != nil {
		return nil, err
	}
	if !utf8.ValidString(p.path) {
		return nil, fail(Invalid, "the path leads to a name that is not UTF-8: %s", path)
	}
	if !p.leavesRoots {
		p.root = roots.innermost(p.path)
	}
	if mode != resolveOnly && p.root == nil {
		return nil, errEscapes(path)
	}
	if mode == writeAccess {
		// A write must not recreate a root that was removed. A root below another root is a folder of that root.
		if r := roots.innermostResolved(p.path); r.missing && !roots.inOtherRoot(r) {
			return nil, fail(Invalid, "%s", paths.RootMissing(r.original.Path))
		}
	}
	return p, nil
}

// resolveAllowed resolves a path that leaves the roots but was allowed: it must lead to that very file. If it does not,
// the error does not reveal where it leads.
func (w *walker) resolveAllowed(allowed string, roots rootSet, path string) (*resolvedPath, error) {
	if paths.Kernel(allowed) {
		return nil, errEscapes(path)
	}
	p, err := w.walk(path, anyPath, false)
	if err != nil {
		return nil, errEscapes(path)
	}
	if p.path != allowed {
		return nil, fail(Changed, "the path does not lead to the file that was allowed, ask again: %s", path)
	}
	if p.root = roots.innermost(p.path); p.root == nil {
		p.root = &Root{}
	}
	return p, nil
}

// rootSet are a call's roots, as requested and as resolved.
type rootSet []resolvedRoot

type resolvedRoot struct {
	original Root
	cleaned  string
	real     string // empty: it cannot be resolved, so no path is inside
	missing  bool
}

func (w *walker) roots(original []Root) (rootSet, error) {
	if len(original) == 0 {
		return nil, fail(Invalid, "the call names no roots")
	}
	set := make(rootSet, 0, len(original))
	for _, root := range original {
		if checkPath(root.Path) != nil {
			return nil, fail(Invalid, "a root is relative, an absolute path is needed: %q", root.Path)
		}
		r := resolvedRoot{original: root, cleaned: filepath.Clean(root.Path)}
		// A root that cannot be resolved must not disable the other roots; a path in it causes the same error.
		if p, err := w.walk(root.Path, anyPath, false); err == nil {
			r.real, r.missing = p.path, !p.exists()
		}
		set = append(set, r)
	}
	return set, nil
}

func anyPath(string) bool { return true }

// insideOrAbove reports whether a path is inside a root, or an ancestor of one.
func (set rootSet) insideOrAbove(path string) bool {
	for _, r := range set {
		if paths.Below(r.cleaned, path) || paths.Below(path, r.cleaned) {
			return true
		}
		if r.real != "" && (paths.Below(r.real, path) || paths.Below(path, r.real)) {
			return true
		}
	}
	return false
}

// inOtherRoot reports whether a root lies in another existing root.
func (set rootSet) inOtherRoot(r *resolvedRoot) bool {
	return slices.ContainsFunc(set, func(o resolvedRoot) bool { return o.real != "" && !o.missing && paths.Below(o.real, r.real) })
}

// innermost returns the root that decides about a resolved path; nil: the path is outside of all roots. Of two roots
// with the same folder, the read-only one decides.
func (set rootSet) innermost(path string) *Root {
	if best := set.innermostResolved(path); best != nil {
		return &best.original
	}
	return nil
}

func (set rootSet) innermostResolved(path string) *resolvedRoot {
	var best *resolvedRoot
	for i := range set {
		r := &set[i]
		if r.real == "" || !paths.Below(r.real, path) {
			continue
		}
		if best == nil || len(r.real) > len(best.real) || len(r.real) == len(best.real) && r.original.ReadOnly && !best.original.ReadOnly {
			best = r
		}
	}
	return best
}
