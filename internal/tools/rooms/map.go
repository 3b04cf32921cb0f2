package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// graph is who imports whom, by names.
type graph map[string]map[string]bool

func (g graph) node(name string) map[string]bool {
	if g[name] == nil {
		g[name] = map[string]bool{}
	}
	return g[name]
}

// levels are the nodes by level: one level above the highest of those that a node imports, or 0. An error names a circle.
func (g graph) levels() (map[string]int, error) {
	level := map[string]int{}
	var visit func(name string, path []string) error
	visit = func(name string, path []string) error {
		if _, done := level[name]; done {
			return nil
		}
		if i := slices.Index(path, name); i >= 0 {
			return fmt.Errorf("imports go in a circle: %s", strings.Join(append(path[i:], name), " → "))
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

// reduced is g without the arrows that a longer way makes superfluous. g has no circles.
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

// id is a name as Mermaid takes it, which gives some words and characters a meaning of their own.
func id(name string) string { return "n_" + strings.NewReplacer("/", "_", "-", "_").Replace(name) }

// byLevel are the names, the highest level first, and by name within a level.
func byLevel(level map[string]int) []string {
	names := slices.Sorted(maps.Keys(level))
	slices.SortStableFunc(names, func(a, b string) int { return level[b] - level[a] })
	return names
}

// draw is the whole page.
func draw(packages []pkg) (string, error) {
	modules, rooms, does := graph{}, graph{}, map[string]string{}
	moduleOf := map[string]string{}
	for _, p := range packages {
		moduleOf[p.ImportPath] = p.Module.Path
	}
	room := func(path string) (name string, ok bool) {
		name, ok = strings.CutPrefix(path, supervisor+"/")
		return strings.TrimPrefix(name, "internal/"), ok
	}
	for _, p := range packages {
		imports := modules.node(p.Module.Path)
		name, inSupervisor := room(p.ImportPath)
		if inSupervisor {
			rooms.node(name)
			does[name] = p.Doc
		}
		for _, to := range p.Imports {
			if module := moduleOf[to]; module != p.Module.Path {
				imports[module] = true
			}
			if other, ok := room(to); ok && inSupervisor {
				rooms[name][other] = true
			}
		}
	}
	moduleLevels, err := modules.levels()
	if err != nil {
		return "", err
	}
	roomLevels, err := rooms.levels()
	if err != nil {
		return "", err
	}
	rooms = rooms.reduced()
	var b strings.Builder
	b.WriteString("# Map\n\nDrawn from the code by `make map`; `make check-map` fails where it is not current. An arrow is an import. An import is\n" +
		"left out where another path of arrows leads to the same place. A level is one above the highest that it imports.\n\n## Modules\n\n")
	b.WriteString(mermaid(modules.reduced(), moduleLevels))
	b.WriteString("\n## Packages of the supervisor\n\n")
	b.WriteString(mermaid(rooms, roomLevels))
	b.WriteString("\n| level | package | imports | is |\n|---|---|---|---|\n")
	for _, name := range byLevel(roomLevels) {
		to := strings.Join(slices.Sorted(maps.Keys(rooms[name])), ", ")
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", roomLevels[name], name, to, strings.ReplaceAll(does[name], "|", `\|`))
	}
	return b.String(), nil
}
