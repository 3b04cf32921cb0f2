package ready

import (
	"path"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/internal/facts"
	"github.com/acphost/acphost/internal/secretfile"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNames_ListPolicies(t *testing.T) {
	var got []string
	for _, p := range List() {
		got = append(got, p.GetName())
		if p.GetDescription() == "" || len(p.GetContent()) == 0 {
			t.Errorf("%s has the description %q and %d bytes", p.GetName(), p.GetDescription(), len(p.GetContent()))
		}
	}
	if want := []string{"ask", "headless", "readonly", "workspace"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	entries, err := files.ReadDir("policies")
	if err != nil || len(entries) != len(got) {
		t.Errorf("%d files, %d policies, %v", len(entries), len(got), err)
	}
}

func TestGet_RejectsOtherNames(t *testing.T) {
	for _, name := range []string{"", "none", "../ready", "policies/ask", `..\ask`, "ask.yaml", "ASK"} {
		if content, ok := Get(name); ok {
			t.Errorf("%q is a policy of %d bytes", name, len(content))
		}
	}
}

func TestRules_HaveReasonAndTests(t *testing.T) {
	for _, p := range List() {
		for _, rule := range read(t, p).GetRules() {
			if rule.GetReason() == "" || len(rule.GetTests().GetMatch()) == 0 {
				t.Errorf("%s: rule %s has the reason %q and %d tests", p.GetName(), rule.GetId(), rule.GetReason(), len(rule.GetTests().GetMatch()))
			}
		}
	}
}

// decision is an action in short: a command line, or a kind and a path behind it.
type decision struct {
	want string
	what string
}

func TestPolicies_DecideAsDocumented(t *testing.T) {
	for name, table := range map[string][]decision{"ask": askTable(), "workspace": workspaceTable(), "readonly": readonlyTable(), "headless": headlessTable()} {
		if len(table) < 40 {
			t.Errorf("%s has a table of %d decisions, want at least 40", name, len(table))
		}
		content, _ := Get(name)
		p, err := policy.Parse(name, content, policy.Surroundings{Home: "/home/u"})
		if err != nil {
			t.Errorf("%s does not load: %v", name, err)
			continue
		}
		for _, d := range table {
			got := policy.Decide([]policy.Part{{Policy: p}}, act(d.what))
			if verdict := strings.ToLower(strings.TrimPrefix(got.GetVerdict().String(), "VERDICT_")); verdict != d.want {
				t.Errorf("%s: %s: got %s by rule %q (%s), want %s", name, d.what, verdict, got.GetRule(), got.GetReason(), d.want)
			}
			if got.GetUnattended() == permissionv1.Verdict_VERDICT_ALLOW {
				t.Errorf("%s: %s: is allowed without an answer", name, d.what)
			}
		}
	}
}

// TestPolicies_DecideReadsOfProcessesByPath checks that one decision holds for other files, too. Otherwise permd decides
// each file that a process opens, and each decision is recorded.
func TestPolicies_DecideReadsOfProcessesByPath(t *testing.T) {
	for _, name := range []string{"headless", "readonly", "workspace"} {
		content, _ := Get(name)
		p, err := policy.Parse(name, content, policy.Surroundings{Home: "/home/u"})
		if err != nil {
			t.Fatal(err)
		}
		parts, read := []policy.Part{{Policy: p}}, act("fs.read /usr/lib/x.so")
		read.Door = permissionv1.Door_DOOR_KERNEL
		if got := policy.Reusable(parts, read, policy.Decide(parts, read)); !got.GetEveryFile() {
			t.Errorf("%s: got %v, want a decision that holds for every file except those of rules", name, got)
		}
	}
}

// act builds an action. The root is /ws. "fs.read PATH [-> REAL]" is a path; anything else a command line.
func act(what string) *permissionv1.Action { return actOn(what, byName) }

// content decides about a file whose content is used, or not.
type content func(file string, reads bool) secretfile.Verdict

// byName says of files with some names that they were read and hold nothing but public keys.
func byName(file string, _ bool) secretfile.Verdict {
	if strings.HasPrefix(path.Base(file), "public.") {
		return secretfile.Public
	}
	return secretfile.Ordinary
}

func actOn(what string, of content) *permissionv1.Action {
	a := &permissionv1.Action{Agent: "agent", Roots: []string{"/ws"}, ResolvedRoots: []string{"/ws"}}
	kind, rest, _ := strings.Cut(what, " ")
	if !strings.Contains(kind, ".") && kind != "elicitation" && kind != "unknown" || strings.Contains(kind, "/") {
		kind, rest = "terminal.create", what
	}
	a.Kind = kind
	if kind == "terminal.create" || kind == "tool.execute" {
		a.Command = &permissionv1.Command{Text: rest}
		a.Command.SubCommands, a.Command.Unparsed = shell.Parse(rest)
		for _, sub := range a.Command.SubCommands {
			policy.Ordinary(sub)
			if sub.GetCwd() != "" {
				sub.Cwd = folder(sub)
			}
			sub.Facts = facts.Of(sub, folder(sub), &facts.Disk{Look: of.look})
			for _, r := range sub.GetRedirections() {
				if r.GetPath() != "" && r.GetPath() != "/dev/null" {
					r.ResolvedPath = of.touch(a, r.GetPath(), "", r.GetOperator() == "<").GetResolvedPath()
				}
			}
		}
		return a
	}
	if rest != "" {
		asked, real, _ := strings.Cut(rest, " -> ")
		of.touch(a, asked, real, slices.Contains([]string{"fs.read", "fs.list", "tool.read", "tool.search"}, kind))
	}
	return a
}

// folder is where a simple command runs.
func folder(sub *permissionv1.SubCommand) string {
	switch dir := sub.GetCwd(); {
	case sub.GetCwdUnknown():
		return ""
	case path.IsAbs(dir):
		return dir
	default:
		return path.Join("/ws", dir)
	}
}

// look finds no links, and no folders but the root.
func (of content) look(file string) facts.Place {
	file = path.Clean(file)
	return facts.Place{
		Resolved: file, Inside: inside(file), NoFolder: file != "/ws",
		Content: func(reads bool) secretfile.Verdict { return of(file, reads) },
	}
}

func inside(p string) bool { return p == "/ws" || strings.HasPrefix(p, "/ws/") }

func (of content) touch(a *permissionv1.Action, asked, real string, reads bool) *permissionv1.PathAccess {
	if !path.IsAbs(asked) {
		asked = "/ws/" + asked
	}
	if real == "" {
		real = path.Clean(asked)
	}
	access := &permissionv1.PathAccess{Access: permissionv1.Access_ACCESS_WRITE, Path: asked, ResolvedPath: real, InsideRoots: inside(path.Clean(asked)) && inside(real)}
	if reads {
		access.Access = permissionv1.Access_ACCESS_READ
	}
	verdict := of(real, reads)
	access.Public, access.HoldsPrivateKey = verdict == secretfile.Public, reads && verdict == secretfile.HoldsKey
	a.Paths = append(a.Paths, access)
	return access
}

// laterTable are files that something runs by itself: an editor that opens the folder, an agent, a git hook, a package
// manager, a shell at its start, continuous integration.
const laterTable = `
.github/workflows/test.yml .github/actions/a/action.yml .github/copilot-setup.yml .gitea/workflows/a.yml .gitlab/ci/a.yml
.circleci/config.yml .semaphore/semaphore.yml .buildkite/pipeline.yml .jenkins/x .gitlab-ci.yml .gitlab-ci.yaml .cirrus.yml .build.yml
azure-pipelines.yml buildspec.yml cloudbuild.yaml .readthedocs.yaml .drone.star .cirrus.star Jenkinsfile ci/Jenkinsfile.release
netlify.toml vercel.json render.yaml
.vscode/tasks.json .vscode/settings.json .vscode/mcp.json .VSCode/Tasks.JSON web/.vscode/launch.json my.code-workspace .zed/tasks.json
.zed/settings.json .zed/debug.json .idea/workspace.xml .fleet/run.json .devcontainer/devcontainer.json .devcontainer.json .gitpod.yml
.gitpod.Dockerfile .replit .stackblitzrc .nvim.lua .exrc .vimrc .lvimrc .ideavimrc .dir-locals.el .emacs .emacs.d/init.el
.gdbinit .lldbinit .lldbinit-Xcode .pythonstartup .pdbrc .irbrc .Rprofile sitecustomize.py src/sitecustomize.py
.venv/lib/python3.13/site-packages/x.pth
.claude/settings.json .claude/settings.local.json .gemini/settings.json .codex/config.toml .cursor/mcp.json .opencode/plugin/x.ts
.qwen/settings.json .windsurf/x .continue/config.yaml .kiro/hooks/x .roo/mcp.json .amp/settings.json .factory/mcp.json .goose/config.yaml
.junie/mcp/mcp.json .clinerules/hooks/x .pi/settings.json .mcp.json mcp.json .opencode.json opencode.json opencode.jsonc crush.json
.aider.conf.yml .aiderignore .github/hooks/a.json .github/agents/x.md .github/copilot-hooks.json .claude-plugin/plugin.json
.Codex-Plugin/hooks/x.sh sub/.github/hooks/a.json
.vim/coc-settings.json .hg/hgrc sub/.hg/sharedpath .sl/config .jj/repo .jj/repo/config.toml .bzr/branch/branch.conf .pijul/config
_darcs/prefs/defaults
.husky/pre-commit .githooks/pre-push .git-hooks/x .lefthook/pre-commit/x.sh .pre-commit-config.yaml .pre-commit-hooks.yaml lefthook.yml
.lefthook.toml lefthook-local.yml .lefthook-local.yaml .overcommit.yml .lintstagedrc .lintstagedrc.json lint-staged.config.mjs .czrc
.commitlintrc.yml commitlint.config.js .simple-git-hooks.json
.cargo/config.toml .cargo/config .yarnrc .yarnrc.yml .pnp.cjs .yarn/releases/yarn-4.cjs .yarn/plugins/x.cjs .pnpmfile.cjs bunfig.toml
.bundle/config pip.conf mise.toml .mise.toml .mise.local.toml .mise/tasks/x .config/mise/config.toml .autoenv devbox.json devenv.nix
Vagrantfile Tiltfile .curlrc .wgetrc
.tool-versions .nvmrc .node-version .python-version .bazelversion sub/.TOOL-VERSIONS .sdkmanrc rust-toolchain rust-toolchain.toml
global.json .venv/pyvenv.cfg .bazelrc gradle/wrapper/gradle-wrapper.properties .mvn/wrapper/maven-wrapper.properties .mvn/jvm.config
/home/u/.bashrc /home/u/.profile /home/u/.zshenv /home/u/.tmux.conf /home/u/.vim/plugin/x.vim /home/u/.config/fish/config.fish
/home/u/.config/autostart/x.desktop /home/u/.config/systemd/user/x.service /home/u/.config/Code/User/settings.json /home/u/.local/bin/x
/home/u/bin/x /home/u/.local/share/applications/x.desktop /home/u/Library/LaunchAgents/x.plist /etc/cron.d/x /etc/crontab
/etc/profile.d/x.sh /var/spool/cron/crontabs/u`

// projectTable has files of a project that run only when it is built or tested, or that are only read.
const projectTable = `
Makefile package.json conftest.py setup.py build.gradle gradlew CLAUDE.md AGENTS.md .github/CODEOWNERS .github/dependabot.yml renovate.json
Dockerfile compose.yaml .gitignore .editorconfig .prettierrc eslint.config.js src/vscode/tasks.json docs/mcp.md go.mod
lefthook.md src/husky/x .github/ISSUE_TEMPLATE/bug.md .github/pull_request_template.md version src/version.go docs/versions
toolchain.toml src/plugin/plugin.json`

func TestPolicies_AskBeforeConnecting(t *testing.T) {
	for _, name := range []string{"ask", "workspace", "readonly", "headless"} {
		content, _ := Get(name)
		p, err := policy.Parse(name, content, policy.Surroundings{Home: "/home/u"})
		if err != nil {
			t.Fatal(err)
		}
		a := &permissionv1.Action{Kind: "net.connect", Roots: []string{"/w"}, Endpoint: &permissionv1.Endpoint{Host: "example.com", Port: 443, Addresses: []string{"1.1.1.1"}}}
		got := policy.Decide([]policy.Part{{Policy: p}}, a)
		if got.GetVerdict() != permissionv1.Verdict_VERDICT_ASK || got.GetUnattended() != permissionv1.Verdict_VERDICT_DENY {
			t.Errorf("%s: got %v, want it asked, and denied when unattended", name, got)
		}
	}
}

func TestPolicies_WritesOfFilesThatRunLater(t *testing.T) {
	for name, want := range map[string]permissionv1.Verdict{
		"workspace": permissionv1.Verdict_VERDICT_ASK, "headless": permissionv1.Verdict_VERDICT_DENY, "readonly": permissionv1.Verdict_VERDICT_DENY,
	} {
		content, _ := Get(name)
		p, err := policy.Parse(name, content, policy.Surroundings{Home: "/home/u"})
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"fs.write", "tool.edit", "tool.delete", "tool.move"} {
			for file := range strings.FieldsSeq(laterTable) {
				if got := policy.Decide([]policy.Part{{Policy: p}}, act(kind+" "+file)); got.GetVerdict() != want {
					t.Errorf("%s: %s %s: got %v by %q, want %v", name, kind, file, got.GetVerdict(), got.GetRule(), want)
				}
			}
		}
		for file := range strings.FieldsSeq(projectTable) {
			if got := policy.Decide([]policy.Part{{Policy: p}}, act("fs.write "+file)); name != "readonly" && got.GetRule() != "edit-inside" {
				t.Errorf("%s: %s: got %v by %q", name, file, got.GetVerdict(), got.GetRule())
			}
		}
	}
}

// includes adds the parts that a file names.
func includes(t *testing.T, file string, to map[string]bool) {
	t.Helper()
	text, err := files.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if _, part, included := strings.Cut(line, "#include "); included {
			to[strings.TrimSpace(part)+".yaml"] = true
		}
	}
}

