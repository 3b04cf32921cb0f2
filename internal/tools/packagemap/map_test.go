package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// graphOf reads "a b c" as: a imports b and c.
func graphOf(lines ...string) graph {
	g := graph{}
	for _, line := range lines {
		words := strings.Fields(line)
		g.node(words[0])
		for _, to := range words[1:] {
			g.node(words[0])[to] = true
			g.node(to)
		}
	}
	return g
}

func (g graph) lines() string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(g)) {
		lines = append(lines, strings.Join(append([]string{name}, slices.Sorted(maps.Keys(g[name]))...), " "))
	}
	return strings.Join(lines, "; ")
}

func TestReduced_OmitsTransitiveImports(t *testing.T) {
	for name, c := range map[string]struct{ g, want string }{
		"a triangle":    {"a b c; b c", "a b; b c; c"},
		"a long way":    {"a b d; b c; c d", "a b; b c; c d; d"},
		"a diamond":     {"a b c d; b d; c d", "a b c; b d; c d; d"},
		"two ways only": {"a b; c b", "a b; b; c b"},
		"nothing":       {"a", "a"},
	} {
		if got := graphOf(strings.Split(c.g, ";")...).reduced().lines(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestLevels_AreAboveImports(t *testing.T) {
	level, err := graphOf("a b d", "b c", "e c").levels()
	if err != nil || !maps.Equal(level, map[string]int{"a": 2, "b": 1, "c": 0, "d": 0, "e": 1}) {
		t.Errorf("levels = %v, %v", level, err)
	}
	if got := strings.Join(byLevel(level), " "); got != "a b e c d" {
		t.Errorf("by level: %s", got)
	}
	if _, err := graphOf("a b", "b c", "c b").levels(); err == nil || !strings.Contains(err.Error(), "b → c → b") {
		t.Errorf("a circle: %v", err)
	}
}

const listed = `
{"ImportPath": "github.com/acphost/acphost/services/supervisor/internal/high/x", "Doc": "Package x | y.",
 "Imports": ["fmt", "github.com/acphost/acphost/services/supervisor/internal/low", "github.com/acphost/acphost/services/supervisor/internal/mid/a"]}
{"ImportPath": "github.com/acphost/acphost/services/supervisor/internal/mid/a", "Doc": "Package a is between.",
 "Imports": ["github.com/acphost/acphost/services/supervisor/internal/low", "github.com/acphost/acphost/services/supervisor/internal/mid/b",
  "github.com/acphost/acphost/sdk/handler"]}
{"ImportPath": "github.com/acphost/acphost/services/supervisor/internal/mid/b", "Doc": "Package b."}
{"ImportPath": "github.com/acphost/acphost/services/supervisor/internal/low", "Doc": ""}
{"ImportPath": "github.com/acphost/acphost/sdk/handler", "Doc": "Package handler.", "Imports": ["google.golang.org/grpc"]}
`

func TestPage_RejectsCyclesOfRooms(t *testing.T) {
	packages, err := parse(strings.NewReader(listed +
		`{"ImportPath": "github.com/acphost/acphost/services/supervisor/internal/low/z", "Imports": ["github.com/acphost/acphost/services/supervisor/internal/mid/b"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := draw(packages); err == nil || !strings.Contains(err.Error(), "low → mid → low") {
		t.Errorf("the error is %v", err)
	}
}

func TestPage_ShowsPartsAndRooms(t *testing.T) {
	packages, err := parse(strings.NewReader(listed))
	if err != nil {
		t.Fatal(err)
	}
	page, err := draw(packages)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"flowchart TD\n  n_services_supervisor[\"services/supervisor\"]\n  n_sdk[\"sdk\"]\n  n_services_supervisor --> n_sdk\n```\n",
		"flowchart TD\n  n_high[\"high\"]\n  n_mid[\"mid\"]\n  n_low[\"low\"]\n  n_high --> n_mid\n  n_mid --> n_low\n```\n",
		"| high/x | Package x \\| y. |\n\n### mid\n",
		"| mid/a | Package a is between. |\n| mid/b | Package b. |\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks\n%s\nit is\n%s", want, page)
		}
	}
	slices.Reverse(packages)
	if again, err := draw(packages); err != nil || again != page {
		t.Errorf("in another order the page is another one: %v", err)
	}
}
