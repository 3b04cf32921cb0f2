package policy

import (
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// processRules decide about processes by separate kinds.
const processRules = `version: 1
rules:
  - {id: inside, effect: allow, on: [terminal.create, process.start], contained: [files, reads]}
  - {id: reads, effect: allow, on: [process.read], path: ["/**"]}
  - {id: edits, effect: allow, on: [fs.write, process.write, process.git], path: ["${root}/**"]}
  - {id: later, effect: ask, on: [process.write], path: ["**/.vscode/**", "!**/node_modules/**"]}
  - {id: edited, effect: deny, on: [fs.write], path: ["**/.ci/**"]}
  - {id: secret, effect: deny, on: ["!process.write"], path: ["**/.env"]}
  - {id: push, effect: ask, command: [git push]}
  - {id: remove, effect: ask, command: [rm -r], not_contained: [files, reads]}
  - {id: root, effect: deny, command: [sudo]}
  - {id: free, effect: allow, on: [process.write], agent: [free]}
  - {id: hosts, effect: allow, contained: [files], host: ["*.example.com"]}
`

// callRules are the same without kinds of processes.
const callRules = `version: 1
rules:
  - {id: edits, effect: allow, on: [fs.write], path: ["${root}/**"]}
  - {id: edited, effect: deny, on: [fs.write], path: ["**/.ci/**"]}
  - {id: looks, effect: allow, reads: ["${root}/**"]}
`

func parts(t *testing.T, files ...string) []Part {
	t.Helper()
	var all []Part
	for _, data := range files {
		p, err := Parse("r.yaml", []byte(data), Surroundings{Home: "/home/u"})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, Part{Policy: p, Layer: permissionv1.Layer_LAYER_USER})
	}
	return all
}

