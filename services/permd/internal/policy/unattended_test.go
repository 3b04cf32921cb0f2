package policy_test

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/facts"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

// runs is an action that runs a line in /ws, with what acphost knows of its commands.
func runs(text string) *permissionv1.Action {
	a := about("terminal.create", line(text))
	subs, unparsed := shell.Parse(text)
	a.Command.SubCommands, a.Command.Unparsed = subs, unparsed
	for _, sub := range subs {
		policy.Ordinary(sub)
		sub.Facts = facts.Of(sub, "/ws", &facts.Disk{Roots: []string{"/ws"}})
	}
	return a
}

func TestDecide_UnattendedDeniesUnknownCommands(t *testing.T) {
	const head = "version: 1\nunattended: allow\nrules:\n"
	many := strings.Repeat("true; ", 1001) + "true"
	for _, c := range []struct {
		name, rules, line string
		want              permissionv1.Verdict
	}{
		{"a program that is a variable", "- {id: a, effect: deny, command: [touch]}", "x=tou; ${x}ch f", deny},
		{"a shell that reads a pipe", "- {id: a, effect: deny, command: [touch]}", "echo touch f | sh", deny},
		{"too many commands", "- {id: a, effect: deny, command: [touch]}", many, deny},
		{"a script", "- {id: a, effect: deny, command: [touch]}", "./x.sh", deny},
		{"code in an argument", "- {id: a, effect: deny, command: [touch]}", "python3 -c x", deny},
		{"the project's code", "- {id: a, effect: deny, path: ['**/.env']}", "make test", deny},
		{"a program that may read", "- {id: a, effect: deny, reads: ['**/.env']}", "frobnicate", deny},
		{"a program that may connect", "- {id: a, effect: deny, host: ['*.example.com']}", "frobnicate", deny},
		{"a known command", "- {id: a, effect: deny, command: [touch]}", "ls", allow},
		{"no deny rule", "- {id: a, effect: ask, command: [touch]}", "./x.sh", allow},
		{"a deny rule for another agent", "- {id: a, effect: deny, command: [touch], agent: [other]}", "./x.sh", allow},
		{"a deny rule about modes", "- {id: a, effect: deny, on: [tool.think]}", "./x.sh", allow},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := policy.Decide([]policy.Part{{Policy: parse(t, head+c.rules), Layer: permissionv1.Layer_LAYER_USER}}, runs(c.line))
			if got.GetVerdict() != ask || got.GetUnattended() != c.want {
				t.Errorf("got %v, unattended %v (%s), want a question, unattended %v", got.GetVerdict(), got.GetUnattended(), got.GetReason(), c.want)
			}
		})
	}
}

// TestDecide_DetailWhyLineIsUnreadable: a line that cannot be read in full may touch acphost's own files. The detail
// states why the line cannot be read, and only a person can answer the question.
func TestDecide_DetailWhyLineIsUnreadable(t *testing.T) {
	const line, why = "git -c core.fsmonitor=./x status", "may make git run something else"
	own := policy.Surroundings{Protected: []string{"/ws/.state"}}
	for name, text := range map[string]string{
		"beside a deny rule":      "version: 1\nunattended: allow\nrules: [{id: a, effect: deny, command: [touch]}]",
		"beside an ask rule":      "version: 1\nunattended: allow\nrules: [{id: a, effect: ask, command: [touch]}]",
		"that no rule is about":   "version: 1\nunattended: allow\nrules: [{id: a, effect: allow, command: [ls]}]",
		"that every rule permits": "version: 1\nunattended: allow\nrules: [{id: a, effect: allow, on: [terminal.create]}]",
	} {
		p, err := policy.Parse("r.yaml", []byte(text), own)
		if err != nil {
			t.Fatal(err)
		}
		a := runs(line)
		for _, sub := range a.GetCommand().GetSubCommands() {
			sub.Facts = facts.Of(sub, "/ws", nil) // of such a line no path is resolved
		}
		got := policy.Decide([]policy.Part{{Policy: p, Layer: permissionv1.Layer_LAYER_USER}}, a)
		if got.GetVerdict() != ask || got.GetUnattended() != deny || got.GetGrantable() || name != "that every rule permits" && !strings.Contains(got.GetDetail(), why) {
			t.Errorf("%s: got %v by %q, unattended %v, grantable %t: %s", name, got.GetVerdict(), got.GetRule(), got.GetUnattended(), got.GetGrantable(), got.GetDetail())
		}
	}
}

func TestDecide_NetworkRulesMatchCommandsThatContactMachines(t *testing.T) {
	p := []policy.Part{{Policy: parse(t, "version: 1\nrules:\n- {id: a, effect: deny, network: true}\n- {id: b, effect: allow, on: [terminal.create]}"), Layer: permissionv1.Layer_LAYER_USER}}
	for line, want := range map[string]permissionv1.Verdict{
		"curl https://example.com": deny, "wget http://example.com": deny, "ssh host": deny, "git fetch": deny, "npm install": deny, "timeout 5 curl x": deny,
		"echo a | curl -d @- x": deny, "bash -c 'git push'": deny, "ls": allow, "frobnicate": ask,
	} {
		if got := policy.Decide(p, runs(line)); got.GetVerdict() != want {
			t.Errorf("%s: got %v (%s), want %v", line, got.GetVerdict(), got.GetReason(), want)
		}
	}
}

func TestDecide_RejectsOptionsThatChangePrograms(t *testing.T) {
	rules := "version: 1\nrules:\n- {id: a, effect: allow, command: [git commit, git stash, make test, npm test, 'make check SHELL=./x']}"
	p := []policy.Part{{Policy: parse(t, rules), Layer: permissionv1.Layer_LAYER_USER}}
	for line, want := range map[string]permissionv1.Verdict{
		"git commit -F /etc/hostname": ask, "make test SHELL=./x": ask, "npm test --script-shell=./x": ask, "make check SHELL=./x CC=./y": ask,
		"git stash push --pathspec-from-file=/etc/hostname": ask, "git stash push --pathspec-f=x": ask, "git stash push -p": allow,
		"git commit -m x": allow, "make test -j2": allow, "npm test -- -u": allow, "make check SHELL=./x": allow,
	} {
		if got := policy.Decide(p, runs(line)); got.GetVerdict() != want {
			t.Errorf("%s: got %v (%s), want %v", line, got.GetVerdict(), got.GetReason(), want)
		}
	}
}

func TestParse_RejectsStarForEveryKind(t *testing.T) {
	_, err := policy.Parse("r.yaml", []byte("version: 1\nrules: [{id: a, effect: deny, on: ['*']}]"), policy.Surroundings{})
	if err == nil || !strings.Contains(err.Error(), "leave on out for every kind") {
		t.Errorf("got %v, want an error that states what to write for every kind", err)
	}
}

// TestCheck_ReportsShadowedCommandsOfInit checks a rule file as "acphost init" writes it.
func TestCheck_ReportsShadowedCommandsOfInit(t *testing.T) {
	text := shipped(t)["workspace"] + "\n  - id: always-allowed\n    effect: allow\n    command:\n      - \"go test ./...\"\n      - \"git push\"\n"
	got := findings(t, text)
	if len(got) != 1 || !strings.Contains(got[0], "`git push` has no effect here: it is always asked about by rule publish") {
		t.Errorf("got %q, want one finding, about git push", got)
	}
}
