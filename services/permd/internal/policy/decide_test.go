package policy_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

const rules = `
version: 1
rules:
- {id: secrets, path: ["/**/.env", "~/.ssh/**"], effect: deny}
- {id: rm, command: ["rm -rf", "shutdown"], reason: "no removing", effect: deny}
- {id: root-file, path: ["${root}/SECRET"], effect: deny}
- {id: unsafe-tools, on: [tool.fetch], path: ["/etc/**"], effect: deny}
# ask
- {id: push, command: ["git push"], effect: ask}
- {id: publish, command: ["* publish"], not_grantable: true, effect: ask}
- {id: build, on: [fs.write], path: ["${root}/build/**"], effect: ask}
# allow
- {id: read, on: [fs.read, fs.list, tool.read], path: ["${root}/**"], effect: allow}
- {id: write, on: [fs.write, tool.edit], path: ["${root}/**", "/scratch/*.txt"], effect: allow}
- {id: git, command: ["git status", "git log", "ls", "cat", "git push", "echo", "npm *", "f", "read", "export"], effect: allow}
- {id: both, on: [tool.execute], command: [make], path: ["${root}/**"], effect: allow}
- {id: think, on: [tool.think], effect: allow}
- {id: paths-only, path: ["/open/**"], effect: allow}
`

