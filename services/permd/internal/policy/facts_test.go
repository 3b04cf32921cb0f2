package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

// does sets the facts of simple command i of a line, and marks them complete.
func does(i int, what ...func(*permissionv1.Facts)) func(*permissionv1.Action) {
	return func(a *permissionv1.Action) {
		facts := &permissionv1.Facts{Known: true}
		for _, f := range what {
			f(facts)
		}
		a.GetCommand().GetSubCommands()[i].Facts = facts
	}
}

func reads(file string, more ...func(*permissionv1.FileUse)) func(*permissionv1.Facts) {
	return func(f *permissionv1.Facts) {
		use := &permissionv1.FileUse{Path: file, ResolvedPath: file, Access: permissionv1.Access_ACCESS_READ, InsideRoots: strings.HasPrefix(file, "/ws")}
		for _, m := range more {
			m(use)
		}
		f.Files = append(f.Files, use)
	}
}

func writes(file string, more ...func(*permissionv1.FileUse)) func(*permissionv1.Facts) {
	return reads(file, append(more, func(u *permissionv1.FileUse) { u.Access = permissionv1.Access_ACCESS_WRITE })...)
}

func recursive(u *permissionv1.FileUse) { u.Recursive, u.CanLeaveOut = true, true }
func possible(u *permissionv1.FileUse)  { u.Possible = true }
func tracked(u *permissionv1.FileUse)   { u.Tracked = true }
func names(u *permissionv1.FileUse)     { u.MetadataOnly = true }
func leading(to string) func(*permissionv1.FileUse) {
	return func(u *permissionv1.FileUse) { u.ResolvedPath, u.InsideRoots = to, strings.HasPrefix(to, "/ws") }
}

func unknown(f *permissionv1.Facts)  { f.Known, f.Unknown = false, "an option is not in the table" }
func runsCode(f *permissionv1.Facts) { f.RunsCode = true }
func network(f *permissionv1.Facts)  { f.Network = true }
func changes(f *permissionv1.Facts)  { f.Changes = true }

