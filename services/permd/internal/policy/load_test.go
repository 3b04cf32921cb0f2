package policy_test

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/services/permd/internal/policy"
)

func TestParse_RejectsInvalidFiles(t *testing.T) {
	tests := map[string]struct{ rules, want string }{
		"no version":                           {"rules: []", "r.yaml:1:1: version: missing: a rule file begins with \"version: 1\", and has its rules below \"rules:\""},
		"another version":                      {"version: 2", "r.yaml:1:10: version: expected 1, got 2"},
		"an empty file":                        {"", "r.yaml:1:1: version: missing: a rule file begins with \"version: 1\", and has its rules below \"rules:\""},
		"a name for a field that others use":   {"version: 1\nrules:\n- {name: a, path: [/x], effect: deny}", `r.yaml:3:4: rules[0].name: expected a known field, got "name" (did you mean "id"?)`},
		"a verdict for a field":                {"version: 1\nrules:\n- {id: a, path: [/x], Allow: true}", `r.yaml:3:23: rules[0].Allow: expected a known field, got "Allow" (did you mean "effect: allow"?)`},
		"a list of rules of another name":      {"version: 1\npermissions: []", `r.yaml:2:1: permissions: expected a known field, got "permissions" (did you mean "rules"?)`},
		"an effect that others use":            {"version: 1\nrules:\n- {id: a, path: [/x], effect: block}", `r.yaml:3:31: rules[0].effect: expected deny, ask or allow, got "block" (did you mean "deny"?)`},
		"an effect that is misspelt":           {"version: 1\nrules:\n- {id: a, path: [/x], effect: alow}", `r.yaml:3:31: rules[0].effect: expected deny, ask or allow, got "alow" (did you mean "allow"?)`},
		"a kind that is misspelt":              {"version: 1\nrules:\n- {id: a, on: [fs.raed], effect: deny}", `r.yaml:3:16: rules[0].on[0]: expected a pattern that some kind of action matches (fs.read, fs.write, fs.list), got "fs.raed" (did you mean "fs.read"?)`},
		"one kind without a list":              {"version: 1\nrules:\n- {id: a, on: fs.read, effect: deny}", `r.yaml:3:15: rules[0].on: expected a list of strings, got "fs.read" (a list of one is ["fs.read"])`},
		"an unknown field":                     {"version: 1\nrules:\n- {id: a, paths: [/x], effect: deny}", `r.yaml:3:11: rules[0].paths: expected a known field, got "paths" (did you mean "path"?)`},
		"a scalar for a list":                  {"version: 1\nrules:\n- {id: a, command: rm, effect: deny}", `r.yaml:3:20: rules[0].command: expected a list of strings, got "rm"`},
		"no id":                                {"version: 1\nrules:\n- {path: [/x], effect: deny}", "r.yaml:3:3: rules[0].id: expected a name, got none"},
		"an id twice":                          {"version: 1\nrules:\n- {id: a, path: [/x], effect: deny}\n# allow\n- {id: a, path: [/x], effect: allow}", `r.yaml:5:8: rules[1].id: expected a name of its own, got "a", which is that of rules[0] too`},
		"an id that is too long":               {"version: 1\nrules:\n- {id: " + strings.Repeat("x", 129) + ", path: [/x], effect: deny}", "rules[0].id: expected at most 128 characters, got 129"},
		"an id with a newline":                 {"version: 1\nrules:\n- {id: \"a\\nb\", path: [/x], effect: deny}", "rules[0].id: expected printable characters"},
		"an id of ours":                        {"version: 1\nrules:\n- {id: acphost/protected, path: [/x], effect: deny}", "rules[0].id: expected a name that does not begin with acphost/"},
		"a rule for everything":                {"version: 1\nrules:\n- {id: a, effect: allow}", "r.yaml:3:3: rules[0]: expected at least one condition (on, path, command, reads, writes, runs_code, network, redirect, host, contained, not_contained, agent, mode, tool, when), got none"},
		"not_grantable elsewhere":              {"version: 1\nrules:\n- {id: a, path: [/x], not_grantable: true, effect: allow}", "r.yaml:3:38: rules[0].not_grantable: expected only in ask rules"},
		"workspace_programs elsewhere":         {"version: 1\nrules:\n- {id: a, command: [x], workspace_programs: true, effect: deny}", "r.yaml:3:45: rules[0].workspace_programs: expected only in allow rules with command"},
		"workspace_programs without a command": {"version: 1\nrules:\n- {id: a, path: [/x], workspace_programs: true, effect: allow}", "rules[0].workspace_programs: expected only in allow rules with command"},
		"a reason that is a book":              {"version: 1\nrules:\n- {id: a, path: [/x], reason: " + strings.Repeat("x", 1001) + ", effect: deny}", "rules[0].reason: expected at most 1000 characters, got 1001"},
		"an empty kind":                        {"version: 1\nrules:\n- {id: a, on: [\"\"], effect: deny}", "rules[0].on[0]: expected a kind of action"},
		"a kind with a slip":                   {"version: 1\nrules:\n- {id: a, on: [fs.raed], effect: deny}", `r.yaml:3:16: rules[0].on[0]: expected a pattern that some kind of action matches (fs.read, fs.write, fs.list), got "fs.raed"`},
		"a kind with two stars":                {"version: 1\nrules:\n- {id: a, on: [\"**\"], effect: deny}", "rules[0].on[0]: expected single stars"},
		"a relative glob":                      {"version: 1\nrules:\n- {id: a, path: [ok/x], effect: deny}", `r.yaml:3:18: rules[0].path[0]: expected an absolute glob, or one with ${root} or ~ in front, got "ok/x"`},
		"an empty glob":                        {"version: 1\nrules:\n- {id: a, path: [\"\"], effect: deny}", "rules[0].path[0]: expected a glob, got nothing"},
		"a glob with dots":                     {"version: 1\nrules:\n- {id: a, path: [/a/../b], effect: deny}", `rules[0].path[0]: expected a glob without ".."`},
		"a glob with a slash more":             {"version: 1\nrules:\n- {id: a, path: [/a/], effect: deny}", "rules[0].path[0]: expected a glob without empty parts"},
		"a glob that is broken":                {"version: 1\nrules:\n- {id: a, path: [\"/a/[b\"], effect: deny}", "rules[0].path[0]: expected a well-formed glob"},
		"a glob with glued stars":              {"version: 1\nrules:\n- {id: a, path: [\"/a/b**\"], effect: deny}", "rules[0].path[0]: expected ** only as a part of its own"},
		"an unknown variable":                  {"version: 1\nrules:\n- {id: a, path: [\"${home}/x\"], effect: deny}", "rules[0].path[0]: expected an absolute glob"},
		"a root in the middle":                 {"version: 1\nrules:\n- {id: a, path: [\"/x/${root}\"], effect: deny}", "rules[0].path[0]: expected ${root} only in front"},
		"a root with letters on":               {"version: 1\nrules:\n- {id: a, path: [\"${root}x\"], effect: deny}", "rules[0].path[0]: expected an absolute glob"},
		"another person's home":                {"version: 1\nrules:\n- {id: a, path: [\"~root/x\"], effect: deny}", "rules[0].path[0]: expected an absolute glob"},
		"an access that there is not":          {"version: 1\nrules:\n- {id: a, path: [/x], access: reads, effect: deny}", `rules[0].access: expected read or write, got "reads" (did you mean "read"?)`},
		"an access without a path":             {"version: 1\nrules:\n- {id: a, command: [x], access: read, effect: deny}", "rules[0]: expected access, unless_public, holds_private_key and unless_committed only in deny and ask rules with path"},
		"an access that is allowed":            {"version: 1\nrules:\n- {id: a, path: [/x], access: read, effect: allow}", "rules[0]: expected access, unless_public, holds_private_key and unless_committed only in deny and ask rules with path"},
		"public files that are allowed":        {"version: 1\nrules:\n- {id: a, path: [/x], unless_public: true, effect: allow}", "rules[0]: expected access, unless_public, holds_private_key and unless_committed only in deny and ask rules with path"},
		"an exception in an allow rule":        {"version: 1\nrules:\n- {id: a, path: [/x, \"!/y\"], effect: allow}", "rules[0].path[1]: expected a glob with ! only in deny and ask rules"},
		"nothing but an exception":             {"version: 1\nrules:\n- {id: a, path: [\"!/y\"], effect: deny}", "rules[0].path: expected a glob without !"},
		"an exception that is relative":        {"version: 1\nrules:\n- {id: a, path: [/x, \"!y\"], effect: deny}", "rules[0].path[1]: expected an absolute glob"},
		"an empty command":                     {"version: 1\nrules:\n- {id: a, command: [\" \"], effect: deny}", "rules[0].command[0]: expected 1 to 256 words, got 0"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := policy.Parse("r.yaml", []byte(tt.rules), policy.Surroundings{Home: "/home/u"})
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "r.yaml:") {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestParse_ReportsEveryMistake(t *testing.T) {
	_, err := policy.Parse("r.yaml", []byte("version: 3\nrules: [{id: a, path: [x, y], effect: deny},\n{effect: allow}]"), policy.Surroundings{})
	if err == nil || strings.Count(err.Error(), "\n") != 4 {
		t.Errorf("got %v; want 5 errors", err)
	}
}

func TestParse_RejectsUnknownHome(t *testing.T) {
	for name, rules := range map[string]string{
		"a glob":                      "version: 1\nrules: [{id: a, path: [~/x], effect: deny}]",
		"the path of a test":          "version: 1\nrules: [{id: a, path: [/x], effect: deny, tests: {match: [{path: ~/x}]}}]",
		"the resolved path of a test": "version: 1\nrules: [{id: a, path: [/x], effect: deny, tests: {match: [{path: /x, resolved_path: ~/x}]}}]",
	} {
		_, err := policy.Parse("r.yaml", []byte(rules), policy.Surroundings{})
		if err == nil || !strings.Contains(err.Error(), `, since the home directory is not known (set HOME), got "~/x"`) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestParse_RejectsLongFiles(t *testing.T) {
	_, err := policy.Parse("r.yaml", []byte(strings.Repeat("#", 1<<20+1)), policy.Surroundings{})
	if err == nil || !strings.Contains(err.Error(), "expected at most 1048576 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestParse_ReadsFile(t *testing.T) {
	p, err := policy.Parse("r.yaml", []byte("version: 1\nrules: [{id: a, on: ['fs.*'], effect: allow}]"), policy.Surroundings{})
	if err != nil || p.Rules() != 1 {
		t.Fatalf("got %v, %v", p, err)
	}
	got := decide(p, about("fs.read", path("/x")))
	if got.GetVerdict() != allow || len(got.GetPolicyDigest()) != len("sha256:")+64 {
		t.Errorf("got %v", got)
	}
}

func TestNone_RejectsRelativeProtectedPath(t *testing.T) {
	if _, err := policy.None(policy.Surroundings{Protected: []string{"x"}}); err == nil {
		t.Error("no error")
	}
}
