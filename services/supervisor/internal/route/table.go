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

// Table is a finished set of routes. It is safe for concurrent use.
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

// At returns the routes of the sessions whose working directory, when they were opened, was dir: those of the longest folder that
// contains it, by names alone; the table itself if none does. It does not allocate unless there are routes of folders.
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

// Handlers returns the handlers that answer a method, sorted and once each.
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

// Folders returns the folders whose sessions a handler answers methods of by routes of these folders, sorted.
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

// namespace is a route for every method that begins with prefix and has none of its own.
type namespace struct {
	prefix string
	route  *Route
}

// Lookup returns the route of a method, or nil if no handler declares it and no configuration names it; such a method
// goes to the client. The method is spelled without JSON escapes. Lookup does not allocate and keeps nothing of method.
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

// Routes returns every route, those of folders too, sorted by name and folder. ACP's own methods that nobody declares are among
// them, with target Client.
func (t *Table) Routes() []*Route {
	all := slices.Clone(t.sorted)
	for _, f := range t.folders {
		for _, r := range f.table.sorted {
			if r.Below == f.path { // else it is one of those above
				all = append(all, r)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *Route) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Below, b.Below))
	})
	return all
}

// Methods returns the methods that the named handler answers, sorted, as Route.Title spells them; nil if it answers none.
func (t *Table) Methods(handler string) []string {
	var names []string
	for _, r := range t.Routes() {
		if r.Target == Handler && r.Handler == handler {
			names = append(names, r.Title())
		}
	}
	return names
}

// Capabilities returns the flags of ACP v1's clientCapabilities that routes set, by the path to each, dots between the names
// ("fs.readTextFile"): true if a handler answers the methods that the flag stands for, false if nobody does. Flags whose
// methods go to the client are left out: they are as the client says.
func (t *Table) Capabilities() map[string]bool { return maps.Clone(t.capabilities) }

// CapabilityMeta returns what clientCapabilities._meta gets from the handlers that answer a method, by name; each value
// is one compact JSON value. Empty: nothing.
func (t *Table) CapabilityMeta() map[string]json.RawMessage { return maps.Clone(t.meta) }

// finish derives from the routes what is asked of the table often.
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
