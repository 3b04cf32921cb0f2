package grant

import (
	"testing"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestMatch_ExcludesProgramsOfWorkspace(t *testing.T) {
	theirs := func(path string) *permissionv1.Action {
		a := line("git status")
		a.Command.SubCommands[0].Program = &acpv1.Program{Path: path, InsideRoots: true}
		return a
	}
	nested := line("git status")
	nested.Command.SubCommands[0].Repository = &acpv1.Repository{GitDir: "/w/sub/.git"}
	runs := func(command string, names ...string) *permissionv1.Action {
		a := line(command)
		a.Command.SubCommands[0].Repository = &acpv1.Repository{GitDir: "/w/.git", AtRoot: true, Quieted: names}
		return a
	}
	doubted := line("git status")
	doubted.Command.SubCommands[0].Repository = &acpv1.Repository{Doubt: "git may run ssh"}
	w := Where{Workspace: "/w", Scope: "s", SessionID: "s", Agent: "agent"}
	exact := func(a *permissionv1.Action) []*supervisorv1.Grant {
		grants, err := Exactly(a, w, supervisorv1.GrantScope_GRANT_SCOPE_SESSION)
		if err != nil {
			t.Fatal(err)
		}
		return grants
	}
	covers := func(grants []*supervisorv1.Grant, a *permissionv1.Action) bool {
		_, ok := targetOf(a, w).allowedBy(grants, w)
		return ok
	}
	for _, c := range []struct {
		name   string
		grants []*supervisorv1.Grant
		action *permissionv1.Action
		want   bool
	}{
		{"a prefix, and the system's", []*supervisorv1.Grant{prefix(workspace, "git status")}, line("git status -s"), true},
		{"a prefix, and the workspace's", []*supervisorv1.Grant{prefix(workspace, "git status")}, theirs("/w/bin/git"), false},
		{"the command alone, and the workspace's", exact(line("git status")), theirs("/w/bin/git"), false},
		{"a prefix, and another repository", []*supervisorv1.Grant{prefix(workspace, "git status")}, nested, false},
		{"the workspace's, and just that", exact(theirs("/w/bin/git")), theirs("/w/bin/git"), true},
		{"the workspace's, and another of it", exact(theirs("/w/bin/git")), theirs("/w/other/git"), false},
		{"git, and git that may run something of the workspace", []*supervisorv1.Grant{prefix(workspace, "git status")}, doubted, false},
		{"git without hooks, and with one", exact(runs("git commit")), runs("git commit", "hooks/pre-commit"), false},
		{"git with a hook, and that", exact(runs("git commit", "hooks/pre-commit")), runs("git commit", "hooks/pre-commit"), true},
		{"git with a hook, and without", exact(runs("git commit", "hooks/pre-commit")), runs("git commit"), true},
		{"git with a hook, and another", exact(runs("git commit", "hooks/pre-commit")), runs("git commit", "hooks/x"), false},
		{"a prefix, and a monitor", []*supervisorv1.Grant{prefix(workspace, "git status")}, runs("git status", "core.fsmonitor=x"), false},
		{"what is offered, with a monitor, and that", Widest(runs("git status", "core.fsmonitor=x"), w).Grants, runs("git status -s", "core.fsmonitor=x"), true},
		{"what is offered, with a monitor, and another", Widest(runs("git status", "core.fsmonitor=x"), w).Grants, runs("git status", "core.fsmonitor=y"), false},
	} {
		if got := covers(c.grants, c.action); got != c.want {
			t.Errorf("%s: covered %t, want %t", c.name, got, c.want)
		}
	}
}