func TestDecide(t *testing.T) {
	exec, read, write := "terminal.create", "fs.read", "fs.write"
	tests := []struct {
		name    string
		action  *permissionv1.Action
		verdict permissionv1.Verdict
		rule    string
	}{
		// Paths that are allowed.
		{"a read inside the roots", about(read, path("/ws/a")), allow, "read"},
		{"the root itself", about("fs.list", path("/ws")), allow, "read"},
		{"several paths inside", about(read, path("/ws/a", "/ws/b/c")), allow, "read"},
		{"a path with dots that stays inside", about(read, link("/ws/a/../b", "/ws/b")), allow, "read"},
		{"a path that an absolute glob names", about(write, path("/scratch/a.txt")), allow, "write"},
		{"a second root", about(read, roots("/ws", "/other"), path("/other/a")), allow, "read"},
		{"a root written with a slash at its end", about(read, roots("/ws/"), link("/ws/a", "/ws/a"), func(a *permissionv1.Action) { a.Paths[0].InsideRoots = true }), allow, "read"},
		{"a real root of another name, all of it allowed", about(read, link("/ws/a", "/real/ws/a"), func(a *permissionv1.Action) { a.Paths[0].InsideRoots = true }), allow, "read"},
		{"an edit, by its kind", about("tool.edit", path("/ws/a")), allow, "write"},
		{"a dot file inside", about(read, path("/ws/.gitignore")), allow, "read"},

		// Paths that are not.
		{"a read outside the roots", about(read, path("/etc/passwd")), ask, ""},
		{"one of several paths outside", about(read, path("/ws/a", "/etc/passwd")), ask, ""},
		{"a link that leads outside", about(read, link("/ws/link", "/etc/passwd")), ask, ""},
		{"a path outside that a link leads in from", about(read, link("/else/link", "/ws/a")), ask, ""},
		{"a path with dots that leaves", about(read, path("/ws/../etc/passwd")), ask, ""},
		{"a neighbour with the root's name in front", about(read, path("/ws2/a")), ask, ""},
		{"a glob with one star, deeper down", about(write, path("/scratch/d/a.txt")), ask, ""},
		{"another kind", about("fs.write", path("/else")), ask, ""},
		{"a kind that is almost the one", about("fs.readx", path("/ws/a")), ask, ""},
		{"no paths", about(read), ask, "secrets"},
		{"a path that is not resolved", about(read, link("/ws/a", "")), ask, "secrets"},
		{"a relative path", about(read, link("a", "/ws/a")), ask, "secrets"},
		{"an empty path", about(read, link("", "/ws/a")), ask, "secrets"},
		{"a path with a NUL", about(read, link("/ws/a\x00", "/ws/a")), ask, "secrets"},
		{"more paths than there may be", about(read, path(strings.Split(strings.TrimSuffix(strings.Repeat("/ws/a,", 1001), ","), ",")...)), ask, "secrets"},
		{"an unparsed action", about(read, path("/ws/a"), unparsed), ask, "secrets"},
		{"no roots", about(read, roots(), path("/ws/a")), ask, ""},
		{"a root that is not absolute", about(read, roots("."), path("/ws/a")), ask, ""},
		{"no kind", about("", path("/open/a")), ask, "secrets"},

		// Denied paths.
		{"a secret", about(read, path("/ws/.env")), deny, "secrets"},
		{"a secret at the top", about(read, path("/.env")), deny, "secrets"},
		{"a secret among others", about(read, path("/ws/a", "/ws/b/.env")), deny, "secrets"},
		{"a secret after dots", about(read, link("/ws/a/../.env", "")), deny, "secrets"},
		{"a link to a secret", about(read, link("/ws/link", "/ws/.env")), deny, "secrets"},
		{"a secret's name that leads elsewhere", about(read, link("/ws/.env", "/ws/a")), deny, "secrets"},
		{"a secret in other case", about(read, path("/ws/.ENV")), deny, "secrets"},
		{"a secret with an invisible character", about(read, path("/ws/.e\u200cnv")), deny, "secrets"},
		{"a secret among unresolved paths", about(read, link("/ws/a", ""), path("/ws/.env")), deny, "secrets"},
		{"a secret of an unparsed action", about(read, path("/ws/.env"), unparsed), deny, "secrets"},
		{"a name that only contains the secret's", about(read, path("/ws/x.env")), allow, "read"},
		{"a directory in the home", about(read, path("/home/u/.ssh/id")), deny, "secrets"},
		{"the directory itself", about("fs.list", path("/home/u/.ssh")), deny, "secrets"},
		{"a directory in the home by its real name", about(read, path("/data/u/.ssh/id")), deny, "secrets"},
		{"a secret in a root of another name", about(read, link("/ws/l", "/real/ws/SECRET"), func(a *permissionv1.Action) { a.Paths[0].InsideRoots = true }), ask, "root-file"},
		{"a rule for another kind", about("tool.read", path("/etc/x")), ask, ""},
		{"a rule for its kind", about("tool.fetch", path("/etc/x")), deny, "unsafe-tools"},

		// Paths that are asked about.
		{"ask before allow", about(write, path("/ws/build/x")), ask, "build"},
		{"deny before ask", about(write, path("/ws/build/.env")), deny, "secrets"},

		// Commands that are allowed.
		{"a command", about(exec, line("git status")), allow, "git"},
		{"a command with more arguments", about(exec, line("git log --oneline -5")), allow, "git"},
		{"a command without a shell", about(exec, argv("git", "status")), allow, "git"},
		{"a chain of allowed commands", about(exec, line("git status && ls; cat a | cat")), allow, "git"},
		{"a star for a token", about(exec, line("npm test")), allow, "git"},
		{"output to nowhere", about(exec, line("ls 2>/dev/null >&2 </dev/null")), allow, "git"},
		{"a block with discarded output", about(exec, line("{ ls; cat a; } 2>/dev/null")), allow, "git"},
		{"through sh -c", about(exec, line("sh -c 'git status; ls'")), allow, "git"},
		{"through bash -lc without a shell", about(exec, argv("bash", "-lc", "git status && ls")), allow, "git"},
		{"through timeout and nice", about(exec, line("timeout 5 nice git status")), allow, "git"},
		{"with harmless variables", about(exec, line("ls"), env("LC_ALL=C", "NO_COLOR=1", "PAGER=cat")), allow, "git"},
		{"in a directory of a root", about(exec, line("ls"), cwd("/ws/a")), allow, "git"},
		{"in a root", about(exec, line("ls"), cwd("/ws/")), allow, "git"},
		{"by command and path", about("tool.execute", line("make"), path("/ws/a")), allow, "both"},

		// Commands that are not.
		{"another command", about(exec, line("wget x")), ask, ""},
		{"another sub-command", about(exec, line("git commit")), ask, ""},
		{"a prefix of the command's name", about(exec, line("l")), ask, ""},
		{"a program of that name elsewhere", about(exec, line("./ls")), ask, ""},
		{"a program in other case", about(exec, line("LS")), ask, ""},
		{"a whole line as the program's name", about(exec, argv("git status")), ask, ""},
		{"fewer tokens than the prefix has", about(exec, line("npm")), ask, ""},
		{"one of a chain", about(exec, line("git status; wget x")), ask, ""},
		{"on a second line", about(exec, line("git status\nwget x")), ask, ""},
		{"in a substitution", about(exec, line("ls $(wget x)")), ask, "secrets"},
		{"a variable", about(exec, line("cat $x")), ask, "secrets"},
		{"a glob", about(exec, line("cat *")), ask, "secrets"},
		{"a redirection to a file", about(exec, line("echo x > /ws/a")), ask, ""},
		{"a redirection from a file", about(exec, line("cat < /ws/a")), ask, ""},
		{"a redirection to a device", about(exec, line("echo x > /dev/tcp/h/1")), ask, ""},
		{"an assignment", about(exec, line("PATH=/x git status")), ask, ""},
		{"an assignment before it", about(exec, line("PATH=/x; git status")), ask, ""},
		{"an exported assignment", about(exec, line("export PATH=/x; git status")), ask, ""},
		{"a loop over values of a variable", about(exec, line("for PATH in /x; do git status; done")), ask, ""},
		{"a variable that is read", about(exec, line("read PATH; ls")), ask, "secrets"},
		{"only an assignment", about(exec, line("a=b")), ask, ""},
		{"an empty line", about(exec, line("")), ask, "secrets"},
		{"as root", about(exec, line("sudo git status")), ask, ""},
		{"with env's assignment", about(exec, line("env PATH=/x git status")), ask, ""},
		{"with an emptied environment", about(exec, line("env -i git status")), ask, ""},
		{"through a shell from elsewhere", about(exec, line("/ws/sh -c 'git status'")), ask, ""},
		{"a function of the command's name", about(exec, line("git() { ls; }; git status")), ask, "secrets"},
		{"an alias", about(exec, line("alias ls=x\nls")), ask, "secrets"},
		{"from xargs", about(exec, line("cat a | xargs cat")), ask, "secrets"},
		{"an unclosed quote", about(exec, line("git status 'x")), ask, "secrets"},
		{"an unparsed action with a command", about(exec, line("git status"), unparsed), ask, "secrets"},
		{"no command", about(exec), ask, "rm"},
		{"no sub-commands", about(exec, func(a *permissionv1.Action) { a.Command = &permissionv1.Command{Text: "ls", Argv: []string{"ls"}} }), ask, "secrets"},
		{"a variable that changes the program", about(exec, line("ls"), env("PATH=/x")), ask, ""},
		{"a variable for the loader", about(exec, line("ls"), env("LANG=C", "LD_PRELOAD=/x")), ask, ""},
		{"a variable for git", about(exec, line("git status"), env("GIT_SSH_COMMAND=x")), ask, ""},
		{"a pager that is a program", about(exec, line("git log"), env("PAGER=/ws/x")), ask, ""},
		{"an unknown variable", about(exec, line("ls"), env("FOO=1")), ask, ""},
		{"a variable without a value", about(exec, line("ls"), env("LANG")), ask, ""},
		{"in a directory outside", about(exec, line("ls"), cwd("/etc")), ask, ""},
		{"in a directory by way of dots", about(exec, line("ls"), cwd("/ws/a/..")), ask, ""},
		{"in a relative directory", about(exec, line("ls"), cwd("a")), ask, ""},
		{"by command and path, path outside", about("tool.execute", line("make"), path("/etc/a")), ask, ""},
		{"by command and path, no path", about("tool.execute", line("make")), ask, ""},
		{"a command that only paths speak for", about("tool.execute", line("wget x"), path("/open/a")), ask, ""},

		// Denied commands.
		{"a denied command", about(exec, line("rm -rf /")), deny, "rm"},
		{"a denied command in a chain", about(exec, line("git status && rm -rf /")), deny, "rm"},
		{"a denied command in a substitution", about(exec, line("echo $(rm -rf /)")), deny, "rm"},
		{"a denied command with quotes", about(exec, line(`r"m" -\rf /`)), deny, "rm"},
		{"a denied command by its folder", about(exec, line("/bin/rm -rf /")), deny, "rm"},
		{"a denied command in other case", about(exec, line("/bin/RM -rf /")), deny, "rm"},
		{"a denied command as root", about(exec, line("sudo -u x rm -rf /")), deny, "rm"},
		{"a denied command in an unparsed line", about(exec, line("rm -rf /; cat 'x")), deny, "rm"},
		{"a denied command of a function", about(exec, line("f() { rm -rf /; }; f")), deny, "rm"},
		{"a denied command for xargs", about(exec, line("ls | xargs rm -rf")), deny, "rm"},
		{"a denied command in other hands", about(exec, argv("env", "A=1", "rm", "-rf", "/")), deny, "rm"},
		{"arguments in another order", about(exec, line("rm -r -f x")), deny, "rm"},
		{"a denied command with a dynamic option", about(exec, line("rm $x /")), ask, "secrets"},
		{"a command that is only known when it runs", about(exec, line("$x -rf /")), ask, "secrets"},
		{"a command in braces", about(exec, line("{rm,-rf,/}")), ask, "secrets"},
		{"a piped script", about(exec, line("echo x | sh")), ask, "secrets"},
		{"the denied words as an argument", about(exec, line("echo rm -rf")), allow, "git"},
		{"a denied path as a word", about(exec, line("cat .env")), ask, "secrets"},
		{"a denied path in an option", about(exec, line("git log --output=/ws/.env")), ask, "secrets"},
		{"a denied path from the directory of the command", about(exec, line("cat id"), cwd("/home/u/.ssh")), ask, "secrets"},
		{"a denied path after dots", about(exec, line("cat a/../.env")), ask, "secrets"},
		{"a denied path that is redirected to", about(exec, line("echo x >.env"), path("/ws/.env")), deny, "secrets"},

		// Commands that are asked about.
		{"a command that is asked and allowed", about(exec, line("git push origin")), ask, "push"},
		{"a command that one rule asks by a star", about(exec, line("npm publish")), ask, "publish"},
		{"two rules that ask, one of them strict", about(exec, line("git push; npm publish")), ask, "publish"},

		// The rest.
		{"an action without conditions to meet", about("tool.think"), allow, "think"},
		{"a path that any kind may have", about("unknown", path("/open/a")), allow, "paths-only"},
		{"a change of mode", about("tool.switch_mode", path("/open/a")), ask, ""},
		{"an extension's method", about("_acme.com/x"), ask, ""},
		{"acphost's own files", about(read, path("/ws/a"), protected), deny, policy.Protected},
		{"acphost's own files, for a change of mode", about("tool.switch_mode", path("/ws/a"), protected), deny, policy.Protected},
		{"acphost's own folder", about(write, path("/home/u/.config/acphost/policy.yaml")), deny, policy.Protected},
		{"acphost's own folder by its real name", about(write, link("/ws/x", "/data/u/.config/acphost/x")), deny, policy.Protected},
		{"acphost's own folder in a command", about(exec, line("cat /home/u/.config/acphost/config.yaml")), ask, policy.Protected},
		{"nothing at all", nil, ask, "secrets"},
	}
	p := parse(t, rules)
	seen := map[string]bool{}
	for _, tt := range tests {
		if seen[tt.name] {
			t.Errorf("two cases are named %q", tt.name)
		}
		seen[tt.name] = true
		t.Run(tt.name, func(t *testing.T) {
			before := proto.Clone(tt.action)
			got := decide(p, tt.action)
			if got.GetVerdict() != tt.verdict || got.GetRule() != tt.rule {
				t.Errorf("got %v by %q (%s), want %v by %q", got.GetVerdict(), got.GetRule(), got.GetReason(), tt.verdict, tt.rule)
			}
			if got.GetReason() == "" || !strings.HasPrefix(got.GetPolicyDigest(), "sha256:") {
				t.Errorf("got %v; want a reason and a digest", got)
			}
			if !proto.Equal(before, tt.action) {
				t.Errorf("the action was changed to %v", tt.action)
			}
			if again := decide(p, tt.action); !proto.Equal(got, again) {
				t.Errorf("got %v, and then %v", got, again)
			}
		})
	}
}