// example is the action of a rule's test.
func example(t *testing.T, test *permissionv1.RuleTest) *permissionv1.Action {
	t.Helper()
	c := compiler{places: Surroundings{Home: "/home/u"}.places()}
	a, err := c.example(test)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestDecide_KeepsRulesForProcessesApart(t *testing.T) {
	inside := []string{"files", "reads"}
	for _, tt := range []struct {
		name string
		test *permissionv1.RuleTest
		want string // verdict and rule
	}{
		{"a program, in the sandbox", &permissionv1.RuleTest{Command: "/opt/x --y", On: "process.start"}, "allow inside"},
		{"a program, without a wall", &permissionv1.RuleTest{Command: "/opt/x --y", On: "process.start", Walls: []string{"files"}}, "ask "},
		{"a line that may push, since what it starts is decided", &permissionv1.RuleTest{Command: "sh -c '$x push'", On: "process.start"}, "allow inside"},
		{"a line that pushes, since its programs are decided", &permissionv1.RuleTest{Command: "sh -c 'ls && git push'", On: "process.start"}, "allow inside"},
		{"a program that pushes", &permissionv1.RuleTest{Command: "git -C x push", On: "process.start"}, "ask push"},
		{"a program that is denied", &permissionv1.RuleTest{Command: "sudo ls", On: "process.start"}, "deny root"},
		{"a program that is given a secret", &permissionv1.RuleTest{Command: "cat .env", On: "process.start"}, "deny secret"},
		{"a command, in the sandbox", &permissionv1.RuleTest{Command: "x=$(y); ./$x > z", Walls: inside}, "allow inside"},
		{"a command that may be denied, in the sandbox", &permissionv1.RuleTest{Command: "cat $x", Walls: inside}, "allow inside"},
		{"a command that is denied, in the sandbox", &permissionv1.RuleTest{Command: "cat .env", Walls: inside}, "deny secret"},
		{"a command that pushes, in the sandbox", &permissionv1.RuleTest{Command: "git push", Walls: inside}, "ask push"},
		{"a command that is held by walls", &permissionv1.RuleTest{Command: "rm -r x", Walls: inside}, "allow inside"},
		{"a command without a wall", &permissionv1.RuleTest{Command: "rm -r x", Walls: []string{"files"}}, "ask remove"},
		{"a command without walls", &permissionv1.RuleTest{Command: "./x"}, "ask "},
		{"a file", &permissionv1.RuleTest{Path: "${root}/x", On: "process.write"}, "allow edits"},
		{"a file that calls must not write", &permissionv1.RuleTest{Path: "${root}/.ci/x", On: "process.write"}, "allow edits"},
		{"a call", &permissionv1.RuleTest{Path: "${root}/.ci/x", On: "fs.write"}, "deny edited"},
		{"a secret that is written", &permissionv1.RuleTest{Path: "${root}/.env", On: "process.write"}, "allow edits"},
		{"a secret that is read", &permissionv1.RuleTest{Path: "${root}/.env", On: "process.read"}, "deny secret"},
		{"another file that is read", &permissionv1.RuleTest{Path: "/etc/passwd", On: "process.read"}, "allow reads"},
		{"a file elsewhere", &permissionv1.RuleTest{Path: "/etc/x", On: "process.write"}, "ask "},
		{"a program that git runs, by a rule without paths", &permissionv1.RuleTest{Path: "${root}/.git/hooks/x", On: "process.write", Agent: "free"}, "ask "},
		{"another file, by a rule without paths", &permissionv1.RuleTest{Path: "/etc/x", On: "process.write", Agent: "free"}, "allow free"},
		{"git's bookkeeping", &permissionv1.RuleTest{Path: "${root}/.git/index", On: "process.git"}, "allow edits"},
		{"a program that git runs", &permissionv1.RuleTest{Path: "${root}/.git/hooks/x", On: "process.write"}, "ask "},
		{"git's bookkeeping elsewhere", &permissionv1.RuleTest{Path: "/srv/.git/index", On: "process.git"}, "ask "},
		{"a file that is protected", &permissionv1.RuleTest{Path: "${root}/a/.vscode/x", On: "process.write"}, "ask later"},
		{"a file in an excepted folder", &permissionv1.RuleTest{Path: "${root}/node_modules/a/.vscode/x", On: "process.write"}, "allow edits"},
		{"a link out of an excepted folder", &permissionv1.RuleTest{Path: "${root}/node_modules/a/.vscode/x", ResolvedPath: "${root}/.vscode/x", On: "process.write"}, "ask later"},
		{"a link into an excepted folder", &permissionv1.RuleTest{Path: "${root}/.vscode/x", ResolvedPath: "${root}/node_modules/a/.vscode/x", On: "process.write"}, "ask later"},
	} {
		d := Decide(parts(t, processRules), example(t, tt.test))
		if got := strings.ToLower(strings.TrimPrefix(d.GetVerdict().String(), "VERDICT_")) + " " + d.GetRule(); got != tt.want {
			t.Errorf("%s: got %q (%s), want %q", tt.name, got, d.GetReason(), tt.want)
		}
	}
}

// Without rules for processes, starts are decided by rules that name the program for certain, and reads by deny rules.
func TestDecide_ProcessesWithoutRulesForThem(t *testing.T) {
	rules := parts(t, `version: 1
rules:
  - {id: every, effect: ask, on: [terminal.create, fs.read]}
  - {id: push, effect: ask, command: [git push]}
  - {id: secret, effect: deny, path: ["**/.env"]}
  - {id: root, effect: deny, command: [sudo]}
  - {id: agent, effect: deny, on: [terminal.create], agent: [other]}
  - {id: make, effect: allow, command: [make]}
`)
	for _, tt := range []struct {
		test *permissionv1.RuleTest
		want string // verdict and rule
	}{
		{&permissionv1.RuleTest{Command: "./x", On: "process.start"}, "ask "},
		{&permissionv1.RuleTest{Command: "ls"}, "ask every"},
		{&permissionv1.RuleTest{Command: "make all", On: "process.start"}, "allow make"},
		{&permissionv1.RuleTest{Command: "git push", On: "process.start"}, "ask push"},
		{&permissionv1.RuleTest{Command: "sh -c 'git push; sudo x'", On: "process.start"}, "ask "},
		{&permissionv1.RuleTest{Command: "sudo x", On: "process.start"}, "deny root"},
		{&permissionv1.RuleTest{Command: "cat .env", On: "process.start"}, "deny secret"},
		{&permissionv1.RuleTest{Command: "./x .env2", On: "process.start"}, "ask "},
		{&permissionv1.RuleTest{Command: "ls", On: "process.start", Agent: "other"}, "deny agent"},
		{&permissionv1.RuleTest{Path: "/etc/passwd", On: "process.read"}, "allow "},
		{&permissionv1.RuleTest{Path: "${root}/.env", On: "process.read"}, "deny secret"},
		{&permissionv1.RuleTest{Path: "/etc/passwd", On: "fs.read"}, "ask every"},
	} {
		d := Decide(rules, example(t, tt.test))
		if got := strings.ToLower(strings.TrimPrefix(d.GetVerdict().String(), "VERDICT_")) + " " + d.GetRule(); got != tt.want {
			t.Errorf("%v: got %q (%s), want %q", tt.test, got, d.GetReason(), tt.want)
		}
	}
}

func TestDecide_ReportsWhetherProcessesAreAlike(t *testing.T) {
	write := &permissionv1.RuleTest{Path: "${root}/.ci/x", On: "process.write"}
	command := &permissionv1.RuleTest{Command: "ls", Walls: []string{"files", "reads"}}
	for _, tt := range []struct {
		name                 string
		parts                []Part
		test                 *permissionv1.RuleTest
		verdict              permissionv1.Verdict
		processes, contained bool
	}{
		{"a program within walls", parts(t, processRules), &permissionv1.RuleTest{Command: "/opt/x", On: "process.start"}, allow, true, true},
		{"a program that a rule allows by its line", parts(t, processRules+"  - {id: x, effect: allow, command: [ls]}\n"), &permissionv1.RuleTest{Command: "ls", On: "process.start", Walls: []string{"files"}}, allow, true, false},
		{"rules for processes", parts(t, processRules), write, allow, true, false},
		{"rules for calls", parts(t, callRules), write, deny, false, false},
		{"both: the strictest counts", parts(t, processRules, callRules), write, deny, true, false},
		{"a command within walls", parts(t, processRules), command, allow, false, true},
		{"a command within walls that a rule allows by its line", parts(t, callRules, processRules), command, allow, false, true},
		{"a command that a rule allows by its line", parts(t, callRules), command, allow, false, false},
	} {
		d := Decide(tt.parts, example(t, tt.test))
		if d.GetVerdict() != tt.verdict || d.GetProcesses() != tt.processes || d.GetContained() != tt.contained {
			t.Errorf("%s: got %v, processes %v, contained %v", tt.name, d.GetVerdict(), d.GetProcesses(), d.GetContained())
		}
	}
}

func TestParse_RejectsExceptionsWithoutMeaning(t *testing.T) {
	for rule, want := range map[string]string{
		`{id: a, effect: allow, path: ["${root}/**", "!**/x"]}`:      "! only in deny and ask rules",
		`{id: a, effect: deny, path: ["!**/x"]}`:                     "expected a glob without !",
		`{id: a, effect: deny, on: ["!process.wrte"]}`:               "process.write",
		`{id: a, effect: allow, contained: [file], on: [fs.write]}`:  "expected files, reads or network",
		`{id: a, effect: allow, not_contained: [x], on: [fs.write]}`: "expected files, reads or network",
	} {
		_, err := Parse("r.yaml", []byte("version: 1\nrules:\n  - "+rule+"\n"), Surroundings{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", rule, err, want)
		}
	}
}
