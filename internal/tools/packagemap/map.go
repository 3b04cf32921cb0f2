package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// graph is the set of imports: for each name, the names that it imports.
type graph map[string]map[string]bool

func (g graph) node(name string) map[string]bool {
	if g[name] == nil {
		g[name] = map[string]bool{}
	}
	return g[name]
}

// levels returns the level of each node: one above the highest level of its imports, or 0 without imports. The error
// names a cycle of imports.
func (g graph) levels() (map[string]int, error) {
	level := map[string]int{}
	var visit func(name string, path []string) error
	visit = func(name string, path []string) error {
		if _, done := level[name]; done {
			return nil
		}
		if i := slices.Index(path, name); i >= 0 {
			return fmt.Errorf("cyclic imports: %s", strings.Join(append(path[i:], name), " → "))
		}
		highest := -1
		for _, to := range slices.Sorted(maps.Keys(g[name])) {
			if err := visit(to, append(path, name)); err != nil {
				return err
			}
			highest = max(highest, level[to])
		}
		level[name] = highest + 1
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(g)) {
		if err := visit(name, nil); err != nil {
			return nil, err
		}
	}
	return level, nil
}

// reduced returns g without each edge for which a longer path leads to the same node. g has no cycles.
func (g graph) reduced() graph {
	reach := graph{}
	var from func(name string) map[string]bool
	from = func(name string) map[string]bool {
		if reach[name] == nil {
			all := reach.node(name)
			for to := range g[name] {
				all[to] = true
				maps.Copy(all, from(to))
			}
		}
		return reach[name]
	}
	less := graph{}
	for name, imports := range g {
		kept := less.node(name)
		for to := range imports {
			around := false
			for other := range imports {
				around = around || from(other)[to]
			}
			if !around {
				kept[to] = true
			}
		}
	}
	return less
}

// mermaid draws a graph, the highest level first.
func mermaid(g graph, level map[string]int) string {
	var b strings.Builder
	b.WriteString("```mermaid\nflowchart TD\n")
	names := byLevel(level)
	for _, name := range names {
		fmt.Fprintf(&b, "  %s[\"%s\"]\n", id(name), name)
	}
	for _, name := range names {
		if to := slices.Sorted(maps.Keys(g[name])); len(to) > 0 {
			for i := range to {
				to[i] = id(to[i])
			}
			fmt.Fprintf(&b, "  %s --> %s\n", id(name), strings.Join(to, " & "))
		}
	}
	b.WriteString("```\n")
	return b.String()
}

// id converts a name to a node id of Mermaid, in which some words and characters are reserved.
func id(name string) string { return "n_" + strings.NewReplacer("/", "_", "-", "_").Replace(name) }

// byLevel returns the names, the highest level first, sorted by name within a level.
func byLevel(level map[string]int) []string {
	names := slices.Sorted(maps.Keys(level))
	slices.SortStableFunc(names, func(a, b string) int { return level[b] - level[a] })
	return names
}

// room returns the room of a package, and the package below it; ok is false if the package is in no room. The package in
// the room's own folder has the name of the room.
func room(path string) (name, below string, ok bool) {
	below, ok = strings.CutPrefix(path, supervisor+"/internal/")
	name, _, _ = strings.Cut(below, "/")
	return name, below, ok
}

// draw returns the whole page. It returns an error if imports between parts, or between rooms, are cyclic.
func draw(packages []pkg) (string, error) {
	parts, rooms, descriptions := graph{}, graph{}, map[string]string{}
	for _, p := range packages {
		own := parts.node(part(p.ImportPath))
		name, below, inRoom := room(p.ImportPath)
		if inRoom {
			rooms.node(name)
			descriptions[below] = strings.ReplaceAll(p.Doc, "|", `\|`)
		}
		for _, to := range p.Imports {
			if other := part(to); other != part(p.ImportPath) {
				own[other] = true
			}
			if other, _, ok := room(to); ok && inRoom && other != name {
				rooms[name][other] = true
			}
		}
	}
	partLevels, err := parts.levels()
	if err != nil {
		return "", err
	}
	roomLevels, err := rooms.levels()
	if err != nil {
		return "", fmt.Errorf("rooms of %s/internal: %w", supervisor, err)
	}
	var b strings.Builder
	b.WriteString("# Map\n\nThis page shows the imports between the parts of the repository, and between the rooms of the supervisor, with the\n" +
		"packages of each room. `make map` generates it from the code. `make check-map` fails if it is not current, or if imports\n" +
		"between rooms are cyclic. An arrow is an import. An import is omitted if a longer path of arrows leads to the same place.\n" +
		"\n## Parts\n\n")
	b.WriteString(mermaid(parts.reduced(), partLevels))
	b.WriteString("\n## Rooms of the supervisor\n\nA room is a folder in `services/supervisor/internal`.\n\n")
	b.WriteString(mermaid(rooms.reduced(), roomLevels))
	names := slices.Sorted(maps.Keys(descriptions))
	for _, name := range byLevel(roomLevels) {
		fmt.Fprintf(&b, "\n### %s\n\n| package | description |\n|---|---|\n", name)
		for _, below := range names {
			if below == name || strings.HasPrefix(below, name+"/") {
				fmt.Fprintf(&b, "| %s | %s |\n", below, descriptions[below])
			}
		}
	}
	return b.String(), nil
}