func TestAllow_RequiresCertainFacts(t *testing.T) {
	const look = `reads: ["${root}/**", "/dev/null"]`
	exec := "terminal.create"
	for _, tt := range []struct {
		name, rule string
		action     *permissionv1.Action
		want       permissionv1.Verdict
	}{
		{"a read inside", look, about(exec, line("cat a"), does(0, reads("/ws/a"))), allow},
		{"two reads inside", look, about(exec, line("cat a b"), does(0, reads("/ws/a"), reads("/ws/b"))), allow},
		{"nothing read", look, about(exec, line("date"), does(0)), allow},
		{"the null device", look, about(exec, line("cat /dev/null"), does(0, reads("/dev/null"))), allow},
		{"output to the null device", look, about(exec, line("ls | tee /dev/null"), does(0), does(1, writes("/dev/null"))), allow},
		{"output to the null device and a file", look, about(exec, line("tee /dev/null a"), does(0, writes("/dev/null"), writes("/ws/a"))), ask},
		{"output to a file that is not the null device", look, about(exec, line("tee /dev/null"), does(0, writes("/dev/null", leading("/etc/passwd")))), ask},
		{"output to a link to the null device", look, about(exec, line("tee a"), does(0, writes("/ws/a", leading("/dev/null")))), ask},
		{"output to a device", look, about(exec, line("tee /dev/sda"), does(0, writes("/dev/sda"))), ask},
		{"a walk inside", look, about(exec, line("grep -r x ."), does(0, reads("/ws", recursive))), allow},
		{"a read outside", look, about(exec, line("cat /etc/passwd"), does(0, reads("/etc/passwd"))), ask},
		{"a read outside that is only possible", look, about(exec, line("cat x"), does(0, reads("/etc/passwd", possible))), ask},
		{"a read inside that is only possible", look, about(exec, line("cat x"), does(0, reads("/ws/a", possible))), allow},
		{"one of two outside", look, about(exec, line("cat a /etc/passwd"), does(0, reads("/ws/a"), reads("/etc/passwd"))), ask},
		{"a read that leads outside", look, about(exec, line("cat a"), does(0, reads("/ws/a", leading("/etc/passwd")))), ask},
		{"a read by dots", look, about(exec, line("cat ../x"), does(0, reads("/ws/../x", leading("/x")))), ask},
		{"a read with a false inside_roots", look, about(exec, line("cat x"), does(0, reads("/etc/x", func(u *permissionv1.FileUse) { u.InsideRoots = true }))), allow},
		{"a read without inside_roots", look, about(exec, line("cat x"), does(0, reads("/ws/x", func(u *permissionv1.FileUse) { u.InsideRoots = false }))), ask},
		{"a read that is not resolved", look, about(exec, line("cat a"), does(0, reads("/ws/a", leading("")))), ask},
		{"a read without a path", look, about(exec, line("cat a"), does(0, reads(""))), ask},
		{"a use that is neither", look, about(exec, line("cat a"), does(0, reads("/ws/a", func(u *permissionv1.FileUse) { u.Access = 0 }))), ask},
		{"a write", look, about(exec, line("touch a"), does(0, writes("/ws/a"))), ask},
		{"more than files", look, about(exec, line("kill 1"), does(0, changes)), ask},
		{"code", look, about(exec, line("make"), does(0, runsCode)), ask},
		{"the network", look, about(exec, line("curl x"), does(0, network)), ask},
		{"an unknown effect", look, about(exec, line("cat a"), does(0, reads("/ws/a"), unknown)), ask},
		{"no facts", look, about(exec, line("cat a")), ask},
		{"more files than there may be", look, about(exec, line("cat a"), does(0, slices.Repeat([]func(*permissionv1.Facts){reads("/ws/a")}, 1001)...)), ask},
		{"a word that is only known when it runs", look, about(exec, line("cat $x"), does(0, reads("/ws/a"))), ask},
		{"a line that is not parsed", look, about(exec, line("cat 'a"), func(a *permissionv1.Action) {
			a.Command.SubCommands = []*permissionv1.SubCommand{{Argv: []string{"cat"}, Facts: &permissionv1.Facts{Known: true}}}
		}), ask},
		{"an odd variable", look, about(exec, line("LD_PRELOAD=x cat a"), does(0, reads("/ws/a"))), ask},
		{"a harmless variable", look, about(exec, line("LC_ALL=C cat a"), does(0, reads("/ws/a"))), allow},
		{"an odd variable of the request", look, about(exec, line("cat a"), env("LD_PRELOAD=x"), does(0, reads("/ws/a"))), ask},
		{"as root", look, about(exec, line("sudo cat a"), does(0, reads("/ws/a"))), ask},
		{"under a time limit", look, about(exec, line("timeout 5 cat a"), does(0, reads("/ws/a"))), allow},
		{"under xargs, with all its words", look, about(exec, line("xargs -I% cat a"), does(0, reads("/ws/a"))), allow},
		{"under xargs, with words that are not known", look, about(exec, line("xargs cat a"), does(0, reads("/ws/a"))), ask},
		{"under xargs that sets a variable", look, about(exec, line("xargs --process-slot-var=PATH -I% cat a"), does(0, reads("/ws/a"))), ask},
		{"under find", look, about(exec, line(`find . -exec cat a \;`), does(0), does(1, reads("/ws/a"))), allow},
		{"under find, with words that are not known", look, about(exec, line(`find . -exec cat {} \;`), does(0), does(1, reads("/ws/a"))), ask},
		{"by another git's folder", look, about(exec, line("git --git-dir=x -C . status"), does(0)), ask},
		{"a program of the workspace by its path", look, about(exec, line("./cat a"), does(0, reads("/ws/a"))), ask},
		{"a program of the workspace by an absolute path", look, about(exec, line("/ws/bin/cat a"), does(0, reads("/ws/a"))), ask},
		{"a program of the system by its path", look, about(exec, line("/usr/bin/cat a"), does(0, reads("/ws/a"))), allow},
		{"a program of the system that lies in a root", look, about(exec, line("/usr/bin/cat a"), does(0, reads("/ws/a")), func(a *permissionv1.Action) {
			a.Command.SubCommands[0].Program = &acpv1.Program{Path: "/usr/bin/cat", InsideRoots: true}
		}), ask},
		{"a program of the workspace by its name", look, about(exec, line("cat a"), does(0, reads("/ws/a")), func(a *permissionv1.Action) {
			a.Command.SubCommands[0].Program = &acpv1.Program{Path: "/ws/bin/cat", InsideRoots: true}
		}), ask},
		{"a program that is not known", look, about(exec, line("cat a"), does(0, reads("/ws/a")), func(a *permissionv1.Action) { a.Command.SubCommands[0].Program = nil }), ask},
		{"a directory that the agent may not be in", look, about(exec, line("cat a"), does(0, reads("/ws/a")), func(a *permissionv1.Action) { a.Command.CwdDoubtful = true }), ask},
		{"a directory outside", look, about(exec, line("cat /ws/a"), cwd("/etc"), does(0, reads("/ws/a"))), ask},
		{"a redirection", look, about(exec, line("cat a > b"), into("/ws/b"), does(0, reads("/ws/a"))), ask},
		{"a redirection that the path covers", look + `, redirect: any, path: ["${root}/out/**"]`, about(exec, line("cat a > out/b"), into("/ws/out/b"), does(0, reads("/ws/a"))), allow},
		{"input from a file", look, about(exec, line("sort < a"), into("/ws/a"), does(0)), allow},
		{"input from a file outside", look, about(exec, line("sort < /etc/x"), into("/etc/x"), does(0)), ask},
		{"input from a link that leads out", look, about(exec, line("sort < a"), does(0), link("/ws/a", "/etc/x"), resolvedTo("/etc/x")), ask},
		{"input from a file that is not among the paths", look, about(exec, line("sort < a"), does(0), resolvedTo("/ws/a")), ask},
		{"input from and output to a file", look, about(exec, line("sort < a > b"), into("/ws/a", "/ws/b"), does(0)), ask},
		{"a file opened for both", look, about(exec, line("sort <> a"), into("/ws/a"), does(0)), ask},
		{"a part of a line", look, about(exec, line("cat a; rm b"), does(0, reads("/ws/a"))), ask},
		{"all parts of a line", look, about(exec, line("cat a | sort"), does(0, reads("/ws/a")), does(1)), allow},
		{"an action without a command", look, about("fs.read", path("/ws/a")), ask},
		{"only assignments", look, about(exec, line("LC_ALL=C")), ask},
		{"no words", look, about(exec, func(a *permissionv1.Action) {
			a.Command = &permissionv1.Command{SubCommands: []*permissionv1.SubCommand{{Facts: &permissionv1.Facts{Known: true}}}}
		}), ask},
		{"git's own file, written", `writes: ["**"]`, about(exec, line("touch x"), does(0, writes("/ws/.git/hooks/x"))), ask},

		{"another folder of the root", `reads: ["${root}/src/**"]`, about(exec, line("cat a"), does(0, reads("/ws/a"))), ask},
		{"that folder", `reads: ["${root}/src/**"]`, about(exec, line("ls src"), does(0, reads("/ws/src", names))), allow},
		{"a walk of that folder", `reads: ["${root}/src/**"]`, about(exec, line("rg x src"), does(0, reads("/ws/src", recursive))), allow},
		{"a walk through a glob that ends", `reads: ["${root}/*"]`, about(exec, line("rg x src"), does(0, reads("/ws/src", recursive))), ask},
		{"a walk through a folder named like a file", `reads: ["**/*.go"]`, about(exec, line("rg x a.go"), does(0, reads("/ws/a.go", recursive))), ask},
		{"case that differs", `reads: ["/ws/Src/**"]`, about(exec, line("cat src/a"), does(0, reads("/ws/src/a"))), ask},
		{"everything", `reads: ["**"]`, about(exec, line("cat /etc/x"), does(0, reads("/etc/x"))), allow},
		{"everything, and a write", `reads: ["**"]`, about(exec, line("cp a b"), does(0, reads("/ws/a"), writes("/ws/b"))), ask},
		{"a write that is named, and a read", `writes: ["${root}/**"]`, about(exec, line("cp a b"), does(0, reads("/ws/a"), writes("/ws/b"))), ask},
		{"both", `reads: ["${root}/**"], writes: ["${root}/out/**"]`, about(exec, line("cp a out/b"), does(0, reads("/ws/a"), writes("/ws/out/b"))), allow},
		{"code that the rule takes", look + ", runs_code: true", about(exec, line("make"), does(0, runsCode)), allow},
		{"no code where the rule is for code", look + ", runs_code: true", about(exec, line("cat"), does(0)), ask},
		{"the network, which the rule takes", look + ", network: true", about(exec, line("git fetch"), does(0, network)), allow},
		{"no code", "command: [make], runs_code: false", about(exec, line("make -n"), does(0)), allow},
		{"code", "command: [make], runs_code: false", about(exec, line("make"), does(0, runsCode)), ask},
		{"no code, by command and not known", "command: [make], runs_code: false", about(exec, line("make"), does(0, unknown)), ask},
		{"a command and its reads", `command: [cat], reads: ["${root}/**"]`, about(exec, line("cat a"), does(0, reads("/ws/a"))), allow},
		{"another command with such reads", `command: [cat], reads: ["${root}/**"]`, about(exec, line("head a"), does(0, reads("/ws/a"))), ask},
		{"a condition", look + `, when: "action.command.sub_commands.all(s, s.facts.files.size() < 2)"`, about(exec, line("cat a"), does(0, reads("/ws/a"))), allow},
		{"a condition that does not hold", look + `, when: "action.command.sub_commands.all(s, !s.facts.known)"`, about(exec, line("cat a"), does(0, reads("/ws/a"))), ask},
	} {
		p := parse(t, "version: 1\nrules: [{id: r, effect: allow, "+tt.rule+"}]")
		if got := decide(p, tt.action); got.GetVerdict() != tt.want {
			t.Errorf("%s: got %v (%s), want %v", tt.name, got.GetVerdict(), got.GetReason(), tt.want)
		}
	}
}

