package importer_test

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/permd/internal/importer"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// imported is a file that was imported, as a policy.
type imported struct {
	*policy.Policy
	text    string
	dropped []*permissionv1.Dropped
	format  string
}

func load(t testing.TB, format, name, content string) imported {
	t.Helper()
	rules, dropped, used, err := importer.Import(format, name, []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse("imported.yaml", rules, policy.Surroundings{Home: "/home/u"})
	if err != nil {
		t.Fatalf("the result does not load: %v\n%s", err, rules)
	}
	return imported{p, string(rules), dropped, used}
}

func sample(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// check decides what each line names: a verdict, then a command, or a kind and a path. The root is /ws.
func (p imported) check(t *testing.T, lines string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		want, what, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		what, mode, _ := strings.Cut(strings.TrimSpace(what), "  @")
		a := act(what)
		a.Mode = mode
		d := policy.Decide([]policy.Part{{Policy: p.Policy}}, a)
		if got := verdict(d); got != want {
			t.Errorf("%s: got %s by rule %q (%s), want %s", what, got, d.GetRule(), d.GetReason(), want)
		}
	}
	if t.Failed() && testing.Verbose() {
		t.Log(p.text)
	}
}

func verdict(d *permissionv1.DecideResponse) string {
	return strings.ToLower(strings.TrimPrefix(d.GetVerdict().String(), "VERDICT_"))
}

func act(what string) *permissionv1.Action {
	a := &permissionv1.Action{Agent: "agent", Roots: []string{"/ws"}, ResolvedRoots: []string{"/ws"}}
	kind, file, _ := strings.Cut(what, " ")
	if !strings.HasPrefix(kind, "fs.") && !strings.HasPrefix(kind, "tool.") {
		a.Kind = "terminal.create"
		a.Command = &permissionv1.Command{Text: what}
		a.Command.SubCommands, a.Command.Unparsed = shell.Parse(what)
		for _, sub := range a.Command.SubCommands {
			policy.Ordinary(sub)
		}
		return a
	}
	a.Kind = kind
	if file != "" {
		asked, real, ok := strings.Cut(file, " -> ")
		if !ok {
			real = asked
		}
		a.Paths = []*permissionv1.PathAccess{{Path: asked, ResolvedPath: real,
			InsideRoots: strings.HasPrefix(asked, "/ws") && strings.HasPrefix(real, "/ws")}}
	}
	return a
}

// drops reports whether an entry that holds the text was reported.
func (p imported) drops(entry string) bool {
	for _, d := range p.dropped {
		if strings.Contains(d.GetEntry(), entry) && d.GetWhy() != "" {
			return true
		}
	}
	return false
}

func TestFormat_FromNameAndContent(t *testing.T) {
	for _, tt := range []struct{ name, content, want string }{
		{"/home/u/.claude/settings.json", `{}`, "claude"},
		{"/ws/.claude/settings.local.json", `{"permissions": {}}`, "claude"},
		{"x.json", `{"permissions": {"allow": []}}`, "claude"},
		{"my-rules.toml", "", "gemini"},
		{"rules", "[[rule]]\ntoolName = \"*\"\ndecision = \"ask_user\"\npriority = 1\n", "gemini"},
		{"opencode.json", `{}`, "opencode"},
		{"opencode.jsonc", `{/* nothing */}`, "opencode"},
		{"x.json", `{"permission": "ask"}`, "opencode"},
		{"x.json", `// c` + "\n" + `{"$schema": "https://opencode.ai/config.json",}`, "opencode"},
	} {
		if got := load(t, "", tt.name, tt.content).format; got != tt.want {
			t.Errorf("%s %s: got %s, want %s", tt.name, tt.content, got, tt.want)
		}
	}
}

func TestImport_RejectsUnreadableFiles(t *testing.T) {
	for name, tt := range map[string]struct{ format, file, content, want string }{
		"another format":              {"vim", "x", "{}", `expected the format claude, gemini or opencode, got "vim"`},
		"a file of no known agent":    {"", "x", "hello", "say claude, gemini or opencode"},
		"JSON of no known agent":      {"", "x.json", `{"a": 1}`, "say claude, gemini or opencode"},
		"broken JSON":                 {"claude", "x", `{"permissions": `, "expected JSON"},
		"a list":                      {"claude", "x", `[]`, "expected an object"},
		"broken TOML":                 {"gemini", "x", "[[rule]", "expected a policy in TOML"},
		"other bytes":                 {"claude", "x", "{\"\xff\": 1}", "UTF-8"},
		"a large file":                {"claude", "x", strings.Repeat(" ", 1<<20+1), "at most"},
		"deep brackets":               {"claude", "x", strings.Repeat("[", 300), "brackets"},
		"a name twice":                {"opencode", "x", `{"permission": {"bash": "deny", "bash": "allow"}}`, `"bash" again`},
		"an invalid list":             {"claude", "x", `{"permissions": {"allow": "Bash"}}`, "expected a list as permissions.allow"},
		"a list of other things":      {"claude", "x", `{"permissions": {"deny": [1]}}`, "expected texts in permissions.deny"},
		"an unknown effect":           {"opencode", "x", `{"permission": {"bash": {"a": "yes"}}}`, "expected allow, ask or deny as permission.bash.a"},
		"an unknown decision":         {"gemini", "x", "[[rule]]\ntoolName='a'\ndecision='yes'\npriority=1", "rule 1: expected allow, deny or ask_user"},
		"no priority":                 {"gemini", "x", "[[rule]]\ntoolName='a'\ndecision='deny'", "rule 1: expected a priority"},
		"a priority that is too high": {"gemini", "x", "[[rule]]\ntoolName='a'\ndecision='deny'\npriority=1000", "from 0 to 999"},
		"a prefix for another tool":   {"gemini", "x", "[[rule]]\ntoolName='a'\ncommandPrefix='b'\ndecision='deny'\npriority=1", "run_shell_command"},
		"a rule about nothing":        {"gemini", "x", "[[rule]]\ndecision='deny'\npriority=1", "a toolName or an mcpName"},
		"too many entries":            {"claude", "x", `{"permissions": {"deny": [` + strings.Repeat(`"Bash(a)",`, 3000) + `]}}`, "fewer than"},
	} {
		_, _, _, err := importer.Import(tt.format, tt.file, []byte(tt.content))
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "import ") {
			t.Errorf("%s: got %v, want %q in it", name, err, tt.want)
		}
	}
}