func TestDecide_ReportsWhetherRuleNamesPath(t *testing.T) {
	p := parse(t, `
version: 1
rules:
- {id: named, on: [fs.read], path: ["/etc/hosts", "~/notes/**"], effect: allow}
- {id: by-name, on: [fs.read], path: ["**/*.md", "/**/*.txt", "/*/x"], effect: allow}
- {id: root, on: [fs.read], path: ["${root}/**"], effect: allow}
- {id: anywhere, on: [fs.write], effect: allow}
`)
	for _, c := range []struct {
		name   string
		action *permissionv1.Action
		want   bool
	}{
		{"a file", about("fs.read", path("/etc/hosts")), true},
		{"a folder of the home", about("fs.read", path("/home/u/notes/a")), true},
		{"only the end of the name", about("fs.read", path("/etc/a.md")), false},
		{"only the end of the name, with a slash in front", about("fs.read", path("/etc/a.txt")), false},
		{"some folder", about("fs.read", path("/etc/x")), false},
		{"a root", about("fs.read", path("/ws/a")), false},
		{"no path at all", about("fs.write", path("/etc/hosts")), false},
		{"another path beside it", about("fs.read", path("/etc/hosts", "/etc/a.md")), false},
		{"a link that leads elsewhere", about("fs.read", link("/etc/hosts", "/etc/a.md")), false},
	} {
		d := decide(p, c.action)
		if d.GetNamesPaths() != c.want {
			t.Errorf("%s: %v, want %v", c.name, d, c.want)
		}
	}
}

