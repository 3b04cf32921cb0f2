package policy_test

import (
	"testing"

	"go.uber.org/goleak"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const conditionRules = `
version: 1
rules:
- {id: strangers, effect: deny, agent: [stranger, "evil-*"]}
- {id: curl, effect: deny, when: "has(action.command) && action.command.sub_commands.exists(s, s.argv.size() > 0 && s.argv[0] == 'curl')"}
- {id: plan-writes, effect: deny, on: [fs.write], mode: [plan, "read*"]}
- {id: plan-rm, effect: ask, command: [rm], mode: [plan]}
- {id: bare-tee, effect: deny, command: [tee], redirect: none}
- {id: big, effect: ask, on: [fs.write], when: "action.paths.size() > 2"}
- {id: outside, effect: ask, on: [fs.read], when: "action.paths.exists(p, !p.inside_roots)"}
- {id: broken, effect: ask, on: [tool.delete], when: "action.paths[3].inside_roots"}
- {id: trusted-writes, effect: allow, on: [fs.write], path: ["${root}/**"], agent: ["trusted*"]}
- {id: code-writes, effect: allow, on: [fs.write], path: ["${root}/**"], mode: [code]}
- {id: plain, effect: allow, command: [ls, tee, rm], redirect: none}
- {id: into, effect: allow, command: [echo], redirect: any, path: ["${root}/out/**"]}
- {id: any-run, effect: allow, on: [tool.execute]}
- {id: any-run-into, effect: allow, on: [tool.other], redirect: any}
- {id: few, effect: allow, on: [fs.read], path: ["**"], when: "action.paths.size() == 1"}
- {id: when-run, effect: allow, command: [make], when: "action.command.sub_commands.size() == 1"}
- {id: anything, effect: allow, when: "action.title == 'go'"}
`

func TestDecide_AgentModeRedirectAndWhen(t *testing.T) {
	exec, read, write := "terminal.create", "fs.read", "fs.write"
	title := func(a *permissionv1.Action) { a.Title = "go" }
	code := mode("code")
	tests := []struct {
		name    string
		action  *permissionv1.Action
		verdict permissionv1.Verdict
		rule    string
	}{
		{"an agent by its name", about(read, path("/ws/a"), agent("stranger")), deny, "strangers"},
		{"an agent by a pattern", about(read, path("/ws/a"), agent("evil-one")), deny, "strangers"},
		{"an agent with a longer name", about(read, path("/ws/a"), agent("stranger2")), allow, "few"},
		{"an agent in other case", about(read, path("/ws/a"), agent("Stranger")), allow, "few"},
		{"an agent that is allowed", about(write, path("/ws/a"), agent("trusted-1"), mode("x")), allow, "trusted-writes"},
		{"an agent that is not", about(write, path("/ws/a"), mode("x")), ask, ""},

		{"a mode by its id", about(write, path("/ws/a"), mode("plan")), deny, "plan-writes"},
		{"a mode by a pattern", about(write, path("/ws/a"), mode("read-only")), deny, "plan-writes"},
		{"a mode that is allowed", about(write, path("/ws/a"), code), allow, "code-writes"},
		{"a mode that is not known", about(write, path("/ws/a")), ask, "plan-writes"},
		{"a mode that is not known, for an agent that is allowed", about(write, path("/ws/a"), agent("trusted")), ask, "plan-writes"},
		{"a mode that is not known, and another kind", about(read, path("/ws/a")), allow, "few"},
		{"a mode that is not known, and another command", about(exec, line("ls")), allow, "plain"},
		{"a mode that is not known, and the command", about(exec, line("rm x")), ask, "plan-rm"},
		{"another mode, and the command", about(exec, line("rm x"), code), allow, "plain"},

		{"redirect: none and no redirection", about(exec, line("tee x")), deny, "bare-tee"},
		{"redirect: none and a redirection", about(exec, line("tee x > y"), into("/ws/y")), ask, ""},
		{"redirect: none and output to nowhere", about(exec, line("tee x > /dev/null")), deny, "bare-tee"},
		{"redirect: none in an allow rule", about(exec, line("ls > y"), into("/ws/y")), ask, ""},
		{"redirect: any into the path", about(exec, line("echo x > out/y"), into("/ws/out/y")), allow, "into"},
		{"redirect: any and no redirection", about(exec, line("echo x")), allow, "into"},
		{"redirect: any into another path", about(exec, line("echo x > y"), into("/ws/y")), ask, ""},
		{"redirect: any, one file of two", about(exec, line("echo x > out/y 2> z"), into("/ws/out/y", "/ws/z")), ask, ""},
		{"redirect: any through a link", about(exec, line("echo x > out/y"), into("/etc/y")), ask, ""},
		{"redirect: any into a name that is not known", about(exec, line("echo x > $y")), ask, ""},
		{"redirect: any, not among the paths", about(exec, line("echo x > out/y")), ask, ""},
		{"every command, without redirections", about("tool.execute", line("go build")), allow, "any-run"},
		{"every command, with one to a file", about("tool.execute", line("go build > y"), into("/ws/y")), ask, ""},
		{"every command and redirection", about("tool.other", line("go build > y"), into("/ws/y")), allow, "any-run-into"},

		{"a condition that holds", about(write, path("/ws/a", "/ws/b", "/ws/c"), code), ask, "big"},
		{"a condition that does not", about(write, path("/ws/a", "/ws/b"), code), allow, "code-writes"},
		{"a condition on a command", about("tool.execute", line("ls; curl x")), deny, "curl"},
		{"a condition on a command, of an action without one", about(read, path("/ws/a")), allow, "few"},
		{"a condition on a command of a line that is not parsed", about("tool.execute", line("echo 'x")), ask, "curl"},
		{"a condition on a command of an action that is not parsed", about(write, path("/ws/a"), code, unparsed), ask, "curl"},
		{"a condition on paths", about(read, path("/etc/x")), ask, "outside"},
		{"a condition on paths that are not known", about(read, link("/ws/a", "")), ask, "outside"},
		{"a condition that fails asks", about("tool.delete", path("/ws/a")), ask, "broken"},
		{"a condition that allows", about(read, path("/ws/a")), allow, "few"},
		{"a condition that does not allow", about(read, path("/ws/a", "/ws/b")), ask, ""},
		{"a condition and a command", about(exec, line("make")), allow, "when-run"},
		{"a condition and a command, not met", about(exec, line("make; make")), ask, ""},
		{"a condition alone", about("tool.fetch", title), allow, "anything"},
		{"a condition alone does not mean commands", about(exec, line("gcc"), title), ask, ""},
		{"a condition alone does not match an unparsed line", about("tool.fetch", title, unparsed), ask, "curl"},
	}
	p := parse(t, conditionRules)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := decide(p, tt.action); got.GetVerdict() != tt.verdict || got.GetRule() != tt.rule {
				t.Errorf("got %v by %q (%s), want %v by %q", got.GetVerdict(), got.GetRule(), got.GetReason(), tt.verdict, tt.rule)
			}
		})
	}
}

