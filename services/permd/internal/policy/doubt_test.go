package policy_test

import (
	"strings"
	"testing"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

const doubtRules = `
version: 1
rules:
  - {id: look, effect: allow, command: [git status, git config, git config core.fsmonitor, ls, echo, cp, tee], path: ["${root}/**"], redirect: any}
  - {id: own, effect: allow, command: [./tool, /usr/bin/git status]}
  - {id: cel, effect: allow, on: [tool.execute], when: "action.command.sub_commands.all(s, s.argv[0] == 'git')"}
  - {id: edits, effect: allow, on: [fs.write, fs.read], path: ["${root}/**"]}
  - {id: never, effect: deny, command: [rm]}
  - {id: asked, effect: ask, command: [git push]}
`

func TestRule_UsesResolvedProgram(t *testing.T) {
	p, err := policy.Parse("rules", []byte(doubtRules), policy.Surroundings{})
	if err != nil {
		t.Fatal(err)
	}
	first := func(change func(*permissionv1.SubCommand)) func(*permissionv1.Action) {
		return func(a *permissionv1.Action) { change(a.Command.SubCommands[0]) }
	}
	workspace := first(func(s *permissionv1.SubCommand) {
		s.Program = &acpv1.Program{Path: "/ws/bin/" + s.Argv[0], InsideRoots: true}
	})
	repository := func(r *acpv1.Repository) func(*permissionv1.Action) {
		return first(func(s *permissionv1.SubCommand) { s.Repository = r })
	}
	for _, c := range []struct {
		name string
		a    *permissionv1.Action
		want permissionv1.Verdict
		why  string
	}{
		{"the system's", about("terminal.create", line("git status")), allow, ""},
		{"the workspace's", about("terminal.create", line("git status"), workspace), ask, "rule look would allow this, but git is /ws/bin/git"},
		{"one of a line", about("terminal.create", line("ls; echo x"), workspace), ask, "ls is /ws/bin/ls"},
		{"a wrapper", about("terminal.create", line("env ls"), first(func(s *permissionv1.SubCommand) {
			s.WrapperPrograms[0] = &acpv1.Program{Path: "/ws/bin/env", InsideRoots: true}
		})), ask, "env is /ws/bin/env"},
		{"not known", about("terminal.create", line("ls"), first(func(s *permissionv1.SubCommand) { s.Program = nil })), ask, "is not known"},
		{"in doubt", about("terminal.create", line("ls"), first(func(s *permissionv1.SubCommand) {
			s.Program = &acpv1.Program{Path: "/usr/bin/ls", Doubt: "it is a script"}
		})), ask, "it is a script"},
		{"a program by its path", about("terminal.create", line("./tool x"), first(func(s *permissionv1.SubCommand) { s.Program = nil })), allow, ""},
		{"git by its path, in another repository", about("terminal.create", line("/usr/bin/git status"),
			repository(&acpv1.Repository{GitDir: "/ws/sub/.git"})), ask, "/ws/sub/.git"},
		{"another repository", about("terminal.create", line("git status"), repository(&acpv1.Repository{GitDir: "/ws/sub/.git"})), ask, "not the folder .git of a root"},
		{"no repository", about("terminal.create", line("git status"), repository(&acpv1.Repository{})), allow, ""},
		{"a repository that is not known", about("terminal.create", line("git status"), repository(nil)), ask, "is not known"},
		{"a repository that names programs", about("terminal.create", line("git status"),
			repository(&acpv1.Repository{GitDir: "/ws/.git", AtRoot: true, Suspects: []string{"filter.x.clean"}})), ask, "filter.x.clean"},
		{"git that may run another program", about("terminal.create", line("/usr/bin/git status"),
			repository(&acpv1.Repository{GitDir: "/ws/.git", AtRoot: true, Doubt: "git may run ssh"})), ask, "git may run ssh"},
		{"a writer where a root lies in git's own", about("terminal.create", line("cp a b"), func(a *permissionv1.Action) {
			a.Roots, a.ResolvedRoots = []string{"/ws"}, []string{"/r/.git/hooks"}
		}), ask, "git's own"},
		{"a link to outside", about("terminal.create", line("ls link/"), leadsTo(1, "/etc", false)), ask, "rule look would allow this, but link/ leads out of the workspace"},
		{"a link to outside in a value", about("terminal.create", line("ls --ignore=link"), leadsTo(1, "/etc/x", false)), ask, "leads out of the workspace"},
		{"a link to outside in a cluster", about("terminal.create", line("ls -lIlink"), leadsTo(1, "/etc/x", false)), ask, "leads out of the workspace"},
		{"a link to outside after two dashes", about("terminal.create", line("ls -- -x"), leadsTo(2, "/etc/x", false)), ask, "leads out of the workspace"},
		{"a link to outside by its whole path", about("terminal.create", line("ls /ws/link/.."), leadsTo(1, "/", false)), ask, "leads out of the workspace"},
		{"a link to outside for a condition", about("tool.execute", line("git diff link"), leadsTo(2, "/etc/x", false)), ask, "rule cel would allow this, but link"},
		{"a link in the workspace", about("terminal.create", line("ls link"), leadsTo(1, "/ws/x", true)), allow, ""},
		{"a link of the system's", about("terminal.create", line("ls /lib /etc/../bin"), leadsTo(1, "/usr/lib", false)), allow, ""},
		{"a link of the system's in a value", about("terminal.create", line("ls --ignore=/lib"), leadsTo(1, "/usr/lib", false)), allow, ""},
		{"a program that is a link to outside", about("terminal.create", line("./tool x"), leadsTo(0, "/usr/bin/x", false)), allow, ""},
		{"git's settings", about("terminal.create", line("git config core.fsmonitor x")), ask, ""},
		{"git's settings, read", about("terminal.create", line("git config --get user.name")), allow, ""},
		{"a redirection to git's own", about("terminal.create", line("echo x >/ws/.git/config"), path("/ws/.git/config"), written, resolvedTo("/ws/.git/config")), ask, "git"},
		{"a writer into git's own", about("terminal.create", line("cp a .git/hooks/b")), ask, "git's own"},
		{"a writer in git's own", about("terminal.create", line("cp a b"), cwd("/ws/.git")), ask, "git's own"},
		{"a reader of git's own", about("terminal.create", line("ls .git/hooks")), allow, ""},
		{"a condition on words", about("tool.execute", line("git fetch"), workspace), ask, "rule cel would allow this, but git is"},
		{"a file of git's own", about("fs.write", path("/ws/.git/hooks/x"), written), ask, ""},
		{"a file of git's own, read", about("fs.read", path("/ws/.git/hooks/x")), allow, ""},
		{"a file that makes a repository", about("fs.write", path("/ws/bare/refs/x"), written, func(a *permissionv1.Action) { a.Paths[0].GitInternal = true }), ask, ""},
		{"a deny rule", about("terminal.create", line("rm x"), workspace), deny, ""},
		{"an ask rule", about("terminal.create", line("git push"), workspace), ask, "rule asked asks about this"},
	} {
		d := decide(p, c.a)
		if d.GetVerdict() != c.want || !strings.Contains(d.GetReason()+"; "+d.GetDetail(), c.why) {
			t.Errorf("%s: %s by %q (%s), want %s (%s)", c.name, d.GetVerdict(), d.GetRule(), d.GetReason()+"; "+d.GetDetail(), c.want, c.why)
		}
	}
}

func TestRule_WorkspacePrograms(t *testing.T) {
	p, err := policy.Parse("rules", []byte(`
version: 1
rules:
  - {id: look, effect: allow, command: [ls, git status]}
  - {id: test, effect: allow, workspace_programs: true, command: [npm test, pytest, git add, env]}
`), policy.Surroundings{})
	if err != nil {
		t.Fatal(err)
	}
	program := func(program *acpv1.Program) func(*permissionv1.Action) {
		return func(a *permissionv1.Action) {
			for _, sub := range a.Command.SubCommands {
				sub.Program = program
			}
		}
	}
	inside := program(&acpv1.Program{Path: "/ws/bin/x", InsideRoots: true})
	for _, c := range []struct {
		name string
		a    *permissionv1.Action
		want permissionv1.Verdict
		why  string
	}{
		{"a tool of the workspace", about("terminal.create", line("pytest -q"), inside), allow, ""},
		{"two of them", about("terminal.create", line("npm test && pytest -q"), inside), allow, ""},
		{"a script that looks there", about("terminal.create", line("npm test"),
			program(&acpv1.Program{Path: "/usr/bin/npm", Doubt: "it is a script", DoubtInsideRoots: true})), allow, ""},
		{"one that is in doubt for another reason", about("terminal.create", line("npm test"),
			program(&acpv1.Program{Path: "/usr/bin/npm", Doubt: "it is strange"})), ask, "rule test would allow this, but it is not certain what npm runs: it is strange"},
		{"one that is not known", about("terminal.create", line("pytest"), program(nil)), ask, "which program pytest is"},
		{"one that looks", about("terminal.create", line("ls"), inside), ask, "rule look would allow this, but ls is /ws/bin/x"},
		{"git in another repository", about("terminal.create", line("git add x"), inside, func(a *permissionv1.Action) {
			a.Command.SubCommands[0].Repository = &acpv1.Repository{GitDir: "/ws/sub/.git"}
		}), ask, "/ws/sub/.git"},
		{"git's settings", about("terminal.create", line("pytest; cp x .git/config"), inside), ask, ""},
		{"a program that is not there", about("terminal.create", line("ls"), program(&acpv1.Program{Missing: true})), allow, ""},
		{"one that can be put there", about("terminal.create", line("ls"),
			program(&acpv1.Program{Missing: true, Doubt: "it can be put there", DoubtInsideRoots: true})), ask, "it can be put there"},
	} {
		d := decide(p, c.a)
		if d.GetVerdict() != c.want || !strings.Contains(d.GetReason()+"; "+d.GetDetail(), c.why) {
			t.Errorf("%s: %s by %q (%s), want %s (%s)", c.name, d.GetVerdict(), d.GetRule(), d.GetReason()+"; "+d.GetDetail(), c.want, c.why)
		}
	}
}

// written has the paths be written to.
func written(a *permissionv1.Action) {
	for _, p := range a.Paths {
		p.Access = permissionv1.Access_ACCESS_WRITE
	}
}

// leadsTo sets where a word of a line leads.
func leadsTo(word uint32, to string, inside bool) func(*permissionv1.Action) {
	return func(a *permissionv1.Action) {
		sub := a.Command.SubCommands[0]
		sub.ResolvedWords = append(sub.ResolvedWords, &permissionv1.ResolvedWord{Word: word, ResolvedPath: to, InsideRoots: inside})
	}
}

// resolvedTo sets where the redirections of a line lead.
func resolvedTo(file string) func(*permissionv1.Action) {
	return func(a *permissionv1.Action) {
		for _, r := range a.Command.SubCommands[0].Redirections {
			r.ResolvedPath = file
		}
	}
}
