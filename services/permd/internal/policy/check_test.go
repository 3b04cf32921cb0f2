package policy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/permd/internal/policy"
	"github.com/acphost/acphost/services/permd/internal/ready"
)

// findings returns the findings of Check, one per line: severity, position, rule and message.
func findings(t *testing.T, rules string) []string {
	t.Helper()
	var all []string
	for _, f := range policy.Check("r.yaml", []byte(rules), policy.Surroundings{Home: "/home/u"}).GetFindings() {
		severity := strings.ToLower(strings.TrimPrefix(f.GetSeverity().String(), "SEVERITY_"))
		all = append(all, fmt.Sprintf("%s %d:%d %s: %s", severity, f.GetLine(), f.GetColumn(), f.GetRule(), f.GetMessage()))
	}
	return all
}

func TestCheck_ReportsMistakesWithPlaceAndRule(t *testing.T) {
	for name, tt := range map[string]struct {
		rules string
		want  []string
	}{
		"no YAML":            {"version: [", []string{"error 1:1 : "}},
		"bytes that are not": {"version: 1\n\xff", []string{"error 2:1 : expected text in UTF-8"}},
		"unknown fields":     {"version: 1\nrules:\n- {id: a, pth: [/x], effect: deny}\n- {id: 7, effect: ask}\n", []string{"error 3:11 a: rules[0].pth: expected a known field", "error 4:8 : rules[1].id: expected a string"}},
		"several": {"version: 1\nrules:\n- {id: a, path: [x, /y], effect: deny}\n- {id: b, effect: allow}\n- id: c\n  effect: deny\n  when: action.knd == ''\n",
			[]string{"error 3:18 a: rules[0].path[0]: expected an absolute glob", "error 4:3 b: rules[1]: expected at least one condition", "error 7:15 c: rules[2].when: undefined field 'knd'"}},
		"a test that fails": {"version: 1\nrules:\n- id: a\n  effect: allow\n  command: [ls]\n  tests:\n    not_match:\n    - command: ls\n    match:\n    - command: rm x\n",
			[]string{"error 8:7 a: rules[0].tests.not_match[0]: expected that rule a does not match, and it does: command[0] `ls` matches",
				"error 10:7 a: rules[0].tests.match[0]: expected that rule a matches, and it does not: `rm x` begins with none of its commands"}},
		"too much": {strings.Repeat("#", 1<<20+1), []string{"error 1:1 : expected at most 1048576 bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := findings(t, tt.rules)
			if len(got) != len(tt.want) {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tt.want[i]) {
					t.Errorf("got  %s\nwant %s", got[i], tt.want[i])
				}
			}
		})
	}
}

func TestCheck_CountsRulesAndTests(t *testing.T) {
	rules := "version: 1\nrules:\n- id: a\n  effect: allow\n  command: [ls]\n  tests:\n    match: [{command: ls}, {command: ls -l}]\n    not_match: [{command: rm x}]\n- {id: b, effect: deny, command: [rm], tests: {match: [{command: rm x}]}}\n"
	got := policy.Check("r.yaml", []byte(rules), policy.Surroundings{})
	if len(got.GetFindings()) != 0 || got.GetRules() != 2 || got.GetTests() != 4 {
		t.Errorf("got %v, want 2 rules, 4 tests and no findings", got)
	}
	if p := parse(t, rules); got.GetPolicyDigest() != p.Digest() {
		t.Errorf("got the digest %s, want %s", got.GetPolicyDigest(), p.Digest())
	}
	got = policy.Check("r.yaml", []byte(strings.Replace(rules, "rm x}]}}", "ls}]}}", 1)), policy.Surroundings{})
	if len(got.GetFindings()) != 1 || got.GetRules() != 2 || got.GetTests() != 4 || got.GetPolicyDigest() != "" {
		t.Errorf("one that does not load: got %v", got)
	}
}