func TestImport_NamesSource(t *testing.T) {
	p := load(t, "", "/home/u/.claude/settings.json\nrules: []", `{"permissions": {"allow": ["Bash(ls:*)"], "deny": ["Bash(rm:*)"]}}`)
	if !strings.HasPrefix(p.text, "# What Claude Code allows, asks about and denies, from /home/u/.claude/settings.json rules: [].\n") {
		t.Errorf("it begins with\n%.200s", p.text)
	}
	if !strings.Contains(p.text, "Claude Code has: Bash(rm:*)") {
		t.Errorf("no rule states its origin:\n%s", p.text)
	}
}

func TestClaude_Settings(t *testing.T) {
	p := load(t, "", ".claude/settings.json", sample(t, "claude.json"))
	p.check(t, `
allow git diff
allow git diff --stat HEAD~1
allow git diff && git diff --cached
allow git diff && npm run lint
ask git diff && npm run lint --fix
ask git differ
ask git diff --output=x
ask git diff > x
ask git push
allow npm run test
allow npm run test unit
allow npm run lint
ask npm run lint --fix
ask npm run
allow docker ps
ask docker
allow make release-all x
ask git commit -m main
ask FOO=1 npm run test
allow ls lsof
deny curl https://example.com
deny sudo curl https://example.com
deny sh -c 'ls; curl x'
deny rm -rf /
deny git reset --hard HEAD
deny git reset HEAD --hard
ask git reset --soft HEAD
ask terraform apply
ask npm publish --tag next
deny fs.read /ws/.env
deny fs.write /ws/.env
deny fs.read /ws/a/.env
deny fs.read /ws/secrets/a/b
deny fs.read /ws/secrets
deny fs.read /home/u/.zshrc
deny fs.read /etc/ssl/key
deny fs.read /ws/x -> /ws/.env
allow fs.read /ws/docs/a.md
allow fs.read /ws/docs/sub/b.md
ask fs.read /ws/main.go
ask fs.read /ws/docs/a.md -> /etc/passwd
allow fs.write /ws/src/a/b.ts
ask fs.write /ws/src.ts
ask fs.write /other/src/a.ts
ask fs.write /ws/src/.git/config
ask fs.write /ws/src/.claude/settings.json
ask fs.write /ws/src/generated/a.ts
deny fs.write /ws/vendor/a.go
ask tool.fetch
ask tool.other
`)
	for _, entry := range []string{"WebFetch(domain:docs.example.com)", "mcp__github__get_issue", "Bash(git * main)", "Bash(ls*)",
		"Bash(* --version)", "Bash(echo \"hi\" *)", "Bash(FOO=1 npm test)", "Write(/src/**)", "additionalDirectories", "hooks", "Read(!x)", "Agent(Explore)",
		"mcp__slack"} {
		if !p.drops(entry) {
			t.Errorf("%s is not reported", entry)
		}
	}
	for _, entry := range []string{"Bash(git diff:*)", "Bash(npm run lint)", "Read(./.env)", "Edit(/src/**)", "Bash(curl:*)"} {
		if p.drops(entry) {
			t.Errorf("%s is reported, though it is carried over in full", entry)
		}
	}
}