func TestParts_AreUsed(t *testing.T) {
	parts, err := files.ReadDir("parts")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, name := range names() {
		includes(t, "policies/"+name+".yaml", used)
	}
	for _, part := range parts {
		includes(t, "parts/"+part.Name(), used)
	}
	for _, part := range parts {
		if !used[part.Name()] {
			t.Errorf("%s is used by no policy", part.Name())
		}
		delete(used, part.Name())
	}
	for name := range used {
		if _, ok := secretfile.List(strings.TrimSuffix(name, ".yaml")); ok {
			delete(used, name)
		}
	}
	if len(used) > 0 {
		t.Errorf("%v: there are no such parts", used)
	}
}

// TestGlobs_AreTested reports globs that match no entry of the tables.
func TestGlobs_AreTested(t *testing.T) {
	part, err := files.ReadFile("parts/runs-later.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(part)) {
		glob, ok := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if !ok {
			continue
		}
		p, err := policy.Parse("r.yaml", []byte("version: 1\nrules: [{id: r, effect: deny, path: ["+glob+"]}]"), policy.Surroundings{Home: "/home/u"})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(strings.Fields(laterTable), func(file string) bool {
			return policy.Decide([]policy.Part{{Policy: p}}, act("fs.write "+file)).GetRule() == "r"
		}) {
			t.Errorf("%s matches no file of the table", glob)
		}
	}
}
