package policy_test

import (
	"strings"
	"testing"
	"unicode"

	"google.golang.org/protobuf/proto"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

func mode(id string) func(*permissionv1.Action) {
	return func(a *permissionv1.Action) { a.Mode = id }
}

func agent(name string) func(*permissionv1.Action) {
	return func(a *permissionv1.Action) { a.Agent = name }
}

// leads sets where a word of the last simple command leads.
func leads(word uint32, to string) func(*permissionv1.Action) {
	return func(a *permissionv1.Action) {
		subs := a.GetCommand().GetSubCommands()
		last := subs[len(subs)-1]
		last.ResolvedWords = append(last.ResolvedWords, &permissionv1.ResolvedWord{Word: word, ResolvedPath: to})
	}
}

// into sets where the redirections of the last simple command lead, and adds these files to the action's paths.
func into(to ...string) func(*permissionv1.Action) {
	return func(a *permissionv1.Action) {
		subs := a.GetCommand().GetSubCommands()
		for i, r := range subs[len(subs)-1].GetRedirections() {
			r.ResolvedPath = to[i]
			link(to[i], to[i])(a)
		}
	}
}

func TestDecide_HasPlacesOfRules(t *testing.T) {
	mine := parse(t, `version: 1
rules:
  - {id: ls, effect: allow, on: [terminal.create], command: ["ls"]}
  - {id: pwd, effect: allow, on: [terminal.create], command: ["pwd"]}
  - {id: keys, effect: deny, path: ["**/*.key"]}
`)
	theirs := parse(t, "version: 1\nrules:\n  - {id: lists, effect: ask, on: [fs.list]}\n")
	parts := []policy.Part{
		{Policy: theirs, Name: "/ws/.acphost/policy.yaml", Layer: permissionv1.Layer_LAYER_WORKSPACE}, {Policy: mine, Name: "/home/u/p.yaml", Layer: permissionv1.Layer_LAYER_USER},
	}
	for _, c := range []struct {
		action *permissionv1.Action
		want   string
	}{
		{about("terminal.create", line("ls")), "allow ls /home/u/p.yaml:3"},
		{about("terminal.create", line("ls && pwd")), "allow ls, pwd /home/u/p.yaml:3, /home/u/p.yaml:4"},
		{about("fs.read", path("/ws/a.key")), "deny keys /home/u/p.yaml:5"},
		{about("fs.list", path("/ws/d")), "ask lists /ws/.acphost/policy.yaml:3"},
		{about("fs.write", path("/ws/a")), "ask  "},
		{about("fs.read", path("/home/u/.config/acphost")), "deny " + policy.Protected + " "},
	} {
		d := policy.Decide(parts, c.action)
		verdict := map[permissionv1.Verdict]string{allow: "allow", ask: "ask", deny: "deny"}[d.GetVerdict()]
		if got := verdict + " " + d.GetRule() + " " + d.GetPlace(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	parts[1].Name = strings.Repeat("x", 1000)
	if n := len(policy.Decide(parts, about("fs.read", path("/ws/a.key"))).GetPlace()); n > 600 {
		t.Errorf("a place has %d bytes", n)
	}
}

func TestExplain_ReasonOfEachRule(t *testing.T) {
	exec, read, write := "terminal.create", "fs.read", "fs.write"
	tests := []struct {
		name, rule string
		action     *permissionv1.Action
		matched    string
		why        string
	}{
		{"a kind", "effect: allow, on: [tool.think]", about("tool.think"), "yes", "on is tool.think"},
		{"another kind", "effect: allow, on: [fs.read, fs.list]", about(write, path("/ws/a")), "no", "on is fs.write, the rule is for fs.read, fs.list"},
		{"a deny rule for another kind", "effect: deny, on: [fs.read]", about(write), "no", "on is fs.write, the rule is for fs.read"},
		{"no kind", "effect: deny, on: [fs.read]", about(""), "maybe", "it cannot be told: the action has no kind"},
		{"no kind to allow", "effect: allow, on: [fs.read]", about(""), "no", "the action has no kind"},

		{"a path that is allowed", "effect: allow, on: [fs.read], path: ['${root}/**']", about(read, path("/ws/a")), "yes", "on is fs.read; path /ws/a matches ${root}/**"},
		{"a path outside", "effect: allow, path: ['${root}/**']", about(read, path("/etc/passwd")), "no", "path /etc/passwd matches none of its globs (it does not lie inside the session's roots)"},
		{"a path that leads out", "effect: allow, path: ['/ws/**']", about(read, link("/ws/l", "/etc/passwd")), "no", "path /ws/l leads to /etc/passwd, which matches none of its globs"},
		{"a path that is not resolved", "effect: allow, path: ['/ws/**']", about(read, link("/ws/l", "")), "no", "it is not known where every path leads"},
		{"no path to allow", "effect: allow, path: ['/ws/**']", about("tool.other"), "no", "the action names no path"},
		{"paths alone for a command", "effect: allow, path: ['/ws/**']", about(exec, line("ls"), path("/ws/a")), "no", "the rule names paths alone, and the action runs a command, which may touch others"},
		{"a denied path", "effect: deny, path: ['**/.env']", about(read, path("/ws/.env")), "yes", "path /ws/.env matches **/.env"},
		{"a link to a denied path", "effect: deny, path: ['**/.env']", about(read, link("/ws/x", "/ws/.env")), "yes", "path /ws/x leads to /ws/.env, which matches **/.env"},
		{"no denied path", "effect: deny, path: ['**/.env']", about(read, path("/ws/a")), "no", "no path matches"},
		{"no path to deny", "effect: deny, path: ['**/.env']", about("tool.other"), "no", "the action names no path"},
		{"a kind that names paths, without any", "effect: deny, path: ['**/.env']", about(read), "maybe", "it cannot be told: the action names no path"},
		{"a path to deny that is not resolved", "effect: deny, path: ['**/.env']", about(read, link("/ws/a", "")), "maybe", "it cannot be told: it is not known where /ws/a leads"},
		{"paths of an unparsed line", "effect: deny, path: ['**/.env']", about(read, path("/ws/a"), unparsed), "maybe", "it cannot be told which paths are touched: it is not clear"},
		{"a word that names a denied path", "effect: deny, path: ['**/.env']", about(exec, line("cat .env")), "maybe", "a word of the command may name /ws/.env, which matches **/.env"},
		{"a word that leads to a denied path", "effect: deny, path: ['**/.env']", about(exec, line("ls; cat x"), leads(1, "/ws/.env")), "maybe", "a word of the command may name /ws/.env, which matches **/.env"},
		{"a word in another directory", "effect: deny, path: ['/ws/a/secret']", about(exec, line("cd a && cat secret")), "maybe", "a word of the command may name /ws/a/secret, which matches /ws/a/secret"},
		{"a word that is not known, for a path", "effect: deny, path: ['**/.env']", about(exec, line("cat $x")), "maybe", "it cannot be told which paths are touched: the arguments `$x` of `cat` are only known when it runs"},
		{"a root of another name", "effect: ask, path: ['${root}/secret']", about(read, link("/ws/l", "/real/ws/secret"), func(a *permissionv1.Action) { a.Paths[0].InsideRoots = true }), "maybe", "path /ws/l leads to /real/ws/secret, which may match ${root}/secret"},

		{"a command", "effect: allow, command: [ls, git status]", about(exec, line("git status")), "yes", "command[1] `git status` matches"},
		{"commands with arguments", "effect: allow, command: [ls, git status]", about(exec, line("git status -s && ls")), "yes", "command[1] `git status` matches `git status -s`; command[0] `ls` matches"},
		{"another command", "effect: allow, command: [ls]", about(exec, line("ls; rm x")), "part", "it takes `ls` (command 1 of 2), and not the whole line: `rm x` begins with none of its commands"},
		{"a command with a danger", "effect: allow, command: [sort]", about(exec, line("sort -o x y")), "no", "sort -o writes a file, which the rule does not name"},
		{"a command that is not known", "effect: allow, command: [ls]", about(exec, line("ls $x")), "no", "it cannot be told: the arguments `$x` of `ls` are only known when it runs"},
		{"a line that is not parsed", "effect: allow, command: [ls]", about(exec, line("ls"), unparsed), "no", "it cannot be told what runs: it is not clear"},
		{"a variable in the line", "effect: allow, command: [ls]", about(exec, line("A=secret ls")), "no", "the line sets the variable A"},
		{"a variable beside it", "effect: allow, command: [ls]", about(exec, line("ls"), env("PATH=/secret")), "no", "the request sets the variable PATH, which may change what the command does"},
		{"a wrapper", "effect: allow, command: [ls]", about(exec, line("sudo ls")), "no", "`ls` runs under sudo"},
		{"a directory outside", "effect: allow, command: [ls]", about(exec, line("ls"), cwd("/tmp")), "no", "the command runs in /tmp, which is not known to be inside the roots"},
		{"a change of directory", "effect: allow, command: [cd, ls]", about(exec, line("cd $x && ls")), "no", "it cannot be told: the arguments `$x` of `cd` are only known when it runs"},
		{"no command to allow", "effect: allow, command: [ls]", about(read, path("/ws/a")), "no", "the action runs no command"},
		{"only a redirection", "effect: allow, command: [ls]", about(exec, line("> /dev/null")), "no", "the line runs no command"},
		{"a redirection to a file", "effect: allow, command: [ls]", about(exec, line("ls > x")), "no", "the command redirects to a file, x, and the rule does not say redirect: any"},
		{"a redirection that is not known", "effect: allow, command: [ls], redirect: any, path: ['/ws/**']", about(exec, line("ls > $x")), "no", "it cannot be told which file the command redirects to: that is only known when it runs"},
		{"a redirection that is covered", "effect: allow, command: [ls], redirect: any, path: ['/ws/**']", about(exec, line("ls > x"), into("/ws/x")), "yes", "command[0] `ls` matches; path /ws/x matches /ws/**"},
		{"a redirection elsewhere", "effect: allow, command: [ls], redirect: any, path: ['/ws/**']", about(exec, line("ls > /tmp/x"), into("/tmp/x")), "no", "path /tmp/x matches none of its globs"},
		{"a redirection under redirect: none", "effect: deny, command: [ls], redirect: none", about(exec, line("ls > x")), "no", "the command redirects to a file, the rule says redirect: none"},
		{"no redirection under redirect: none", "effect: deny, command: [ls], redirect: none", about(exec, line("ls")), "yes", "nothing is redirected to a file; command[0] `ls` matches"},
		{"a redirection of any command", "effect: allow, on: [terminal.create]", about(exec, line("ls > x")), "no", "the command redirects to a file, and the rule does not say redirect: any"},
		{"an odd rule", "effect: ask, redirect: any", about(read), "yes", "it matches every action"},
		{"a directory that is not known", "effect: deny, path: ['/home/u/.ssh/**']", about(exec, line("cd; cat .ssh/id")), "maybe", "it cannot be told which paths are touched: the directory of `cat` is only known when it runs"},
		{"a denied command", "effect: deny, command: [shutdown, rm -rf]", about(exec, line("ls && rm -fr /")), "yes", "command[1] `rm -rf` matches `rm -fr /`"},
		{"a denied wrapper", "effect: deny, command: [sudo]", about(exec, line("sudo ls")), "yes", "command[0] `sudo` matches `sudo ls` (under sudo)"},
		{"no denied command", "effect: deny, command: [rm]", about(exec, line("ls -l")), "no", "`ls -l` begins with none of its commands"},
		{"no denied command of several", "effect: deny, command: [rm]", about(exec, line("ls; cat x")), "no", "no part of the line begins with one of its commands"},
		{"no command to deny", "effect: deny, command: [rm]", about(read, path("/ws/a")), "no", "the action runs no command"},
		{"a program that is not known", "effect: deny, command: [rm]", about(exec, line("$x a")), "maybe", "it cannot be told whether `$x a` is `rm`: part of it is only known when it runs"},
		{"a denied command of an unparsed line", "effect: deny, command: [rm]", about(exec, line("ls"), unparsed), "maybe", "it cannot be told what runs: it is not clear"},
		{"a kind that runs commands, without one", "effect: deny, command: [rm]", about(exec), "maybe", "it cannot be told what runs: the action does not say which command it runs"},

		{"an agent", "effect: allow, on: [tool.think], agent: ['a*']", about("tool.think"), "yes", "on is tool.think; agent is a"},
		{"another agent", "effect: deny, agent: [b, c]", about("tool.think"), "no", "agent is a, the rule is for b, c"},
		{"a mode", "effect: deny, mode: [plan]", about("tool.think", mode("plan")), "yes", "mode is plan"},
		{"another mode", "effect: allow, on: [tool.think], mode: [plan]", about("tool.think", mode("code")), "no", "mode is code, the rule is for plan"},
		{"a mode that is not known", "effect: deny, mode: [plan]", about("tool.think"), "maybe", "it cannot be told: the session's mode is not known, the rule is for plan"},
		{"a mode to allow that is not known", "effect: allow, on: [tool.think], mode: [plan]", about("tool.think"), "no", "mode is not known, the rule is for plan"},

		{"a tool", "effect: allow, tool: ['mcp__db__*']", about("tool.other", tool("mcp__db__sql"), unparsed), "yes", "tool is mcp__db__sql"},
		{"another tool", "effect: allow, tool: ['mcp__db__*']", about("tool.other", tool("mcp__prod__sql")), "no", "tool is mcp__prod__sql, the rule is for mcp__db__*"},
		{"a tool that is not named", "effect: deny, tool: [Bash]", about("tool.other"), "maybe", "it cannot be told: the agent does not name the tool, the rule is for Bash"},
		{"a tool to allow that is not named", "effect: allow, tool: ['mcp__db__*']", about("tool.other"), "no", "tool is not known, the rule is for mcp__db__*"},
		{"a call, which is no tool's", "effect: deny, tool: ['*Bash']", about(read, path("/ws/a")), "no", "tool is not known, the rule is for *Bash"},

		{"a condition", "effect: ask, when: 'action.kind == \"fs.read\"'", about(read, path("/ws/a")), "yes", "when is true"},
		{"a condition that is false", "effect: allow, when: 'action.kind == \"x\"'", about(read, path("/ws/a")), "no", "when is false"},
		{"a condition that fails", "effect: deny, when: 'action.paths[7].inside_roots'", about(read, path("/ws/a")), "maybe", "when failed: index out of bounds: 7"},
		{"a condition on an unparsed line", "effect: allow, on: [fs.read], when: 'true'", about(read, path("/ws/a"), unparsed), "no", "it is not known in full what is done, so that when does not count: it is not clear"},
		{"a condition that may not mean commands", "effect: allow, when: 'true'", about(exec, line("ls")), "no", "the action runs a command, and neither on nor command says that when is about commands"},
		{"a false condition on a command that is not parsed", "effect: deny, when: 'action.command.text == \"x\"'", about(exec, line("ls"), unparsed), "maybe", "when is false, but looks at what is not known in full: it is not clear"},
		{"a false condition on the kind of an unparsed line", "effect: deny, when: 'action.kind == \"x\"'", about(exec, line("ls"), unparsed), "no", "when is false"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := parse(t, "version: 1\n# one\n\nrules:\n- {id: r, "+tt.rule+"}\n")
			got := policy.Explain([]policy.Part{{Policy: p, Name: "rules.yaml"}}, tt.action)
			want := &permissionv1.Considered{Rule: "r", Effect: strings.TrimSuffix(strings.Fields(tt.rule)[1], ","), File: "rules.yaml", Line: 5,
				Matched: tt.matched, Why: tt.why}
			if len(got.GetConsidered()) != 1 || !proto.Equal(got.GetConsidered()[0], want) {
				t.Errorf("got  %v\nwant %v", got.GetConsidered(), want)
			}
		})
	}
}

func TestExplain_KeepsOrder(t *testing.T) {
	user := parse(t, "version: 1\nrules:\n- {id: l, effect: allow, on: [fs.read]}\n\n- {id: d, effect: deny, path: ['**/.env']}\n- {id: a, effect: ask, on: [fs.write]}\n")
	workspace := parse(t, "version: 1\nrules:\n- {id: w, effect: allow, on: [fs.write]}\n- {id: x, effect: ask, on: [fs.read]}\n")
	parts := []policy.Part{{Policy: user, Name: "user"}, {Policy: workspace, Name: "guest", Layer: permissionv1.Layer_LAYER_WORKSPACE}}
	action := about("fs.read", path("/ws/a"))
	got := policy.Explain(parts, action)
	want := &permissionv1.ExplainResponse{Decision: policy.Decide(parts, action), Considered: []*permissionv1.Considered{
		{Rule: "l", Effect: "allow", File: "user", Line: 3, Matched: "yes", Why: "on is fs.read"},
		{Rule: "d", Effect: "deny", File: "user", Line: 5, Matched: "no", Why: "no path matches"},
		{Rule: "a", Effect: "ask", File: "user", Line: 6, Matched: "no", Why: "on is fs.read, the rule is for fs.write"},
		{Rule: "w", Effect: "allow", File: "guest", Line: 3, Matched: "no", Why: "on is fs.read, the rule is for fs.write; does not count: the workspace is not trusted"},
		{Rule: "x", Effect: "ask", File: "guest", Line: 4, Matched: "yes", Why: "on is fs.read"},
	}}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if got.GetDecision().GetRule() != "x" {
		t.Errorf("got the decision %v", got.GetDecision())
	}
	parts[1].Layer = permissionv1.Layer_LAYER_WORKSPACE_TRUSTED
	if got := policy.Explain(parts, action).GetConsidered()[3].GetWhy(); strings.Contains(got, "trusted") {
		t.Errorf("a trusted workspace: got %q", got)
	}
}

func TestExplain_RulesDoNotDecideModes(t *testing.T) {
	p := parse(t, "version: 1\nrules: [{id: r, effect: allow, on: ['tool.*']}]")
	got := policy.Explain([]policy.Part{{Policy: p}}, about("tool.switch_mode"))
	if why := got.GetConsidered()[0].GetWhy(); why != "on is tool.switch_mode; does not count: a change of mode is for a person to decide" {
		t.Errorf("got %q", why)
	}
	if got.GetDecision().GetVerdict() != ask {
		t.Errorf("got %v", got.GetDecision())
	}
}

func TestExplain_LimitsAndEscapesAgentText(t *testing.T) {
	p := parse(t, "version: 1\nrules:\n- {id: r, effect: allow, on: [tool.think], command: [ls], path: ['/a']}\n- {id: s, effect: deny, command: ['*']}\n")
	long := "\x1b]0;x\a\u202e\n" + strings.Repeat("ä", 10_000) + "\xff"
	for _, action := range []*permissionv1.Action{
		about(long), about("tool.think", argv("ls", long)), about("tool.think", path("/"+long)), about("tool.think", argv(long)),
		about("tool.think", argv("ls"), env(long+"=x")), about("tool.think", argv("ls"), cwd(long)), about("tool.think", argv("ls"), agent(long)),
	} {
		for _, c := range policy.Explain([]policy.Part{{Policy: p}}, action).GetConsidered() {
			if len(c.GetWhy()) > 2000 || strings.ContainsFunc(c.GetWhy(), func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("got %q", c.GetWhy())
			}
		}
	}
}