func TestStricter_NamesPathsOnlyIfBothDo(t *testing.T) {
	for _, c := range [][3]bool{{true, true, true}, {true, false, false}, {false, true, false}, {false, false, false}} {
		a, b := &permissionv1.DecideResponse{Verdict: allow, NamesPaths: c[0]}, &permissionv1.DecideResponse{Verdict: allow, NamesPaths: c[1]}
		if got := policy.Stricter(a, b).GetNamesPaths(); got != c[2] {
			t.Errorf("%v and %v: %v", c[0], c[1], got)
		}
	}
}

func TestStricter_NamesPathsIfOneAsks(t *testing.T) {
	for _, c := range [][3]bool{{true, true, true}, {true, false, true}, {false, true, true}, {false, false, false}} {
		a := &permissionv1.DecideResponse{Verdict: ask, NamesPaths: c[0]}
		b := &permissionv1.DecideResponse{Verdict: ask, NamesPaths: c[1], Grantable: true}
		if got := policy.Stricter(a, b).GetNamesPaths(); got != c[2] {
			t.Errorf("%v and %v: %v", c[0], c[1], got)
		}
	}
}

func TestDecide_NamesSocketOfAskRules(t *testing.T) {
	const (
		named = `version: 1
rules:
  - {id: every, effect: ask, on: [net.connect]}
  - {id: bus, effect: ask, path: ["/run/user/*/bus"]}
`
		other = "version: 1\nrules:\n  - {id: x, effect: deny, command: [x]}\n"
	)
	for _, c := range []struct {
		name   string
		rules  string
		action *permissionv1.Action
		want   bool
	}{
		{"a rule with the path", named, about("net.connect", path("/run/user/1/bus")), true},
		{"a rule without a path", named, about("net.connect", path("/run/other")), false},
		{"no rule", other, about("net.connect", path("/run/user/1/bus")), false},
		{"a file", named, about("fs.write", path("/run/user/1/bus")), false},
	} {
		d := decide(parse(t, c.rules), c.action)
		if d.GetVerdict() != ask || d.GetNamesPaths() != c.want {
			t.Errorf("%s: got %v, want ask that names the path: %t", c.name, d, c.want)
		}
	}
}