func TestCheck_WarnsOfIneffectiveRules(t *testing.T) {
	const nothing = ""
	for name, tt := range map[string]struct{ rules, want string }{
		"twice the same":                                       {"{id: a, effect: deny, command: [rm]}|{id: b, effect: deny, command: [rm]}", "4:3 b: this rule makes no difference: rule a (deny, line 3) matches whatever it matches, and already does the same"},
		"an allowed command that is denied":                    {"{id: a, effect: allow, command: [git push]}|{id: b, effect: deny, command: [git]}", "3:3 a: this rule makes no difference: rule b (deny, line 4) matches whatever it matches, and always wins"},
		"an allowed command that is asked about":               {"{id: a, effect: ask, command: ['git *']}|{id: b, effect: allow, command: [git push]}", "4:3 b: this rule makes no difference: rule a (ask, line 3)"},
		"one of two commands denied":                           {"{id: a, effect: allow, command: [git push, ls]}|{id: b, effect: deny, command: [git]}", "3:36 a: `git push` has no effect here: it is always denied by rule b (line 4)"},
		"a command with unknown effects":                       {"{id: a, effect: allow, command: [ls, make test]}|{id: b, effect: deny, network: true}", "3:40 a: `make test` has no effect here: it is always asked about, since it is not known whether it does what rule b (deny, line 4) is about"},
		"an allowed command without a network":                 {"{id: a, effect: allow, command: [ls, git fetch]}|{id: b, effect: deny, network: true}", "3:40 a: `git fetch` has no effect here: it is always denied by rule b (line 4)"},
		"a deny rule beside unknown commands":                  {"{id: a, effect: deny, command: [touch]}|{id: b, effect: allow, command: [ls, python3]}", "3:3 a: this rule cannot hold: rule b (allow, line 4) allows commands of which it is not known what they run"},
		"a deny rule beside unknown commands of another agent": {"{id: a, effect: deny, command: [touch], agent: [x]}|{id: b, effect: allow, command: [python3], agent: [y]}", nothing},
		"a deny rule beside commands that are known":           {"{id: a, effect: deny, command: [touch]}|{id: b, effect: allow, command: [ls, make test]}", nothing},
		"a kind that does not exist":                           {"{id: a, effect: deny, on: [fs.write, write]}", "3:40 a: no action has the kind \"write\", so that this never matches"},
		"a narrower command denied":                            {"{id: a, effect: allow, command: [git]}|{id: b, effect: deny, command: [git push]}", nothing},
		"a narrower command asked about":                       {"{id: a, effect: ask, command: [rm]}|{id: b, effect: deny, command: [rm -rf]}", nothing},
		"a wider kind":                                         {"{id: a, effect: deny, on: ['fs.*']}|{id: b, effect: allow, on: [fs.read, fs.list]}", "4:3 b: this rule makes no difference"},
		"another kind":                                         {"{id: a, effect: deny, on: [fs.write]}|{id: b, effect: allow, on: ['fs.*']}", nothing},
		"every kind":                                           {"{id: a, effect: deny, path: ['/x/**']}|{id: b, effect: allow, on: [fs.read], path: [/x/y]}", "4:3 b: this rule makes no difference"},
		"a wider path":                                         {"{id: a, effect: deny, path: ['${root}/**']}|{id: b, effect: allow, path: ['${root}/src/*.go']}", "4:3 b: this rule makes no difference"},
		"a path beside it":                                     {"{id: a, effect: deny, path: ['/x/**']}|{id: b, effect: allow, path: ['/x/y', '/z']}", "4:33 b: `/x/y` has no effect here: it is always denied by rule a (line 3)"},
		"a path with the same beginning":                       {"{id: a, effect: deny, path: ['/x/**']}|{id: b, effect: allow, path: ['/xy']}", nothing},
		"any path":                                             {"{id: a, effect: deny, path: ['/x/**']}|{id: b, effect: allow, on: [fs.read]}", nothing},
		"another agent's":                                      {"{id: a, effect: deny, on: [fs.read], agent: [x]}|{id: b, effect: allow, on: [fs.read]}", nothing},
		"every agent's":                                        {"{id: a, effect: deny, on: [fs.read], agent: ['x*']}|{id: b, effect: allow, on: [fs.read], agent: [xy]}", "4:3 b: this rule makes no difference"},
		"another mode's":                                       {"{id: a, effect: deny, on: [fs.read], mode: [x]}|{id: b, effect: allow, on: [fs.read], mode: [y]}", nothing},
		"under a condition":                                    {"{id: a, effect: deny, on: [fs.read], when: 'false'}|{id: b, effect: allow, on: [fs.read]}", nothing},
		"under the same condition":                             {"{id: a, effect: deny, on: [fs.read], when: 'action.done'}|{id: b, effect: allow, on: [fs.read], when: 'action.done'}", "4:3 b: this rule makes no difference"},
		"under the same condition, commands not meant":         {"{id: a, effect: allow, when: 'action.done'}|{id: b, effect: allow, when: 'action.done', command: [ls]}", nothing},
		"without redirections":                                 {"{id: a, effect: deny, command: [ls], redirect: none}|{id: b, effect: allow, command: [ls], redirect: any, path: ['/x/**']}", nothing},
		"a looking command of the workspace":                   {"{id: a, effect: allow, command: [make, ls], workspace_programs: true}", "3:42 a: workspace_programs lets a program of the workspace that is named like the command `ls`"},
		"a rule that takes the workspace's too":                {"{id: a, effect: allow, command: [make test], workspace_programs: true}|{id: b, effect: allow, command: [make]}", ""},
		"an ask that a grant does not satisfy":                 {"{id: a, effect: ask, command: [ls]}|{id: b, effect: ask, command: [ls], not_grantable: true}", "3:3 a: this rule makes no difference: rule b (ask, line 4)"},
		"an allowed danger beside the program":                 {"{id: a, effect: allow, command: [sort]}|{id: b, effect: allow, command: [sort -o]}", nothing},
		"an allowed command twice":                             {"{id: a, effect: allow, command: [git]}|{id: b, effect: allow, command: [git status]}", "4:3 b: this rule makes no difference: rule a (allow, line 3) matches whatever it matches, and already does the same"},
		"a redirection that is allowed beside it":              {"{id: a, effect: allow, command: [ls]}|{id: b, effect: allow, command: [ls], redirect: any, path: ['/x/**']}", nothing},

		"a path alone for commands":             {"{id: a, effect: allow, on: [terminal.create, tool.execute], path: ['${root}/**']}", "3:69 a: this rule never matches: path alone does not allow an action that runs a command"},
		"a path alone for more than commands":   {"{id: a, effect: allow, on: ['tool.*'], path: ['${root}/**']}", nothing},
		"a path alone for commands, denied":     {"{id: a, effect: deny, on: [terminal.create], path: ['${root}/**']}", nothing},
		"a command for reads":                   {"{id: a, effect: deny, on: [fs.read, tool.think], command: [rm]}", "3:61 a: this rule never matches: no action of the kinds in on runs a command"},
		"a command for an extension":            {"{id: a, effect: deny, on: [_acme.com/run], command: [rm]}", nothing},
		"redirect: any without a path":          {"{id: a, effect: allow, command: [ls], redirect: any}", "3:51 a: redirect: any changes nothing without path"},
		"redirect: any of a deny rule":          {"{id: a, effect: deny, command: [ls], redirect: any}", "3:50 a: redirect: any changes nothing here"},
		"a line as a command":                   {"{id: a, effect: allow, command: [npm run test && npm run lint]}", "3:36 a: `npm run test && npm run lint` never matches: a line is taken apart before rules see it, into one command each; write [\"npm run test\" \"npm run lint\"]"},
		"an end of a line":                      {"{id: a, effect: allow, command: ['ls;']}", "3:36 a: `ls;` never matches"},
		"a redirection as a command":            {"{id: a, effect: allow, command: ['ls > x']}", "3:36 a: `ls > x` never matches: redirections are no words of a command; write `ls`, with redirect: any"},
		"quotes in a command":                   {"{id: a, effect: allow, command: ['git commit -m \"x y\"']}", "3:36 a: `git commit -m \"x y\"` never matches: quotes"},
		"quotes that do not end":                {"{id: a, effect: allow, command: ['echo \"x']}", "3:36 a: `echo \"x` never matches"},
		"a variable in a command":               {"{id: a, effect: allow, command: [ls $HOME]}", "3:36 a: `ls $HOME` hardly ever matches"},
		"a substitution in a command":           {"{id: a, effect: allow, command: ['ls `pwd`']}", "3:36 a: `ls `pwd`` never matches"},
		"a pattern in a command":                {"{id: a, effect: allow, command: ['rm *.o']}", "3:36 a: `rm *.o` hardly ever matches"},
		"any one word in a command":             {"{id: a, effect: allow, command: ['npm * x']}", nothing},
		"a word with a tilde":                   {"{id: a, effect: allow, command: [git show HEAD~1]}", nothing},
		"a variable in front":                   {"{id: a, effect: allow, command: [FOO=1 make]}", "3:36 a: `FOO=1 make` never matches: variables in front are no words of a command; write `make`"},
		"a shell in front":                      {"{id: a, effect: allow, command: [sh -c ls]}", "3:36 a: `sh -c ls` never matches: sh -c is taken off"},
		"a shell in front, denied":              {"{id: a, effect: deny, command: [sh -c ls]}", nothing},
		"env in front":                          {"{id: a, effect: allow, command: [env X=1 make]}", "3:36 a: `env X=1 make` never matches"},
		"time in front":                         {"{id: a, effect: allow, command: [time make]}", "3:36 a: `time make` never matches"},
		"env alone":                             {"{id: a, effect: allow, command: [env]}", nothing},
		"su":                                    {"{id: a, effect: deny, command: [su, ssh]}", nothing},
		"reads of files that agents read":       {"{id: a, effect: deny, on: [fs.read], reads: ['**/x']}", "3:29 a: this rule never matches: reads, writes, runs_code and network are about commands"},
		"reads of commands":                     {"{id: a, effect: allow, on: [tool.execute], reads: ['**/x']}", nothing},
		"commands that may write":               {"{id: a, effect: allow, runs_code: false}", "3:3 a: this rule allows commands that write any file"},
		"every command":                         {"{id: a, effect: allow, on: [terminal.create]}", "3:3 a: this rule allows every command, with options that run or write something else included: name commands"},
		"every command by a pattern":            {"{id: a, effect: allow, on: ['*.*']}", "3:3 a: this rule allows every command"},
		"every command of an agent":             {"{id: a, effect: allow, agent: [x]}", "3:3 a: this rule allows every command"},
		"every command under a condition":       {"{id: a, effect: allow, on: [terminal.create], when: 'action.done'}", nothing},
		"every command is asked about":          {"{id: a, effect: ask, on: [terminal.create]}", nothing},
		"a change of mode":                      {"{id: a, effect: allow, on: [tool.switch_mode]}", "3:30 a: this rule never counts: a change of mode is always for a person to decide"},
		"every tool, a change of mode included": {"{id: a, effect: ask, on: ['tool.*']}", nothing},
	} {
		t.Run(name, func(t *testing.T) {
			got := findings(t, "version: 1\nrules:\n- "+strings.ReplaceAll(tt.rules, "|", "\n- ")+"\n")
			switch {
			case tt.want == nothing && len(got) > 0:
				t.Errorf("got %q", got)
			case tt.want != nothing && (len(got) != 1 || !strings.HasPrefix(got[0], "warning "+tt.want)):
				t.Errorf("got  %q\nwant %q", got, "warning "+tt.want)
			}
		})
	}
}

func TestCheck_WarnsOfAllowedUnseenCommands(t *testing.T) {
	got := findings(t, "version: 1\nunattended: allow\nrules: [{id: a, effect: ask, command: [rm]}]")
	if len(got) != 1 || !strings.HasPrefix(got[0], "warning 2:13 : unattended: allow lets through") {
		t.Errorf("got %q", got)
	}
}

func TestCheck_ShippedFilesHaveNoFindings(t *testing.T) {
	for name, text := range shipped(t) {
		if got := findings(t, text); len(got) != 0 {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// shipped are the rule files that come with permd, by their names.
func shipped(tb testing.TB) map[string]string {
	tb.Helper()
	all := map[string]string{}
	for _, p := range ready.List() {
		all[p.GetName()] = string(p.GetContent())
	}
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		tb.Fatalf("the examples: got %v, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		all[file] = string(data)
	}
	return all
}
