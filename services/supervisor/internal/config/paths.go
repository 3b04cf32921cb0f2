package config

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"

	"github.com/acphost/acphost/internal/paths"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/pathmap"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
)

// PathMaps returns the path mapping of a handler, or nil.
func PathMaps(h *configv1.Handler) (*pathmap.Maps, error) {
	all := make([]pathmap.Map, len(h.GetPaths()))
	for i, m := range h.GetPaths() {
		all[i] = pathmap.Map{Here: trimSlash(m.GetHere()), There: trimSlash(m.GetThere())}
	}
	return pathmap.New(all)
}

// trimSlash removes the slash at the end of a path that is otherwise clean.
func trimSlash(name string) string {
	if clean := filepath.Clean(name); clean+"/" == name {
		return clean
	}
	return name
}

// pathMaps checks the path mapping of a sidecar. It rejects a folder that is a symbolic link at the client: sessions
// name the target of the link as often as the link, and only one of them would be translated.
func (v *checker) pathMaps(at path, name string, h *configv1.Handler) {
	all := h.GetPaths()
	v.misplaced(at, len(all) > 0 && h.GetAddress() == "",
		"address only: a handler that acphost starts sees the same files under the same paths")
	v.misplaced(at, len(all) > 0 && h.GetAddress() != "" && Kind(name) == route.KindPermission,
		"handlers that answer methods only: a policy gets the client's paths")
	for i, m := range all {
		if m.GetHere() == "" || m.GetThere() == "" {
			continue // already reported
		}
		if dir, err := v.expand(m.GetHere()); err == nil && m.GetHere()[0] == '~' {
			m.Here = dir
		}
		if dir := trimSlash(m.GetHere()); filepath.IsAbs(dir) && filepath.Clean(dir) == dir {
			if real := paths.Real(dir); real != dir {
				v.problem(at.to(i, pathmap.SideHere), "%s leads to %s by a symbolic link: name that folder, and open sessions in it", dir, real)
			}
		}
	}
	_, err := PathMaps(h)
	for _, mistake := range pathMistakes(err) {
		v.problem(at.to(mistake.Index, mistake.Side), "%s", mistake.Why)
	}
}

// mappedRoots reports roots of every session that have no path in a sidecar.
func (v *checker) mappedRoots(c *configv1.Config) {
	for _, name := range slices.Sorted(maps.Keys(c.GetHandlers())) {
		mapped, err := PathMaps(c.GetHandlers()[name])
		if err != nil || mapped == nil || c.GetHandlers()[name].GetAddress() == "" {
			continue
		}
		for i, root := range c.GetWorkspace().GetExtraRoots() {
			dir, err := v.expand(root.GetPath())
			if err != nil {
				continue
			}
			if _, err := mapped.SidecarPath(dir); err != nil {
				v.problem(path("workspace.extra_roots").to(i, "path"), "%s is a name of the sidecar %q for another folder (handlers.%s.paths): "+
					"give that folder another path in the sidecar", dir, name, name)
			}
		}
	}
}

// pathMistakes returns the single mistakes of pathmap.New.
func pathMistakes(err error) []*pathmap.Mistake {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*pathmap.Mistake
		for _, err := range joined.Unwrap() {
			all = append(all, pathMistakes(err)...)
		}
		return all
	}
	if one, ok := errors.AsType[*pathmap.Mistake](err); ok {
		return []*pathmap.Mistake{one}
	}
	return nil
}