func TestClaude_WholeTools(t *testing.T) {
	p := load(t, "claude", "s", `{"permissions": {"allow": ["Bash", "Read", "Edit", "WebFetch", "WebSearch", "Grep"], "deny": ["Bash(rm:*)", "mcp__*"]}}`)
	p.check(t, `
allow make all
deny rm x
ask sh x; $y
allow fs.read /etc/hosts
allow fs.write /tmp/x
ask fs.write /ws/.git/config
ask tool.delete /tmp/x
allow tool.fetch
allow tool.search
ask tool.other
`)
	p = load(t, "claude", "s", `{"permissions": {"allow": ["Bash(*)", "*"], "deny": ["Edit", "WebSearch"]}}`)
	p.check(t, "allow make\ndeny fs.write /ws/x\ndeny tool.delete /ws/x\ndeny tool.fetch\nask fs.read /ws/x\n")
	p = load(t, "claude", "s", `{"permissions": {"allow": ["Bash"], "deny": ["*"]}}`)
	p.check(t, "deny make\ndeny fs.read /ws/x\ndeny tool.other\n")
}

func TestClaude_Modes(t *testing.T) {
	p := load(t, "claude", "s", `{"permissions": {"defaultMode": "acceptEdits"}}`)
	p.check(t, "allow fs.write /ws/x\nask fs.write /tmp/x\nask fs.write /ws/.git/x\nask mkdir x\n")
	for _, mode := range []string{"plan", "dontAsk", "bypassPermissions", "auto"} {
		p := load(t, "claude", "s", `{"permissions": {"defaultMode": "`+mode+`"}}`)
		if !p.drops("defaultMode: " + mode) {
			t.Errorf("%s is not reported", mode)
		}
		p.check(t, "ask fs.write /ws/x\nask ls\n")
	}
}

func TestGemini_Policy(t *testing.T) {
	p := load(t, "", "rules.toml", sample(t, "gemini.toml"))
	p.check(t, `
allow git status
allow git status --short && git log
ask git statusx
ask git commit -m x
deny git push
deny git push origin
deny rm -rf /
ask npm install
allow npm test
ask make
deny ls
ask fs.read /etc/passwd
allow fs.read /ws/main.go
allow fs.write /ws/main.go  @autoEdit
ask fs.write /ws/main.go  @default
ask fs.write /tmp/x  @autoEdit
ask fs.write /ws/a/Makefile  @autoEdit
ask fs.write /ws/build.gradle.kts  @autoEdit
ask tool.fetch
ask tool.other
ask cat $x
`)
	for _, entry := range []string{`mcpName "jira"`, "argsPattern", `commandRegex "docker`, "safety_checker", "save_memory", "activate_skill"} {
		if !p.drops(entry) {
			t.Errorf("%s is not reported", entry)
		}
	}
}

