package policy

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/reuse"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// reading is a call that reads a file of the workspace /w.
func reading(asked, resolved string) *permissionv1.Action {
	return &permissionv1.Action{Kind: "fs.read", Agent: "agent", Mode: "code", Method: "fs/read_text_file", Door: permissionv1.Door_DOOR_CALL,
		Roots: []string{"/w"}, ResolvedRoots: []string{"/w"},
		Paths: []*permissionv1.PathAccess{{Path: asked, ResolvedPath: resolved, Access: permissionv1.Access_ACCESS_READ, InsideRoots: true}}}
}

// changing is a process that changes a file of the workspace /w.
func changing(asked, resolved string) *permissionv1.Action {
	a := reading(asked, resolved)
	a.Kind, a.Method, a.Door = "fs.write", "", permissionv1.Door_DOOR_KERNEL
	a.Paths[0].Access = permissionv1.Access_ACCESS_WRITE
	return a
}

func parsed(t *testing.T, rules string) []Part {
	t.Helper()
	p, err := Parse("rules", []byte("version: 1\nrules:\n"+rules), Surroundings{Home: "/home/u", Protected: []string{"/w/.state/audit.jsonl", "/h/keys"}})
	if err != nil {
		t.Fatal(err)
	}
	return []Part{{Policy: p, Name: "rules", Layer: permissionv1.Layer_LAYER_USER}}
}

const readsAll = "  - {id: all, effect: allow, on: [fs.read, fs.write], path: [\"${root}/**\"]}\n"

