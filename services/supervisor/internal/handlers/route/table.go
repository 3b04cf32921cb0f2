package route

import (
	"cmp"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/paths"
)

// Table is a complete set of routes. Safe for concurrent use.
type Table struct {
	methods      map[string]*Route
	namespaces   []namespace // the longest prefix first
	sorted       []*Route
	capabilities map[string]bool
	meta         map[string]json.RawMessage
	folders      []*folder // the longest path first
}

// folder has the routes of the sessions in one folder.
type folder struct {
	path  string
	table *Table
}

// At returns the routes of the sessions whose working directory was dir when they were opened: those of the longest
// folder that contains it, by names alone; the table itself if none exists. It does not allocate unless there are
// routes of folders.
func (t *Table) At(dir string) *Table {
	if len(t.folders) == 0 {
		return t
	}
	dir = filepath.Clean(dir)
	for _, f := range t.folders {
		if paths.Below(f.path, dir) {
			return f.table
		}
	}
	return t
}

// Divided reports whether sessions of different folders have different routes.
func (t *Table) Divided() bool { return len(t.folders) > 0 }

// Handlers returns the handlers that answer a method, sorted and without duplicates.
func (t *Table) Handlers() []string {
	var names []string
	for _, r := range t.sorted {
		if r.Target == Handler {
			names = append(names, r.Handler)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Folders returns the folders with routes to a handler, sorted.
func (t *Table) Folders(handler string) []string {
	var names []string
	for _, f := range t.folders {
		for _, r := range f.table.sorted {
			if r.Below == f.path && r.Target == Handler && r.Handler == handler {
				names = append(names, f.path)
				break
			}
		}
	}
	slices.Sort(names)
	return names
}

// namespace is a route for every method that begins with prefix and has no route of its own.
type namespace struct {
	prefix string
	route  *Route
}

// Lookup returns the route of a method, or nil if no handler declares it and it is not configured; such a method goes
// to the client. method must not contain JSON escapes. Lookup does not allocate and does not keep method.
func (t *Table) Lookup(method []byte) *Route {
	if r, ok := t.methods[string(method)]; ok {
		return r
	}
	for i := range t.namespaces {
		n := &t.namespaces[i]
		if len(method) > len(n.prefix) && string(method[:len(n.prefix)]) == n.prefix {
			return n.route
		}
	}
	return nil
}

// Routes returns every route, including those of folders, sorted by name and folder. It includes ACP's own methods
// without a handler, with target Client.
func (t *Table) Routes() []*Route {
	all := slices.Clone(t.sorted)
	for _, f := range t.folders {
		for _, r := range f.table.sorted {
			if r.Below == f.path { // otherwise it was added above
				all = append(all, r)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *Route) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Below, b.Below))
	})
	return all
}

// Methods returns the methods that the named handler answers, sorted, in the form of Route.Title; nil if it answers
// none.
func (t *Table) Methods(handler string) []string {
	var names []string
	for _, r := range t.Routes() {
		if r.Target == Handler && r.Handler == handler {
			names = append(names, r.Title())
		}
	}
	return names
}

// Capabilities returns the flags of ACP v1's clientCapabilities that routes set, by their paths with dots between the
// names ("fs.readTextFile"): true if a handler answers the methods of the flag, false if their target is Deny. It omits
// flags whose methods go to the client: the client sets these.
func (t *Table) Capabilities() map[string]bool { return maps.Clone(t.capabilities) }

// CapabilityMeta returns the additions to clientCapabilities._meta of the handlers that answer a method, by name; each
// value is one compact JSON value. Empty if there are none.
func (t *Table) CapabilityMeta() map[string]json.RawMessage { return maps.Clone(t.meta) }

// finish computes frequently used values from the routes.
func (t *Table) finish() {
	for _, f := range t.folders {
		f.table.finish()
	}
	t.capabilities = map[string]bool{}
	for _, r := range t.methods {
		t.sorted = append(t.sorted, r)
		if r.Capability != "" && r.Target != Client {
			t.capabilities[r.Capability] = r.Target == Handler
		}
	}
	for _, n := range t.namespaces {
		t.sorted = append(t.sorted, n.route)
	}
	slices.SortFunc(t.sorted, func(a, b *Route) int { return strings.Compare(a.Name, b.Name) })
}