func TestDeny_MatchesInDoubt(t *testing.T) {
	exec := "terminal.create"
	const secrets = `path: ["**/.env", "/home/u/.ssh/**"]`
	for _, tt := range []struct {
		name, rule string
		action     *permissionv1.Action
		want       permissionv1.Verdict
	}{
		{"a file that is read", secrets, about(exec, line("cat .env"), does(0, reads("/ws/.env"))), deny},
		{"in other case", secrets, about(exec, line("cat .ENV"), does(0, reads("/ws/.ENV"))), deny},
		{"through a link", secrets, about(exec, line("cat a"), does(0, reads("/ws/a", leading("/ws/.env")))), deny},
		{"by its name", secrets, about(exec, line("ls .env"), does(0, reads("/ws/.env", names))), deny},
		{"a file that is written", secrets, about(exec, line("cp a .env"), does(0, reads("/ws/a"), writes("/ws/.env"))), deny},
		{"as the second of a line", secrets, about(exec, line("ls; cat .env"), does(0), does(1, reads("/ws/.env"))), deny},
		{"a word that only looks like a file", secrets, about(exec, line("grep -n .env README.md"), does(0, reads("/ws/README.md"))), allow},
		{"such a word of a command that is not known", secrets, about(exec, line("grep -n .env README.md"), does(0, reads("/ws/README.md"), unknown)), ask},
		{"such a word of a program of the workspace", secrets, about(exec, line("grep -n .env README.md"), does(0, reads("/ws/README.md")), func(a *permissionv1.Action) {
			a.Command.SubCommands[0].Program = &acpv1.Program{Path: "/ws/bin/grep", InsideRoots: true}
		}), ask},
		{"such a word with an odd variable", secrets, about(exec, line("LD_PRELOAD=x grep .env README.md"), does(0, reads("/ws/README.md"))), ask},
		{"such a word of one of two", secrets, about(exec, line("grep .env README.md; x .env"), does(0, reads("/ws/README.md"))), ask},
		{"a redirection", secrets, about(exec, line("sort < .env"), into("/ws/.env"), does(0)), deny},
		{"a file that is not resolved", secrets, about(exec, line("cat a"), does(0, reads("/ws/a", leading("")))), ask},
		{"a folder that is walked for names", secrets, about(exec, line("find . -name .env"), does(0, reads("/ws", recursive, names))), allow},
		{"a folder that is walked", secrets, about(exec, line("grep -r x ."), does(0, reads("/ws", recursive))), allow},
		{"a folder that is walked, and denied itself", secrets, about(exec, line("grep -r x /home/u/.ssh"), does(0, reads("/home/u/.ssh", recursive))), deny},
		{"a folder that is removed", secrets, about(exec, line("rm -r sub"), does(0, writes("/ws/sub", recursive))), ask},
		{"acphost's own", `path: ["/none"]`, about(exec, line("cat x"), does(0, reads("/home/u/.config/acphost/x"))), deny},

		{"reads", `reads: ["**/.env"]`, about(exec, line("cat .env"), does(0, reads("/ws/.env"))), deny},
		{"reads, of another", `reads: ["**/.env"]`, about(exec, line("cat a"), does(0, reads("/ws/a"))), allow},
		{"reads, of one that is written", `reads: ["**/.env"]`, about(exec, line("touch .env"), does(0, writes("/ws/.env"))), allow},
		{"reads, only possibly", `reads: ["**/.env"]`, about(exec, line("cat $(ls | head -1)"), does(0, reads("/ws/.env", possible))), ask},
		{"a path that is read only possibly", `path: ["**/.env"]`, about(exec, line("cat $(ls | head -1)"), does(0, reads("/ws/.env", possible))), ask},
		{"one of two reads only possibly", `reads: ["**/.env"]`, about(exec, line("cat .env a"), does(0, reads("/ws/.env"), reads("/ws/.env.a", possible))), deny},
		{"reads, not known", `reads: ["**/.env"]`, about(exec, line("x")), ask},
		{"reads, one of two not known", `reads: ["**/.env"]`, about(exec, line("cat a; x"), does(0, reads("/ws/a"))), ask},
		{"reads, of an action without a command", `reads: ["**/.env"]`, about("fs.list", path("/ws/.env")), allow},
		{"reads, of a line that is not parsed", `reads: ["**/.env"]`, about(exec, line("cat 'x")), ask},
		{"writes", `writes: ["**/ci.yml"]`, about(exec, line("touch ci.yml"), does(0, writes("/ws/ci.yml"))), deny},
		{"writes below", `writes: ["**/ci.yml"]`, about(exec, line("rm -r ci"), does(0, writes("/ws/ci", recursive))), ask},
		{"writes elsewhere", `writes: ["/etc/**"]`, about(exec, line("rm -r ci"), does(0, writes("/ws/ci", recursive))), allow},
		{"code", `runs_code: true`, about(exec, line("make"), does(0, runsCode)), deny},
		{"code, and the rest not known", `runs_code: true`, about(exec, line("make"), does(0, runsCode, unknown)), deny},
		{"code, not known", `runs_code: true`, about(exec, line("make")), ask},
		{"no code", `runs_code: true`, about(exec, line("ls"), does(0)), allow},
		{"no network, not known", `network: false`, about(exec, line("ls")), ask},
		{"the network", `network: true`, about(exec, line("ls; curl x"), does(0), does(1, network)), deny},
		{"a condition on facts", `when: "action.command.sub_commands.exists(s, s.facts.network)"`, about(exec, line("curl x"), does(0, network)), deny},
	} {
		p := parse(t, "version: 1\nrules:\n- {id: d, effect: deny, "+tt.rule+"}\n- {id: a, effect: allow, on: [terminal.create, fs.list]}\n")
		if got := decide(p, tt.action); got.GetVerdict() != tt.want || got.GetReason() == "" {
			t.Errorf("%s: got %v (%s), want %v", tt.name, got.GetVerdict(), got.GetReason(), tt.want)
		}
		if e := policy.Explain([]policy.Part{{Policy: p}}, tt.action); slices.ContainsFunc(e.GetConsidered(), func(c *permissionv1.Considered) bool { return c.GetWhy() == "" }) {
			t.Errorf("%s: a rule without a reason: %v", tt.name, e)
		}
	}
}