func TestReuse_ExceptedNames(t *testing.T) {
	for name, tt := range map[string]struct {
		rules, file string
		want        string // the excepted, or "-": it holds for its action alone
	}{
		"no other rule":                   {readsAll, "/w/src/a.go", ""},
		"the root itself":                 {readsAll, "/w/a.go", ""},
		"names that are denied":           {readsAll + deny1(`"**/.env*", "**/id_rsa", "**/*.{pem,KEY}"`), "/w/src/a.go", ".env .key .pem id_rsa"},
		"a folder that is denied":         {readsAll + deny1(`"**/secret/**"`), "/w/src/a.go", "secret"},
		"a file of another folder":        {readsAll + deny1(`"/w/other/x", "~/.ssh/**", "${root}/lib/**"`), "/w/src/a.go", ""},
		"a file of the same folder":       {readsAll + deny1(`"${root}/src/Secret.txt"`), "/w/src/a.go", "secret.txt"},
		"any name is denied elsewhere":    {readsAll + deny1(`"/h/**"`), "/w/src/a.go", ""},
		"a class of characters":           {readsAll + deny1(`"**/[.]env"`), "/w/src/a.go", "-"},
		"one character that may be any":   {readsAll + deny1(`"**/?"`), "/w/src/ab.go", "-"},
		"any name of a letter":            {readsAll + deny1(`"**/*z*"`), "/w/src/ab.go", "z"},
		"the name itself is excepted":     {readsAll + deny1(`"**/a.go/**", "**/x.*.go"`), "/w/src/my-a.go", "-"},
		"a slash between braces":          {readsAll + deny1(`"/w/src/{x,y/z}"`), "/w/src/ab.go", "x"},
		"of another kind":                 {readsAll + "  - {id: d, effect: deny, on: [fs.write], when: \"action.mode == 'x'\"}\n", "/w/src/a.go", ""},
		"a condition":                     {readsAll + "  - {id: d, effect: deny, when: \"action.mode == 'x'\"}\n", "/w/src/a.go", "-"},
		"a condition, elsewhere":          {readsAll + "  - {id: d, effect: deny, path: [\"/h/**\"], when: \"action.mode == 'x'\"}\n", "/w/src/a.go", ""},
		"a condition, with names":         {readsAll + "  - {id: d, effect: deny, path: [\"**/x\"], when: \"action.mode == 'x'\"}\n", "/w/src/a.go", "-"},
		"it allows on a condition":        {"  - {id: all, effect: allow, on: [fs.read], when: \"action.paths.all(p, p.path != '/w/src/b')\"}\n", "/w/src/a.go", "-"},
		"of another agent":                {readsAll + "  - {id: d, effect: deny, agent: [other], on: [fs.read], path: [\"**/a*\"]}\n", "/w/src/x.go", ""},
		"for commands":                    {readsAll + "  - {id: d, effect: deny, command: [cat], path: [\"**\"]}\n  - {id: e, effect: ask, reads: [\"**\"]}\n", "/w/src/a.go", ""},
		"it allows some names":            {"  - {id: go, effect: allow, on: [fs.read], path: [\"**/*.go\"]}\n", "/w/src/a.go", "-"},
		"another allows some names first": {"  - {id: go, effect: allow, on: [fs.read], path: [\"**/*.go\"]}\n" + readsAll, "/w/src/a.txt", ".go"},
		"it allows all that a folder has": {"  - {id: go, effect: allow, on: [fs.read], path: [\"${root}/src/*\"]}\n", "/w/src/a.txt", ""},
		"acphost's own files":             {readsAll, "/w/.state/x", "audit.jsonl"},
		"below acphost's own file":        {readsAll, "/w/.state/audit.jsonl.1", "-"},
		"it names the place":              {"  - {id: w, effect: allow, path: [\"/w/**\"]}\n", "/w/src/a.txt", ""},
		"it names some of the place":      {"  - {id: w, effect: allow, path: [\"/w/src/a*\", \"**\"]}\n", "/w/src/x.txt", "-"},
		"nothing allows it":               {deny1(`"/x"`), "/w/src/a.txt", "-"},
		"a name that is not plain":        {readsAll, "/w/src/ä", "-"},
		"a root of the file system":       {"  - {id: w, effect: allow, path: [\"/**\"]}\n", "/a.txt", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			parts, a := parsed(t, tt.rules), reading(tt.file, tt.file)
			r := Reusable(parts, a, Decide(parts, a))
			got := "-"
			if r != nil {
				got = strings.Join(r.GetExcept(), " ")
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func deny1(globs string) string { return "  - {id: secrets, effect: deny, path: [" + globs + "]}\n" }

func TestReuse_LinkCoversBothSpellings(t *testing.T) {
	parts := parsed(t, readsAll+deny1(`"${root}/real/hidden*", "${root}/link/odd"`))
	a := reading("/w/link/a", "/w/real/a")
	r := Reusable(parts, a, Decide(parts, a))
	if got := strings.Join(r.GetExcept(), " "); r == nil || got != "hidden odd" {
		t.Errorf("got %v, want hidden and odd", r)
	}
	a = reading("/w/link/a", "/w/real/b")
	if r := Reusable(parts, a, Decide(parts, a)); r != nil {
		t.Errorf("a link to a file of another name: %v", r)
	}
}

// TestReuse_HoldsForEveryCoveredName decides about random files under random rules, and then about every other name
// that the decision covers.
func TestReuse_HoldsForEveryCoveredName(t *testing.T) {
	segments := []string{"src", "a", "b.go", ".env", "secret", "*", "**", "*.go", ".e*", "?", "x{a,b}", "{a,.env}", "{a,src/b,x/**}", "{lib,src/*.go}/a", "se*t", "S*", "[a-c]", "lib", "a b", `\*`}
	fronts := []string{"${root}/", "**/", "/w/", "/w/src/", "/", "~/", "/w/**/"}
	names := []string{"a", "b", "c", "a.go", "b.go", "B.GO", ".env", ".ENV", ".e", "secret", "Secret", "set", "x", "xa", "xb", "lib", "src", "a b", "S", "s", "*", "A", "z.txt"}
	effects := []string{"deny", "ask", "allow", "allow"}
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(from []string) string { return from[random.IntN(len(from))] }
	kinds := []func(asked, resolved string) *permissionv1.Action{reading, changing}
	var held [2]int
	for i := range 12000 {
		kind := i % len(kinds)
		action := kinds[kind]
		var rules strings.Builder
		rules.WriteString("version: 1\nrules:\n")
		for i := range 1 + random.IntN(4) {
			glob := pick(fronts) + pick(segments)
			for range random.IntN(3) {
				glob += "/" + pick(segments)
			}
			on := pick([]string{"", ", on: [fs.read]", ", on: [fs.write]", ", mode: [plan]", ", agent: [agent]"})
			fmt.Fprintf(&rules, "  - {id: r%d, effect: %s, path: ['%s']%s}\n", i, pick(effects), glob, on)
		}
		if random.IntN(2) == 0 {
			rules.WriteString(readsAll)
		}
		p, err := Parse("rules", []byte(rules.String()), Surroundings{Home: "/w", Protected: []string{"/w/src/secret"}})
		if err != nil {
			continue // two stars where they may not be
		}
		parts := []Part{{Policy: p, Layer: permissionv1.Layer_LAYER_USER}}
		asked := path.Join("/w", pick([]string{"", "src", "a", "src/a", "src/lib"}))
		resolved := asked
		if random.IntN(4) == 0 {
			resolved = path.Join("/w", pick([]string{"", "src", "lib", "SRC", "secret"}))
		}
		name := pick(names)
		a := action(path.Join(asked, name), path.Join(resolved, name))
		decision := Decide(parts, a)
		r := Reusable(parts, a, decision)
		if r == nil {
			continue
		}
		for _, other := range names {
			b := action(path.Join(asked, other), path.Join(resolved, other))
			if _, plain := reuse.Name(b); !plain || reuse.Excepted(other, r.GetExcept()) {
				continue
			}
			held[kind]++
			if reuse.Key(a) != reuse.Key(b) {
				t.Fatalf("%s and %s have other keys", name, other)
			}
			d := Decide(parts, b)
			if d.GetVerdict() != decision.GetVerdict() || d.GetRule() != decision.GetRule() || d.GetReason() != decision.GetReason() ||
				d.GetNamesPaths() != decision.GetNamesPaths() || d.GetPolicyDigest() != decision.GetPolicyDigest() || len(d.GetLeaveOut()) > 0 {
				t.Fatalf("%s%s (%s) is decided as %v, except %q, and %s as %v", rules.String(), a.GetPaths()[0].GetPath(),
					a.GetPaths()[0].GetResolvedPath(), decision, r.GetExcept(), other, d)
			}
		}
	}
	if held[0] < 1000 || held[1] < 1000 {
		t.Errorf("only %d names of files that are read, and of files that are changed, were held to an answer", held)
	}
	t.Log(held, "names")
}