func TestDecide_ReportsWhetherAnswerIsGrantable(t *testing.T) {
	p := parse(t, rules)
	tests := map[string]struct {
		action *permissionv1.Action
		want   bool
	}{
		"no rule matches":                  {about("fs.read", path("/etc/x")), true},
		"no rule matches an unparsed line": {about("_acme.com/x", unparsed), false},
		"a rule asks":                      {about("terminal.create", line("git push")), true},
		"a rule asks and denies":           {about("terminal.create", line("npm publish")), false},
		"a rule may deny it":               {about("terminal.create", line("$x")), false},
		"a change of mode":                 {about("tool.switch_mode"), false},
		"an allowed action":                {about("tool.think"), false},
	}
	for name, tt := range tests {
		if got := decide(p, tt.action).GetGrantable(); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestDecide_ReturnsReasonOfRule(t *testing.T) {
	p := parse(t, rules)
	for want, action := range map[string]*permissionv1.Action{
		"no removing":                           about("terminal.create", line("rm -rf x")),
		"rule secrets forbids this":             about("fs.read", path("/ws/.env")),
		"rule read allows this":                 about("fs.read", path("/ws/a")),
		"rule push asks about this":             about("terminal.create", line("git push")),
		"this file is outside of the workspace": about("fs.read", path("/etc/x")),
		"acphost cannot check this command: part of `rm` is only known when it runs": about("terminal.create", func(a *permissionv1.Action) {
			a.Command = &permissionv1.Command{SubCommands: []*permissionv1.SubCommand{{Argv: []string{"rm", "$x"}, Dynamic: true}}}
		}, func(a *permissionv1.Action) { a.Roots = nil }),
	} {
		p := p
		if strings.HasPrefix(want, "rule rm") {
			p = parse(t, "version: 1\nrules: [{id: rm, command: [rm -rf], effect: deny}]")
		}
		if got := decide(p, action).GetReason(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDecide_ReasonNamesUnknownWords(t *testing.T) {
	p := parse(t, "version: 1\nrules:\n- {id: look, effect: allow, command: [ls, cat, mysql, cd]}\n- {id: secrets, effect: deny, path: ['/secret/**']}\n")
	for text, want := range map[string]string{
		"mysql -phunter2 a$x":  "acphost cannot check this command: the value of `…$x` is only known when it runs",
		"$x -a":                "acphost cannot check this command: the program `$x` is only known when it runs",
		"ls > $x":              "acphost cannot check this command: the file that it writes is only known when it runs",
		"cat {a,b} *.c":        "acphost cannot check this command: the values of `{a,b}`, `*.c` are only known when it runs",
		"make":                 "no rule of the policy allows this command",
		"ls && frobnicate 'a'": "`frobnicate a` (command 2 of 2): no rule of the policy allows this command",
	} {
		if got := decide(p, about("terminal.create", line(text))).GetReason(); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	alone := parse(t, "version: 1\nrules:\n- {id: look, effect: allow, command: [ls]}\n")
	for text, want := range map[string]string{
		"ls $x":         "acphost cannot check this command: the value of `$x` is only known when it runs",
		"make && ls":    "`make` (command 1 of 2): no rule of the policy allows this command",
		"eval \"$(x)\"": "acphost cannot read all of this command line",
	} {
		if got := decide(alone, about("terminal.create", line(text))).GetReason(); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestDecide_NamesParts(t *testing.T) {
	p := parse(t, `version: 1
rules:
- {id: look, effect: allow, command: [ls, echo, git status]}
- {id: files, effect: allow, on: [tool.edit], path: ["${root}/**"]}
- {id: push, effect: ask, command: [git push], reason: pushing is for a person}
- {id: publish, effect: ask, command: [npm publish], not_grantable: true}
- {id: ci, effect: ask, path: ["**/ci.yml"]}
- {id: rm, effect: deny, command: [rm, sudo]}
- {id: secrets, effect: deny, path: ["**/.env"], reason: secrets stay}
`)
	many := strings.Repeat("echo hello\n", 80)
	exec := func(text string) *permissionv1.Action { return about("terminal.create", line(text)) }
	for name, tt := range map[string]struct {
		action *permissionv1.Action
		want   string
	}{
		"a command alone is not named":    {exec("git push"), "pushing is for a person"},
		"one of many that is asked about": {exec(many + "git push --force origin main\n" + many), "`git push --force origin main` (command 81 of 161): pushing is for a person"},
		"an action that several rules ask about": {exec("git push; ls; npm publish"), "`npm publish` (command 3 of 3): the policy asks about this (rule publish); " +
			"`git push` (command 1 of 3): pushing is for a person (rule push)"},
		"one of many that is denied":          {exec("ls && sudo -n rm -rf x"), "`sudo rm -rf x` (command 2 of 2): rule rm forbids this"},
		"an action without a rule":            {exec("ls; 'my prog' a; git status; make"), "`'my prog' a` (command 2 of 4), `make` (command 4 of 4): no rule of the policy allows this command"},
		"all that no rule takes is not named": {exec("make; cmake"), "no rule of the policy allows this command"},
		"more than fits": {exec("ls" + strings.Repeat("; make", 9)), "`make` (command 2 of 10), `make` (command 3 of 10), `make` (command 4 of 10), " +
			"`make` (command 5 of 10), `make` (command 6 of 10), and 4 more: no rule of the policy allows this command"},
		"a long one":                    {exec("ls; make " + strings.Repeat("x", 500)), "`make " + strings.Repeat("x", 115) + "…` (command 2 of 2): no rule of the policy allows this command"},
		"one that imitates":             {exec("ls; make 'x` (command 1 of 1): fine'"), "`make 'x\\` (command 1 of 1): fine'` (command 2 of 2): no rule of the policy allows this command"},
		"one that a terminal obeys":     {exec("ls; make '\x1b[2K'"), "`make '\\x1b[2K'` (command 2 of 2): no rule of the policy allows this command"},
		"a file that a command touches": {about("terminal.create", line("echo x >.env"), path("/ws/.env")), "/ws/.env: secrets stay"},
		"one of many paths":             {about("tool.edit", path("/ws/a"), path("/ws/ci.yml")), "/ws/ci.yml: rule ci asks about this"},
		"a path that leads elsewhere":   {about("tool.edit", path("/ws/a"), link("/ws/x", "/ws/.env")), "/ws/x (which is /ws/.env): secrets stay"},
		"a path that no rule takes":     {about("tool.edit", path("/ws/a"), path("/etc/x")), "/etc/x: this file is outside of the workspace"},
		"a path alone is not named":     {about("tool.edit", path("/ws/ci.yml")), "rule ci asks about this"},
		"all that is not known":         {exec("ls $x; echo $y"), "acphost cannot check this command: the values of `$x`, `$y` are only known when it runs"},
	} {
		if got := decide(p, tt.action).GetReason(); got != tt.want {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, tt.want)
		}
	}
}

func TestDecide_PartsHaveReasonOfOwnRule(t *testing.T) {
	p := parse(t, `version: 1
rules:
- {id: trees, effect: ask, command: [rm -rf], reason: This removes what cannot be brought back., not_grantable: true}
- {id: network, effect: ask, command: [curl, wget], reason: This can carry files to anywhere., not_grantable: true}
- {id: push, effect: ask, command: [git push]}
- {id: long, effect: ask, command: [tar], reason: '`+strings.Repeat("y", 300)+`'}
- {id: five, effect: ask, command: [five]}
- {id: six, effect: ask, command: [six]}
- {id: ci, effect: ask, path: ["**/ci.yml"], reason: Others run this.}
- {id: lists, effect: ask, on: [fs.list]}
- {id: below, effect: ask, on: [fs.list], path: ["/ws/**"], reason: "Why list?"}
- {id: root, effect: deny, command: [sudo], reason: An agent does not change its user.}
- {id: stop, effect: deny, command: [halt]}
- {id: secrets, effect: deny, path: ["**/.env"], reason: Secrets stay.}
`)
	const trees, network = "This removes what cannot be brought back (rule trees)", "This can carry files to anywhere (rule network)"
	long := "rm -rf " + strings.Repeat("x", 200)
	shown := "`rm -rf " + strings.Repeat("x", 113) + "…`"
	exec := func(text string) *permissionv1.Action { return about("terminal.create", line(text)) }
	for name, tt := range map[string]struct {
		action     *permissionv1.Action
		verdict    permissionv1.Verdict
		rule, want string
	}{
		"two rules that ask": {exec("rm -rf build && curl http://x"), ask, "trees",
			"`rm -rf build` (command 1 of 2): " + trees + "; `curl http://x` (command 2 of 2): " + network},
		"commands of the same rule are grouped": {exec("curl a; rm -rf b; wget c"), ask, "trees",
			"`rm -rf b` (command 2 of 3): " + trees + "; `curl a` (command 1 of 3), `wget c` (command 3 of 3): " + network},
		"one rule": {exec("ls; curl a; wget c"), ask, "network",
			"`curl a` (command 2 of 3), `wget c` (command 3 of 3): This can carry files to anywhere."},
		"the rule that decides is first": {exec("git push; curl a"), ask, "network",
			"`curl a` (command 2 of 2): " + network + "; `git push` (command 1 of 2): the policy asks about this (rule push)"},
		"a command and a file": {about("terminal.create", line("git push; make > ci.yml"), path("/ws/ci.yml")), ask, "push",
			"`git push` (command 1 of 2): the policy asks about this (rule push); /ws/ci.yml: Others run this (rule ci)"},
		"two rules about the whole": {about("fs.list", path("/ws/a")), ask, "lists", "the policy asks about this (rule lists); Why list? (rule below)"},
		"two rules that deny": {about("terminal.create", line("sudo ls; halt; cat .env"), path("/ws/.env")), deny, "root",
			"`sudo ls` (command 1 of 3): An agent does not change its user (rule root); `halt` (command 2 of 3): the policy forbids this (rule stop); " +
				"/ws/.env: Secrets stay (rule secrets)"},
		"a denial omits rules that ask": {exec("sudo ls; curl a"), deny, "root",
			"`sudo ls` (command 1 of 2): An agent does not change its user."},
		"an action that may be denied, and one that is asked about": {exec("cat $x; curl a"), ask, "secrets",
			"acphost cannot check this command: the value of `$x` is only known when it runs (rule secrets); " +
				"`curl a` (command 2 of 2): " + network},
		"a long reason": {exec("git push; tar c x"), ask, "push",
			"`git push` (command 1 of 2): the policy asks about this (rule push); `tar c x` (command 2 of 2): " + strings.Repeat("y", 200) + "… (rule long)"},
		"long commands hide no other rule": {exec(long + "; " + long + "; curl a"), ask, "trees",
			shown + " (command 1 of 3), and 1 more: " + trees + "; `curl a` (command 3 of 3): " + network},
		"many commands hide no other rule": {exec(strings.Repeat("wget x;", 20) + "rm -rf b"), ask, "trees",
			"`rm -rf b` (command 21 of 21): " + trees + "; `wget x` (command 1 of 21), `wget x` (command 2 of 21), `wget x` (command 3 of 21), " +
				"`wget x` (command 4 of 21), `wget x` (command 5 of 21), and 15 more: " + network},
		"more rules than fit": {exec("rm -rf b; curl a; git push; tar c x; five; six"), ask, "trees",
			"`rm -rf b` (command 1 of 6): " + trees + "; `curl a` (command 2 of 6): " + network + "; `git push` (command 3 of 6): the policy asks about this (rule push); " +
				"`tar c x` (command 4 of 6): " + strings.Repeat("y", 200) + "… (rule long); and 2 more"},
		"escapes hide no other rule": {exec("rm -rf '" + strings.Repeat("\u2028", 200) + "'; curl a"), ask, "trees",
			"`rm -rf '" + strings.Repeat("\\u2028", 18) + "\\u20…` (command 1 of 2): " + trees + "; `curl a` (command 2 of 2): " + network},
	} {
		got := decide(p, tt.action)
		if got.GetVerdict() != tt.verdict || got.GetRule() != tt.rule || got.GetReason() != tt.want {
			t.Errorf("%s:\ngot  %v by %q: %q\nwant %v by %q: %q", name, got.GetVerdict(), got.GetRule(), got.GetReason(), tt.verdict, tt.rule, tt.want)
		}
	}
}

func TestDecide_NamesSameRuleOnce(t *testing.T) {
	p := parse(t, "version: 1\nrules: [{id: network, effect: ask, command: [curl], reason: This can carry files to anywhere.}]")
	twice := []policy.Part{{Policy: p, Layer: permissionv1.Layer_LAYER_USER}, {Policy: p, Layer: permissionv1.Layer_LAYER_WORKSPACE}}
	const want = "`curl x` (command 2 of 2): This can carry files to anywhere."
	if got := policy.Decide(twice, about("terminal.create", line("ls; curl x"))); got.GetReason() != want {
		t.Errorf("got %q, want %q", got.GetReason(), want)
	}
}

func TestDecide_WithoutRuleFile(t *testing.T) {
	p, err := policy.None(policy.Surroundings{Protected: []string{"/run/acphost"}})
	if err != nil {
		t.Fatal(err)
	}
	question := about("tool.read", path("/ws/a"))
	question.Door = permissionv1.Door_DOOR_REQUEST
	got := decide(p, question)
	want := &permissionv1.DecideResponse{Verdict: ask, Reason: "no policy is set", Grantable: true}
	if !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	call := about("fs.read", path("/ws/a"))
	call.Door = permissionv1.Door_DOOR_CALL
	if got := decide(p, call); got.GetVerdict() != allow || got.GetRule() != policy.NoPolicy {
		t.Errorf("a call: got %v", got)
	}
	if got := decide(p, about("fs.read", path("/run/acphost/x.sock"))); got.GetVerdict() != deny {
		t.Errorf("a protected path: got %v", got)
	}
}

func TestDecide_IgnoresOrderOfRules(t *testing.T) {
	sections := []string{"- {id: d, effect: deny, command: [rm]}\n", "- {id: a, effect: ask, command: [rm]}\n", "- {id: l, effect: allow, command: [rm]}\n"}
	for i := range sections {
		text := "version: 1\nrules:\n" + sections[i] + sections[(i+1)%3] + sections[(i+2)%3]
		if got := decide(parse(t, text), about("terminal.create", line("rm x"))); got.GetRule() != "d" {
			t.Errorf("got %v from\n%s", got, text)
		}
	}
}

func TestExample_DecidesAsDescribed(t *testing.T) {
	data, err := os.ReadFile("../../examples/workspace.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p := parse(t, string(data))
	for _, tt := range []struct {
		action  *permissionv1.Action
		verdict permissionv1.Verdict
	}{
		{about("fs.read", path("/ws/main.go")), allow},
		{about("fs.write", path("/ws/main.go")), allow},
		{about("tool.edit", path("/ws/main.go")), allow},
		{about("terminal.create", line("git status && git diff | head -50")), allow},
		{about("terminal.create", line("ls -la; cat README.md")), allow},
		{about("terminal.create", line("cat .env")), ask},
		{about("fs.read", path("/ws/.env")), deny},
		{about("fs.read", path("/ws/deploy/.env.production")), deny},
		{about("fs.read", path("/home/u/.ssh/id_rsa")), deny},
		{about("terminal.create", line("rm -rf build")), ask},
		{about("terminal.create", line("sudo ls")), deny},
		{about("terminal.create", line("git push")), ask},
		{about("fs.write", path("/ws/.git/hooks/pre-commit")), ask},
		{about("fs.read", path("/etc/passwd")), ask},
		{about("terminal.create", line("go test ./...")), ask},
	} {
		if got := decide(p, tt.action); got.GetVerdict() != tt.verdict {
			t.Errorf("%v: got %v, want %v", tt.action, got, tt.verdict)
		}
	}
}

// FuzzDecide_DeniedCommandStaysDenied hides a denied command in random ways, under a policy that allows everything else
// by kind.
func FuzzDecide_DeniedCommandStaysDenied(f *testing.F) {
	p := parse(f, "version: 1\nrules: [{id: d, command: [rm -rf], effect: deny},\n{id: kind, on: [terminal.create], effect: allow}, {id: words, command: ['*'], effect: allow}]")
	if got := decide(p, about("terminal.create", line("ls"))); got.GetVerdict() != allow {
		f.Fatalf("an action without a denial: got %v", got)
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	wraps := []func(string) string{
		func(s string) string { return "sh -c " + quote(s) },
		func(s string) string { return "bash -lc " + quote(s) },
		func(s string) string { return "env A=1 sh -c " + quote(s) },
		func(s string) string { return "sudo -n sh -c " + quote(s) },
		func(s string) string { return "timeout 5 sh -c " + quote(s) },
		func(s string) string { return "eval " + quote(s) },
		func(s string) string { return "ls && " + s },
		func(s string) string { return "ls;" + s },
		func(s string) string { return "ls | " + s },
		func(s string) string { return "ls\n" + s },
		func(s string) string { return "(" + s + ")" },
		func(s string) string { return "{ " + s + "\n}" },
		func(s string) string { return "echo $(" + s + "\n)" },
		func(s string) string { return "if true; then " + s + "\nfi" },
		func(s string) string { return "while " + s + "\ndo ls; done" },
		func(s string) string { return "f() { " + s + "\n}; f" },
		func(s string) string { return "x=$(" + s + "\n)" },
		func(s string) string { return "find . -exec sh -c " + quote(s) + ` \;` },
		func(s string) string { return "trap " + quote(s) + " EXIT" },
		func(s string) string { return "echo " + quote(s) + " | sh" },
		func(s string) string {
			return "cat <<EOF_" + fmt.Sprint(len(s)) + "\n$(" + s + "\n)\nEOF_" + fmt.Sprint(len(s)) + "\n"
		},
		func(s string) string { return "xargs -I{} sh -c " + quote(s) },
		func(s string) string { return "exec sh -c " + quote(s) + " >/dev/null" },
		func(s string) string { return "busybox sh -c " + quote(s) },
		func(s string) string { return "watch " + quote(s) },
	}
	denied := []string{"rm -rf /", "r'm' -rf x", `\rm "-rf"`, "/bin/rm -rf x", "sudo rm -rf x", "env -i rm -rf x", "nice -n 5 rm -rf x",
		"command rm -rf x", "xargs rm -rf", "find . -exec rm -rf {} +", "A=1 rm -rf x", ">f rm -rf x", "$x -rf", "r$x -rf /", "{rm,-rf,/}",
		"time -- rm -rf /", "sudo A=1 -u root rm -rf /", "echo $(( 'a[$(rm -rf /)]' ))", "x='$(rm -rf /)'; echo ${x@P}",
		"printf -v 'a[$(rm -rf /)]' x", "bash /dev/stdin <<< 'rm -rf /'", "mapfile -C 'rm -rf' -c 1 x", "alias l='rm -rf'\nl /",
		"bash -euoc pipefail 'rm -rf /'", "[[ -v 'a[$(rm -rf /)]' ]]", "coproc rm -rf /", "function f { rm -rf /; }; f",
		"BASH_CMDS[ls]=rm; ls -rf /", "busybox rm -rf /", "env -S 'rm -rf /'", "exec -a x rm -rf /", "source /dev/stdin <<< 'rm -rf /'"}
	for i := range wraps {
		f.Add([]byte{byte(i), byte(i * 3), byte(i * 7)}, byte(i))
	}
	f.Fuzz(func(t *testing.T, how []byte, what byte) {
		text := denied[int(what)%len(denied)]
		for _, b := range how[:min(len(how), 6)] {
			text = wraps[int(b)%len(wraps)](text)
		}
		if got := decide(p, about("terminal.create", line(text))); got.GetVerdict() == allow {
			t.Fatalf("%q is allowed by %s", text, got.GetRule())
		}
	})
}

func BenchmarkDecide_CommandByFiftyRules(b *testing.B) {
	p := parse(b, manyRules(50))
	action := about("terminal.create", line("git status && ls -la | head -5"), cwd("/ws"))
	for b.Loop() {
		decide(p, action)
	}
}

func BenchmarkDecide_ThousandPathsByHundredRules(b *testing.B) {
	p := parse(b, manyRules(100))
	action := about("fs.read")
	for i := range 1000 {
		link(fmt.Sprintf("/ws/src/package%d/internal/file%d.go", i%50, i), fmt.Sprintf("/ws/real/package%d/file%d.go", i%50, i))(action)
	}
	for b.Loop() {
		decide(p, action)
	}
}

func manyRules(n int) string {
	var b strings.Builder
	b.WriteString("version: 1\nrules:\n")
	for i := range n / 2 {
		fmt.Fprintf(&b, "- {id: d%d, path: ['/**/secret%d/**', '~/.app%d/**', '/**/*.key%d'], command: ['tool%d -x', 'sudo tool%d'], effect: deny}\n", i, i, i, i, i, i)
		fmt.Fprintf(&b, "- {id: p%d, path: ['/**/secret%d/**', '/**/*.key%d'], effect: deny}\n", i, i, i)
	}
	for i := range n / 2 {
		fmt.Fprintf(&b, "- {id: a%d, path: ['${root}/none%d/**'], effect: allow}\n- {id: c%d, command: ['none%d', 'git status', ls, head], effect: allow}\n", i, i, i, i)
	}
	return b.String()
}