func TestDecide_CommandMustExcludeDeniedFiles(t *testing.T) {
	const rules = `
version: 1
rules:
- {id: secrets, effect: deny, path: ["**/.env", "~/.ssh/**", "/etc/shadow", "${root}/private/**", "/ws/sub/x/*.key"]}
- {id: writes, effect: deny, on: [fs.write], path: ["**/never"]}
- {id: reads, effect: ask, reads: ["**/ledger"]}
- {id: other, effect: ask, command: [cat], path: ["**/cats"]}
- {id: same, effect: ask, command: [grep], path: ["**/.env", "**/greps"]}
- {id: look, effect: allow, reads: ["**"]}
`
	p := parse(t, rules)
	for name, tt := range map[string]struct {
		use  func(*permissionv1.Facts)
		want []string
	}{
		"the root":             {reads("/ws", recursive), []string{"**/.env", "/ws/private/**", "/ws/sub/x/*.key", "**/greps", "**/ledger"}},
		"in other case":        {reads("/WS/SUB", recursive), []string{"**/.env", "/ws/sub/x/*.key", "**/greps", "**/ledger"}},
		"the home":             {reads("/home", recursive), []string{"/home/u/.config/acphost/**", "**/.env", "/home/u/.ssh/**", "**/greps", "**/ledger"}},
		"the home's real name": {reads("/x", recursive, leading("/data")), []string{"/data/u/.config/acphost/**", "**/.env", "/data/u/.ssh/**", "**/greps", "**/ledger"}},
		"a file of git":        {reads("/ws/sub", recursive, tracked), []string{"/home/u/.config/acphost/**", "/data/u/.config/acphost/**", "**/.env", "/home/u/.ssh/**", "/data/u/.ssh/**", "/etc/shadow", "/ws/private/**", "/ws/sub/x/*.key", "**/greps", "**/ledger"}},
		"a file":               {reads("/ws/a"), nil},
		"names alone":          {reads("/ws", recursive, names), nil},
		"all there is":         {reads("/", recursive), []string{"/home/u/.config/acphost/**", "/data/u/.config/acphost/**", "**/.env", "/home/u/.ssh/**", "/data/u/.ssh/**", "/etc/shadow", "/ws/private/**", "/ws/sub/x/*.key", "**/greps", "**/ledger"}},
	} {
		got := decide(p, about("terminal.create", line("grep -r x y"), does(0, tt.use)))
		slices.Sort(got.LeaveOut)
		slices.Sort(tt.want)
		if got.GetVerdict() != allow || !slices.Equal(got.GetLeaveOut(), tt.want) {
			t.Errorf("%s: got %v, %q, want %q", name, got.GetVerdict(), got.GetLeaveOut(), tt.want)
		}
	}

	search := about("tool.search", func(a *permissionv1.Action) {
		a.Paths = []*permissionv1.PathAccess{{Path: "/ws/sub", ResolvedPath: "/ws/sub", InsideRoots: true, Access: permissionv1.Access_ACCESS_READ, Recursive: true}}
	})
	searching := parse(t, rules+"- {id: search, effect: allow, on: [tool.search], path: [\"${root}/**\"]}\n")
	if got, want := decide(searching, search), []string{"**/.env", "/ws/sub/x/*.key", "**/ledger"}; got.GetVerdict() != allow || !slices.Equal(got.GetLeaveOut(), want) {
		t.Errorf("a search of the agent's: got %v, %q, want %q", got.GetVerdict(), got.GetLeaveOut(), want)
	}

	var many []string
	for i := range 201 {
		many = append(many, fmt.Sprintf("'**/secret%d'", i))
	}
	list := func(n int) *policy.Policy {
		return parse(t, "version: 1\nrules:\n- {id: d, effect: deny, path: ["+strings.Join(many[:n], ", ")+"]}\n- {id: a, effect: allow, reads: ['**']}\n")
	}
	walk := about("terminal.create", line("grep -r x ."), does(0, reads("/ws", recursive)))
	if got := decide(list(200), walk); got.GetVerdict() != allow || len(got.GetLeaveOut()) != 200 {
		t.Errorf("200 globs: got %v", got)
	}
	if got := decide(list(201), walk); got.GetVerdict() != ask || len(got.GetLeaveOut()) != 0 {
		t.Errorf("201 globs: got %v", got)
	}
	asking := strings.Replace(rules, "{id: look, effect: allow, reads: [\"**\"]}", "{id: greps, effect: ask, command: [grep]}", 1)
	want := []string{"/ws/private/**", "**/.env", "/ws/sub/x/*.key"}
	slices.Sort(want)
	got := decide(parse(t, asking), walk)
	if slices.Sort(got.LeaveOut); got.GetVerdict() != ask || !slices.Equal(got.GetLeaveOut(), want) {
		t.Errorf("a question: got %v, %q, want %q", got.GetVerdict(), got.GetLeaveOut(), want)
	}
	tooMany := parse(t, "version: 1\nunattended: allow\nrules:\n- {id: d, effect: deny, path: ["+strings.Join(many, ", ")+"]}\n- {id: a, effect: ask, command: [grep]}\n")
	if got := decide(tooMany, walk); got.GetVerdict() != ask || got.GetUnattended() != deny || got.GetGrantable() || len(got.GetLeaveOut()) != 0 {
		t.Errorf("a question with 201 globs: got %v", got)
	}
	some := parse(t, "version: 1\nrules:\n- {id: d, effect: deny, path: ["+strings.Join(many[:150], ", ")+"]}\n"+
		"- {id: q, effect: ask, path: ["+strings.Join(many[150:], ", ")+"]}\n- {id: a, effect: allow, reads: ['**']}\n")
	if got := decide(some, walk); got.GetVerdict() != ask || got.GetUnattended() != deny || len(got.GetLeaveOut()) != 150 {
		t.Errorf("150 globs of deny rules and 51 of ask rules: got %v", got)
	}
	asks := &permissionv1.DecideResponse{Verdict: ask, LeaveOut: []string{"**/a"}}
	a := &permissionv1.DecideResponse{Verdict: allow, LeaveOut: []string{"**/a"}}
	b := &permissionv1.DecideResponse{Verdict: allow, LeaveOut: []string{"**/b", "**/a"}}
	if got := policy.Stricter(a, b); !slices.Equal(got.GetLeaveOut(), []string{"**/a", "**/b"}) || len(a.GetLeaveOut()) != 1 {
		t.Errorf("two decisions: got %v", got)
	}
	if got := policy.Stricter(b, asks); got.GetVerdict() != ask || !slices.Equal(got.GetLeaveOut(), []string{"**/a", "**/b"}) {
		t.Errorf("a question and an allowance: got %v", got)
	}
}