func TestDecide_DynamicWords(t *testing.T) {
	p := parse(t, "version: 1\nrules:\n- {id: d, effect: deny, command: [rm -rf, git push --force]}\n- {id: a, effect: allow, on: [terminal.create]}\n")
	run := func(dynamic []uint32, argv ...string) *permissionv1.Action {
		return about("terminal.create", func(a *permissionv1.Action) {
			a.Command = &permissionv1.Command{SubCommands: []*permissionv1.SubCommand{{Argv: argv, Dynamic: true, DynamicWords: dynamic}}}
		})
	}
	for name, tt := range map[string]struct {
		action *permissionv1.Action
		want   permissionv1.Verdict
	}{
		"a word that looks like an option":             {run([]uint32{1}, "l$", "x"), allow},
		"the program":                                  {run([]uint32{0}, "x", "-rf"), ask},
		"the option":                                   {run([]uint32{1}, "rm", "x"), ask},
		"a word where the option may be":               {run([]uint32{2}, "rm", "x", "y"), ask},
		"a word after the option":                      {run([]uint32{2}, "rm", "-rf", "x"), deny},
		"a word after another command":                 {run([]uint32{2}, "git", "log", "x"), allow},
		"a word where the second may be":               {run([]uint32{1}, "git", "x", "--force"), ask},
		"a word after the options in another spelling": {run([]uint32{3}, "rm", "-f", "-r", "x"), deny},
		"without names":                                {run(nil, "ls", "x"), ask},
		"without names, denied":                        {run(nil, "rm", "-rf", "x"), deny},
	} {
		if got := decide(p, tt.action); got.GetVerdict() != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
	wrapped := run([]uint32{1}, "git", "x")
	wrapped.GetCommand().GetSubCommands()[0].Wrappers = []string{"sudo", "sh -c"}
	if got := decide(parse(t, "version: 1\nrules: [{id: d, effect: deny, command: [sudo sh -c git push]}, {id: a, effect: allow, on: [terminal.create]}]"), wrapped); got.GetVerdict() != ask {
		t.Errorf("behind wrappers: got %v", got)
	}
}

func TestDeny_PathFollowsLinksOfWords(t *testing.T) {
	p := parse(t, "version: 1\nrules:\n- {id: d, effect: deny, path: ['**/.env']}\n- {id: a, effect: allow, command: [cat, cd]}\n")
	if got := decide(p, about("terminal.create", line("cat innocent"))); got.GetVerdict() != allow {
		t.Errorf("a word that leads nowhere else: got %v", got)
	}
	for name, action := range map[string]*permissionv1.Action{
		"a link":                 about("terminal.create", line("cat innocent"), leads(1, "/ws/.env")),
		"a link in a chain":      about("terminal.create", line("cat a && cat innocent"), leads(1, "/ws/.env")),
		"a link, in other case":  about("terminal.create", line("cat innocent"), leads(1, "/ws/.ENV")),
		"a zero-width space":     about("terminal.create", line("cat .e\u200bnv")),
		"a word in a sub-folder": about("terminal.create", line("cd sub && cat .env")),
	} {
		if got := decide(p, action); got.GetVerdict() != ask || got.GetRule() != "d" {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func tool(name string) func(*permissionv1.Action) {
	return func(a *permissionv1.Action) { a.Tool = name }
}

func TestRule_ToolMatchesOnlyThatTool(t *testing.T) {
	p := parse(t, `
version: 1
rules:
- {id: database, effect: allow, tool: ['mcp__db__*'], tests: {match: [{tool: mcp__db__sql}], not_match: [{tool: mcp__db}, {tool: Bash, command: ls}]}}
- {id: production, effect: deny, tool: ['mcp__prod__*']}
`)
	for _, tt := range []struct {
		name   string
		action *permissionv1.Action
		want   permissionv1.Verdict
		rule   string
	}{
		{"the tool", about("tool.other", tool("mcp__db__sql")), allow, "database"},
		{"the tool, with an unparsed input", about("tool.other", tool("mcp__db__sql"), unparsed), allow, "database"},
		{"a denied one", about("tool.other", tool("mcp__prod__sql")), deny, "production"},
		{"another one", about("tool.other", tool("x__mcp__db__sql")), ask, ""},
		{"one that is not named", about("tool.other"), ask, "production"},
		{"a call", about("fs.read", path("/ws/a")), ask, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := decide(p, tt.action); d.GetVerdict() != tt.want || d.GetRule() != tt.rule {
				t.Errorf("got %v by %q, want %v by %q", d.GetVerdict(), d.GetRule(), tt.want, tt.rule)
			}
		})
	}
}
