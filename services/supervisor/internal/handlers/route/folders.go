package route

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/paths"
)

// limited is a configured route for the sessions of a folder. Its prefix is the whole method, or that of a namespace.
type limited struct {
	space
	wild   bool
	folder string
}

func (l *limited) matches(method string) bool {
	return l.prefix == method || l.wild && strings.HasPrefix(method, l.prefix)
}

// mostSpecificFirst orders routes so that the first match takes precedence.
func mostSpecificFirst(a, b limited) int {
	if c := cmp.Or(cmp.Compare(len(b.folder), len(a.folder)), cmp.Compare(a.folder, b.folder)); c != 0 {
		return c
	}
	if a.wild != b.wild {
		if b.wild {
			return -1
		}
		return 1
	}
	return longestFirst(a.space, b.space)
}

// errLimitedWord returns the error for a route of a folder that does not name a handler.
func errLimitedWord(target string) error {
	return fmt.Errorf("expected a handler's name, got %q: capabilities are advertised once, for all folders", target)
}

// CheckLimited returns an error if a configured route is for one folder and does not name a handler.
func CheckLimited(name, target string) error {
	if _, folder := SplitFolder(name); folder != "" && IsWord(target) {
		return errLimitedWord(target)
	}
	return nil
}

// ofFolder makes the route of a method for l; nil if none exists, or a problem was found. If the handler does not
// declare a method of its namespace, the method has no handler in the folder, since all methods of a kind are routed to
// one handler there.
func (b *builder) ofFolder(l limited, method string, elsewhere *Route) *Route {
	declares := slices.ContainsFunc(b.candidates[method], func(c candidate) bool { return c.handler == l.target })
	switch {
	case declares || !l.wild || elsewhere == nil || elsewhere.Target == Handler && elsewhere.Capability != "":
		r := b.named(method, l.target, l.name)
		if r == nil || r.Target != Handler {
			return nil // a problem, or a method without a handler
		}
		return r
	case elsewhere.Target == Handler:
		return b.newRoute(method, Deny, nil)
	}
	return nil
}

// isLimited reports whether a route of a folder sends a method to a handler.
func (b *builder) isLimited(method, handler string) bool {
	return slices.ContainsFunc(b.limited, func(l limited) bool { return l.target == handler && l.matches(method) })
}

// resolveFolders makes the routes of folders.
func (b *builder) resolveFolders(t *Table) {
	for i, l := range b.limited {
		if i > 0 && b.limited[i-1].folder == l.folder {
			continue
		}
		t.folders = append(t.folders, &folder{l.folder, b.inFolder(t, l.folder)})
	}
}

// inFolder makes the routes of one folder from the routes without a folder.
func (b *builder) inFolder(base *Table, dir string) *Table {
	in := &Table{methods: map[string]*Route{}, namespaces: base.namespaces}
	methods := map[string]bool{}
	for name, r := range base.methods {
		in.methods[name] = r
		methods[name] = true
	}
	for _, l := range b.limited {
		if !l.wild {
			methods[l.prefix] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		i := slices.IndexFunc(b.limited, func(l limited) bool { return paths.Below(l.folder, dir) && l.matches(name) })
		if i < 0 {
			continue
		}
		l, was := b.limited[i], base.methods[name]
		r := b.ofFolder(l, name, was)
		if r == nil {
			continue
		}
		if r.Target == Handler && was != nil && was.Target == Handler && was.Handler == r.Handler {
			continue
		}
		r.Below = dir
		in.methods[name] = r
		if r.Capability != "" && (was == nil || was.Target != Handler) {
			b.problem("routes: %s: no handler answers %s outside of this folder, but the capability %q is advertised once, for "+
				"all folders: route it to a handler there, too", l.name, name, r.Capability)
		}
	}
	return in
}