func TestAllow_RulesCombineForOneLine(t *testing.T) {
	p := parse(t, `
version: 1
rules:
- {id: look, effect: allow, reads: ["${root}/**"]}
- {id: test, effect: allow, command: [go test, npm run], reason: The project's own code.}
- {id: tools, effect: allow, command: [pytest], workspace_programs: true}
- {id: plan, effect: allow, command: [gofmt], mode: [code]}
- {id: one, effect: allow, command: [make], when: "action.command.sub_commands.size() == 1"}
- {id: dry, effect: allow, command: [deploy], when: "action.command.sub_commands.exists(s, s.argv.exists(w, w == '--dry'))"}
- {id: into, effect: allow, command: [echo], redirect: any, path: ["${root}/out/**"]}
- {id: push, effect: ask, command: [git push]}
`)
	look := func(i int) func(*permissionv1.Action) { return does(i, reads("/ws/a")) }
	workspace := func(i int) func(*permissionv1.Action) {
		return func(a *permissionv1.Action) {
			a.Command.SubCommands[i].Program = &acpv1.Program{Path: "/ws/bin/x", InsideRoots: true}
		}
	}
	exec := func(text string, with ...func(*permissionv1.Action)) *permissionv1.Action {
		return about("terminal.create", append([]func(*permissionv1.Action){line(text)}, with...)...)
	}
	for _, tt := range []struct {
		name   string
		action *permissionv1.Action
		want   permissionv1.Verdict
		rule   string
		reason string
	}{
		{"two rules", exec("go test ./... | tail", look(1)), allow, "test, look",
			"`go test ./...` (command 1 of 2): The project's own code (rule test); `tail` (command 2 of 2): the policy allows this (rule look)"},
		{"one rule", exec("go test ./... && npm run lint"), allow, "test", "The project's own code."},
		{"a command that no rule takes", exec("go test | frob | tail", look(2)), ask, "", "`frob` (command 2 of 3): no rule of the policy allows this command"},
		{"a rule that asks", exec("go test; git push"), ask, "push", ""},
		{"a rule for another mode", exec("gofmt x; go test"), ask, "", "`gofmt x` (command 1 of 2)"},
		{"a rule for the mode", exec("gofmt x; go test", mode("code")), allow, "plan, test", ""},
		{"a condition on the line that does not hold", exec("make; go test"), ask, "", "`make` (command 1 of 2)"},
		{"a condition that another command meets", exec("npm run --dry; deploy"), ask, "", "`deploy` (command 2 of 2)"},
		{"a condition that the command meets", exec("npm run x; deploy --dry"), allow, "test, dry", ""},
		{"a condition that one of two meets", exec("deploy --dry; deploy; npm run x"), ask, "", "`deploy` (command 2 of 3)"},
		{"a condition that one of two meets, of one rule", exec("deploy --dry; deploy"), ask, "", ""},
		{"a redirection that one rule takes", exec("go test && echo x > out/y", into("/ws/out/y")), allow, "test, into", ""},
		{"a redirection of the other command", exec("echo x && go test > out/y", into("/ws/out/y")), ask, "", "`go test` (command 2 of 2)"},
		{"a redirection elsewhere", exec("go test && echo x > y", into("/ws/y")), ask, "", ""},
		{"a program of the workspace for the rule that takes those", exec("pytest | tail", look(1), workspace(0)), allow, "tools, look", ""},
		{"a program of the workspace for the other", exec("pytest | tail", look(1), workspace(1)), ask, "", "`tail` (command 2 of 2): acphost is not sure which programs or files this command uses"},
		{"a word that is not known", exec("go test | cat $x", look(1)), ask, "", ""},
		{"an odd variable of the request", exec("go test | tail", look(1), env("LD_PRELOAD=x")), ask, "", ""},
		{"a variable that the line sets", exec("export PATH=/x; go test"), ask, "", ""},
		{"a folder that is not known", exec("cd $x; go test"), ask, "", ""},
		{"git's own", exec("go test; cp x .git/hooks/y", does(1, reads("/ws/a"))), ask, "", ""},
	} {
		got := decide(p, tt.action)
		if got.GetVerdict() != tt.want || got.GetRule() != tt.rule || !strings.HasPrefix(got.GetReason(), tt.reason) {
			t.Errorf("%s: got %v by %q (%s), want %v by %q (%s)", tt.name, got.GetVerdict(), got.GetRule(), got.GetReason(), tt.want, tt.rule, tt.reason)
		}
	}
	untrusted := policy.Part{Policy: parse(t, "version: 1\nrules: [{id: w, effect: allow, command: [frob]}]"), Layer: permissionv1.Layer_LAYER_WORKSPACE}
	user := policy.Part{Policy: p, Layer: permissionv1.Layer_LAYER_USER}
	mixed := exec("go test; frob")
	if got := policy.Decide([]policy.Part{user, untrusted}, mixed); got.GetVerdict() != ask {
		t.Errorf("a rule of an untrusted workspace: got %v", got)
	}
	untrusted.Layer = permissionv1.Layer_LAYER_WORKSPACE_TRUSTED
	if got := policy.Decide([]policy.Part{user, untrusted}, mixed); got.GetVerdict() != allow || got.GetRule() != "test, w" {
		t.Errorf("a rule of a workspace that is trusted: got %v", got)
	}
	considered := policy.Explain([]policy.Part{user}, exec("go test | frob")).GetConsidered()
	if i := slices.IndexFunc(considered, func(c *permissionv1.Considered) bool { return c.GetRule() == "test" }); considered[i].GetMatched() != "part" ||
		!strings.HasPrefix(considered[i].GetWhy(), "it takes `go test` (command 1 of 2), and not the whole line: ") {
		t.Errorf("got %v", considered[i])
	}
}