func TestGemini_Priorities(t *testing.T) {
	p := load(t, "gemini", "x", `
[[rule]]
toolName = "run_shell_command"
decision = "deny"
priority = 1
[[rule]]
toolName = "run_shell_command"
commandPrefix = ["git", "ls"]
decision = "allow"
priority = 50
[[rule]]
toolName = "run_shell_command"
commandPrefix = "git push"
decision = "ask_user"
priority = 60
[[rule]]
toolName = "run_shell_command"
commandPrefix = "git push backup"
decision = "allow"
priority = 70
`)
	p.check(t, `
allow git status
allow ls -la
ask git push
allow git push backup
ask git push origin
deny make
deny ls; make
deny sudo ls
`)
	p = load(t, "gemini", "x", "[[rule]]\ntoolName='*'\ndecision='allow'\npriority=999\nmodes=['yolo']\n[[rule]]\ntoolName='run_shell_command'\ncommandPrefix='rm'\ndecision='deny'\npriority=1")
	p.check(t, "allow make  @yolo\nask make  @default\n")
	p = load(t, "gemini", "x", "[[rule]]\ntoolName='run_shell_command'\ndecision='allow'\npriority=9\n")
	p.check(t, "allow make\nask rm -rf x\nask ls; ln -s a b\n")
}

func TestOpencode_Permissions(t *testing.T) {
	p := load(t, "", "opencode.json", sample(t, "opencode.json"))
	p.check(t, `
allow git status
allow git log --oneline
ask git commit -m x
deny git push
deny git push origin
deny rm x
deny sudo rm x
ask make
allow grep -n a main.go
ask grep -n a /etc/passwd
ask grep -n a ../x
allow npm run build
ask npm run build x
deny fs.write /ws/main.go
deny fs.write /ws/docs/a.mdx
allow fs.read /ws/main.go
deny fs.read /ws/.env
deny fs.read /ws/x.env
deny fs.read /ws/a/b.env.local
ask fs.read /etc/passwd
ask tool.fetch
ask tool.other
`)
	for _, entry := range []string{"edit docs/*.mdx: allow", "webfetch: allow", "task: allow", "agent, mode, tools"} {
		if !p.drops(entry) {
			t.Errorf("%s is not reported", entry)
		}
	}
}

func TestOpencode_LastEntryWins(t *testing.T) {
	p := load(t, "opencode", "x", `{"permission": {"bash": {"*": "deny", "git *": "allow", "git push *": "ask", "git push backup": "allow", "7": "allow"}}}`)
	p.check(t, "allow git\nallow git status\nask git push\nask git push origin\nallow git push backup\nask git push backup x\ndeny make\ndeny 7\ndeny timeout 5 git status\n")
	p = load(t, "opencode", "x", `{"permission": {"bash": {"git *": "allow", "*": "ask"}}}`)
	p.check(t, "ask git status\n")
	p = load(t, "opencode", "x", `{"permission": "allow"}`)
	p.check(t, "allow make\nask make /etc\nallow fs.write /ws/x\nask fs.write /tmp/x\nallow fs.read /ws/x\ndeny fs.read /ws/.env\nask tool.fetch\nask tool.other\n")
	p = load(t, "opencode", "x", `{"permission": "deny"}`)
	p.check(t, "deny make\ndeny fs.write /ws/x\ndeny fs.read /ws/x\ndeny tool.fetch\ndeny tool.other\n")
	p = load(t, "opencode", "x", `{"permission": {"*": "allow", "edit": "deny", "external_directory": {"*": "allow"}}}`)
	p.check(t, "allow make /etc\ndeny fs.write /ws/x\nallow fs.read /ws/x\n")
	p = load(t, "opencode", "x", `{"permission": {"read": {"*": "allow", "src/secret*": "deny", "~/x/**": "deny", "a/*/c.txt": "ask"}, "external_directory": "deny"}}`)
	p.check(t, "allow fs.read /ws/a\ndeny fs.read /ws/src/secrets\ndeny fs.read /ws/src/secrets/a\ndeny fs.read /home/u/x/y\nask fs.read /ws/a/b/c.txt\ndeny fs.read /etc/hosts\n")
}
