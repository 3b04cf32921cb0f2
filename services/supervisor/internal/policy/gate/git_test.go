package gate

import (
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

func TestDecide_DeniesWritesToGitInternals(t *testing.T) {
	internal := func(kind string, access permissionv1.Access, command *permissionv1.Command) *permissionv1.Action {
		return &permissionv1.Action{Kind: kind, Command: command,
			Paths: []*permissionv1.PathAccess{{Path: "/w/.git/config", Access: access, GitInternal: true}}}
	}
	write, read := permissionv1.Access_ACCESS_WRITE, permissionv1.Access_ACCESS_READ
	for _, kind := range []string{"fs.write", "tool.edit", "tool.delete", "tool.move"} {
		if gitIn(internal(kind, write, nil)) == "" {
			t.Errorf("%s may write to git's own", kind)
		}
	}
	for kind, a := range map[string]*permissionv1.Action{
		"reading": internal("fs.read", read, nil), "a command": internal("terminal.create", write, &permissionv1.Command{}),
		"another tool": internal("tool.other", write, nil), "a read of an edit": internal("tool.edit", read, nil),
	} {
		if gitIn(a) != "" {
			t.Errorf("%s is denied", kind)
		}
	}
}

func TestDecision_Unasked(t *testing.T) {
	for _, c := range []struct {
		name string
		d    Decision
		o    Outcome
		want bool
	}{
		{"a rule", Decision{By: ByPolicy, Verdict: Allow, Rule: "r"}, Outcome{Allowed: true}, true},
		{"a rule, when the agent asked", Decision{By: ByEarlier}, Outcome{Allowed: true}, true},
		{"a timeout that allows", Decision{By: ByPolicy, Verdict: Ask}, Outcome{Allowed: true, By: ByTimeout}, true},
		{"a person", Decision{By: ByPolicy, Verdict: Ask}, Outcome{Allowed: true, Option: acp.AllowOnce}, false},
		{"a person, when the agent asked", Decision{By: ByEarlier, person: true}, Outcome{Allowed: true}, false},
		{"a grant", Decision{By: ByGrant}, Outcome{Allowed: true}, false},
		{"no policy", Decision{By: ByPolicy, Verdict: Allow, Rule: RuleNoPolicy}, Outcome{Allowed: true}, false},
		{"a contained command", Decision{By: ByPolicy, Verdict: Allow, Rule: "r", contained: true}, Outcome{Allowed: true}, false},
		{"a contained command, when the agent asked", Decision{By: ByEarlier, Verdict: Allow, contained: true}, Outcome{Allowed: true}, false},
		{"a denial", Decision{By: ByPolicy, Verdict: Deny}, Outcome{}, false},
	} {
		if got := c.d.Unasked(c.o); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

func TestDecision_UnaskedExcludesProjectCode(t *testing.T) {
	line := func(commands ...string) *permissionv1.Action {
		c := &permissionv1.Command{}
		for _, command := range commands {
			c.SubCommands = append(c.SubCommands, &permissionv1.SubCommand{Argv: strings.Fields(command)})
		}
		return &permissionv1.Action{Kind: "terminal.create", Command: c}
	}
	hidden := line("make")
	hidden.Command.Unparsed = "it cannot be read"
	unknown := line("npm test")
	unknown.Command.SubCommands[0].Dynamic = true
	for name, c := range map[string]struct {
		a    *permissionv1.Action
		want bool
	}{
		"tests": {line("go test ./..."), false}, "tests, read on": {line("cd sub", "npm test", "tail -n 5"), false},
		"git": {line("git status"), true}, "tests and git": {line("go test ./...", "git commit -m x"), true}, "a look": {line("ls"), true},
		"tests and what is not known": {line("make", "frobnicate"), true}, "what only builds": {line("go vet ./..."), true},
		"what cannot be read": {hidden, true}, "what is only known when it runs": {unknown, true}, "no command": {&permissionv1.Action{}, true},
	} {
		d := Decision{By: ByPolicy, Verdict: Allow, Rule: "r", request: Request{Action: c.a}}
		if got := d.Unasked(Outcome{Allowed: true}); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