func TestDecide_ReasonWhyCommandIsNotReadOnly(t *testing.T) {
	p := parse(t, "version: 1\nrules:\n- {id: look, effect: allow, reads: ['${root}/**']}\n- {id: plan, effect: allow, reads: ['**'], mode: [plan]}\n")
	for _, tt := range []struct {
		action       *permissionv1.Action
		want, detail string
	}{
		{about("terminal.create", line("cat a"), does(0, reads("/ws/a", leading("/etc/x")))),
			"this command uses files outside of the workspace", "`cat a` reads /ws/a (which is /etc/x), which matches none of the rule's reads"},
		{about("terminal.create", line("cat a; frob"), does(0, reads("/ws/a")), does(1, unknown)),
			"`frob` (command 2 of 2): no rule of the policy allows this command", "it is not known what `frob` does: an option is not in the table"},
		{about("terminal.create", line("touch a"), does(0, writes("/ws/a"))), "no rule of the policy allows this command", "`touch a` writes /ws/a, which matches none of the rule's writes"},
		{about("terminal.create", line("kill 1"), does(0, changes)), "no rule of the policy allows this command", "`kill 1` changes more than files"},
		{about("terminal.create", line("sudo cat a"), does(0)), "no rule of the policy allows this command", ""},
		{about("fs.read", path("/etc/x")), "this file is outside of the workspace", ""},
	} {
		if got := decide(p, tt.action); got.GetReason() != tt.want || got.GetDetail() != tt.detail {
			t.Errorf("got %q, in detail %q, want %q, in detail %q", got.GetReason(), got.GetDetail(), tt.want, tt.detail)
		}
	}
}

func TestDecide_ThousandCommandsAreQuick(t *testing.T) {
	rules := "version: 1\nrules:\n- {id: d, effect: deny, path: ['**/.env', '**/*.key']}\n"
	for i := range 30 {
		rules += fmt.Sprintf("- {id: r%d, effect: allow, command: [none%d, ls], when: \"action.command.sub_commands.all(s, s.argv.size() < 9)\"}\n", i, i)
	}
	p := parse(t, rules+"- {id: look, effect: allow, reads: ['${root}/**']}\n")
	a := about("terminal.create", line(strings.Repeat("cat a; ls x; ", 500)))
	for i := range 500 {
		does(2*i, reads(fmt.Sprintf("/ws/a%d", i)), reads("/ws/b"))(a)
	}
	testkit.TakesAtMost(t, 5*time.Second, "the decision", func() {
		if got := decide(p, a); got.GetVerdict() != allow || got.GetRule() != "look, r0" {
			t.Errorf("got %v by %q (%.200s)", got.GetVerdict(), got.GetRule(), got.GetReason())
		}
	})
}
