package route

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/services/supervisor/internal/acp/transcode"
)

// checkCapability returns an error if a declared capability is not a path into clientCapabilities.
func checkCapability(path string) error {
	if path == "" {
		return nil
	}
	for name := range strings.SplitSeq(path, ".") {
		if name == "" || name == "_meta" || strings.ContainsFunc(name, notWord) || len(path) > maxNameLen {
			return fmt.Errorf("capability %q is not a path of names with dots between them", path)
		}
	}
	return nil
}

func notWord(c rune) bool {
	return !(c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z')
}

// checkCapabilities requires that the methods of one flag have the same target, because the flag applies to all of
// them, and that no flag contains another.
func (b *builder) checkCapabilities(t *Table) {
	for _, f := range t.folders {
		b.checkCapabilities(f.table)
	}
	groups := map[string][]*Route{}
	for _, name := range slices.Sorted(maps.Keys(t.methods)) {
		if r := t.methods[name]; r.Capability != "" {
			groups[r.Capability] = append(groups[r.Capability], r)
		}
	}
	paths := slices.Sorted(maps.Keys(groups))
	for _, path := range paths {
		group := groups[path]
		for _, r := range group[1:] {
			if r.Target != group[0].Target || r.Handler != group[0].Handler {
				b.problem("routes: one capability, %q, covers methods with different targets: %s; route them together",
					path, destinations(group))
				break
			}
		}
		for _, other := range paths {
			if strings.HasPrefix(other, path+".") {
				b.problem("capability %q (%s) cannot hold capability %q (%s): it is true or false",
					path, group[0].Name, other, groups[other][0].Name)
			}
		}
	}
}

// CheckAgreement returns an error if the configuration alone gives methods of one ACP capability different targets:
// some the client or none, others a handler. It is for checks without handlers; only Build knows which handler is
// meant, and the methods that handlers declare.
func CheckAgreement(configured map[string]string) error {
	b := builder{known: map[string]*transcode.Method{}, exact: map[string]string{}}
	b.addKnown()
	for _, name := range slices.Sorted(maps.Keys(configured)) {
		b.configure(name, configured[name])
	}
	slices.SortStableFunc(b.spaces, longestFirst)
	slices.SortStableFunc(b.limited, mostSpecificFirst)
	t := &Table{methods: map[string]*Route{}}
	for name := range b.known {
		word, _ := b.configuredFor(name)
		t.methods[name] = b.newRoute(name, targets[word], nil) // a handler, unless the word means another target
	}
	b.checkCapabilities(t)
	// The methods of handlers are unknown here, but the targets in a folder can be compared.
	for _, l := range b.limited {
		in := &Table{methods: map[string]*Route{}}
		for name, r := range t.methods {
			in.methods[name] = r
			if i := slices.IndexFunc(b.limited, func(o limited) bool { return paths.Below(o.folder, l.folder) && o.matches(name) }); i >= 0 {
				in.methods[name] = b.newRoute(name, Handler, &candidate{handler: b.limited[i].target, method: r.Method})
			}
		}
		b.checkCapabilities(in)
	}
	return errors.Join(b.problems...)
}

// destinations describes the target of each route of a group.
func destinations(group []*Route) string {
	parts := make([]string, len(group))
	for i, r := range group {
		to := r.Target.String()
		if r.Target == Handler {
			to = strings.TrimSpace("handler " + r.Handler)
		}
		parts[i] = r.Name + " to " + to
	}
	return strings.Join(parts, ", ")
}
