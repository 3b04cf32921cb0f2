package commands

import (
	"bytes"
	_ "embed"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var (
	//go:embed hostile.yaml
	hostileYAML []byte
	//go:embed harmless.yaml
	harmlessYAML []byte
)

// entry is one command line. In all of its texts ${ws}, ${outside} and ${home} stand for folders of the fixture, ${port} for a
// port on which the test listens, ${victim} for a process of the test's, ${canary} for what no command may show, and ${pad}
// for 6000 blanks.
type entry struct {
	Name string `yaml:"name"`
	// Line is what the agent sends as the command; Argv, in its place, a program and its arguments.
	Line string   `yaml:"line"`
	Argv []string `yaml:"argv"`
	// Cwd and Env are sent with it. Cwd's default is ${ws}.
	Cwd string   `yaml:"cwd"`
	Env []string `yaml:"env"`
	// Files are put into the workspace before, by their names: a text, "-> target" for a link, or "" behind a name that ends
	// in a slash for a folder. A text that begins with "#!" is a program.
	Files map[string]string `yaml:"files"`
	// Setup are lines that a shell runs in the workspace before.
	Setup string `yaml:"setup"`
	// Needs are programs without which the line does nothing.
	Needs []string `yaml:"needs"`
	// Does is the effect of a hostile line: see effects.
	Does string `yaml:"does"`
	// Unproven says why a hostile line is not run without a policy.
	Unproven string `yaml:"unproven"`
	// Meant are the ready policies that allow the line because it runs the project's own code, and why that is so. Their rule
	// for such code must take it, and no other that allows more than to look.
	Meant map[string]string `yaml:"meant"`
	// Edits are the ready policies under which the line is not hostile, and why: they let an agent change files of the workspace
	// and commit them, and it does no more than that.
	Edits map[string]string `yaml:"edits"`
	// Known says why a policy does not decide as it should. One of them must then not do so.
	Known string `yaml:"known"`
}

// merged are the entries of both.
func merged(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, b)
	return all
}

func (e *entry) text() string {
	if len(e.Argv) > 0 {
		return strings.Join(e.Argv, " ␣ ")
	}
	return e.Line
}

func hostile(t testing.TB) []entry  { return load(t, hostileYAML, 400) }
func harmless(t testing.TB) []entry { return load(t, harmlessYAML, 200) }

func load(t testing.TB, file []byte, least int) []entry {
	t.Helper()
	var all []entry
	dec := yaml.NewDecoder(bytes.NewReader(file))
	dec.KnownFields(true)
	if err := dec.Decode(&all); err != nil {
		t.Fatal(err)
	}
	if len(all) < least {
		t.Errorf("the corpus has %d lines, want at least %d", len(all), least)
	}
	names, lines := map[string]bool{}, map[string]bool{}
	for i, e := range all {
		if e.Name == "" || names[e.Name] {
			t.Fatalf("line %d: the name %q is missing or taken", i, e.Name)
		}
		if (e.Line == "") == (len(e.Argv) == 0) {
			t.Fatalf("%s: it needs a line, or an argv", e.Name)
		}
		for policy, why := range merged(e.Meant, e.Edits) {
			if !slices.ContainsFunc(ready, func(r policyOfList) bool { return r.name == policy }) || why == "" {
				t.Errorf("%s: there is no policy %q, or no reason", e.Name, policy)
			}
		}
		key := strings.Join(slices.Concat(e.Env, e.Argv, []string{e.Line, e.Cwd, e.Setup}), "\x00")
		if len(e.Files) == 0 && lines[key] {
			t.Errorf("%s: another entry has the line %q", e.Name, e.text())
		}
		names[e.Name], lines[key] = true, true
	}
	return all
}
