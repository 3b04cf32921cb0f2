package adversary

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/wire"
)

// readmePolicy is the example of the README.
const readmePolicy = `
version: 1
rules:
  - id: secrets
    effect: deny
    path: ["**/.env", "**/*.pem", "~/.ssh/**"]
    reason: Secrets stay out of agents.
  - id: rm
    effect: ask
    command: ["rm -rf"]
    not_grantable: true
  - id: edits
    effect: allow
    on: [fs.read, fs.write, fs.list, tool.read, tool.edit]
    path: ["${root}/**"]
  - id: look
    effect: allow
    command: ["git status", "git diff", "ls"]
`

// policies are those that people have, by their names.
var policies = map[string]func(*wire.Place) []string{
	"workspace":  configured("permission: {policy: workspace}\n"),
	"readonly":   configured("permission: {policy: readonly}\n"),
	"headless":   configured("permission: {policy: headless}\n"),
	"the README": policy(readmePolicy, ""),
}

// git runs git as a person does who knows their repository.
func git(t *testing.T, p *wire.Place, dir string, args ...string) {
	t.Helper()
	if out, err := personsGit(p, dir, args...).CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// personsGit is git outside of the sandbox, which may well fail.
func personsGit(p *wire.Place, dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, p.Env("GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	return cmd
}

// repository makes one with a commit and a change in a folder of the workspace.
func repository(t *testing.T, p *wire.Place, name string) string {
	t.Helper()
	dir := p.Path(name)
	p.File(t, filepath.Join(name, "a.txt"), "one\n")
	git(t, p, dir, "init", "-q", "-b", "main")
	git(t, p, dir, "add", "a.txt")
	git(t, p, dir, "commit", "-q", "-m", "first")
	p.File(t, filepath.Join(name, "a.txt"), "two\n")
	return dir
}

// trap makes a program that leaves a file behind which says that it ran, and returns a command line for it.
func trap(p *wire.Place) string { return program("attacker") + " canary " + canaryOf(p) }

func canaryOf(p *wire.Place) string { return filepath.Join(p.Home, "canary") }

// sprung fails the test if a trap was sprung, and sets it again.
func sprung(t testing.TB, p *wire.Place, what string) {
	t.Helper()
	said, err := os.ReadFile(canaryOf(p))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	t.Errorf("ATTACK SUCCEEDED: %s ran a program of the repository's: %s (%v)", what, said, err)
	_ = os.Remove(canaryOf(p))
}

// noPerson has the editor reject whatever it is asked.
func (s *fixture) noPerson() {
	s.Handle("session/request_permission", func(wire.Message) (any, error) {
		return map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "reject_once"}}, nil
	})
	s.Handle("session/update", func(wire.Message) (any, error) { return nil, nil })
}

// runs has the agent run a line in a terminal, to its end, and returns what it wrote; allowed: nobody was against it.
func (s *fixture) runs(line, dir string, env ...any) (output string, allowed bool) {
	s.t.Helper()
	request := params("command", line, "cwd", dir)
	if s.session != "" {
		request["sessionId"] = s.session
	}
	if len(env) > 0 {
		request["env"] = env
	}
	created := s.agent.Send("terminal/create", request).Answer()
	if created.Error != nil {
		return "", false
	}
	var made struct{ TerminalID string }
	created.Decode(s.t, &made)
	s.agent.Request("terminal/wait_for_exit", map[string]any{"sessionId": request["sessionId"], "terminalId": made.TerminalID}, nil)
	var out struct{ Output string }
	s.agent.Request("terminal/output", map[string]any{"sessionId": request["sessionId"], "terminalId": made.TerminalID}, &out)
	s.agent.Request("terminal/release", map[string]any{"sessionId": request["sessionId"], "terminalId": made.TerminalID}, nil)
	return out.Output, true
}

// enter opens a session whose root is a folder, which what runs from now on belongs to.
func (s *fixture) enter(dir string) {
	s.t.Helper()
	s.session = "in " + filepath.Base(dir)
	opened := s.Send("session/new", map[string]any{"cwd": dir, "mcpServers": []any{}})
	s.agent.Reply(s.agent.Expect("session/new"), map[string]any{"sessionId": s.session})
	opened.Result(nil)
}

func variable(name, value string) any { return map[string]any{"name": name, "value": value} }

// plants are ways by which a repository has git run a program, each with what springs it where nobody is against it.
var plants = []struct {
	name  string
	set   func(t *testing.T, p *wire.Place, dir string)
	looks []string
}{
	{"core.fsmonitor", set("core.fsmonitor", ""), []string{"git status", "git diff", "git status --short | cat"}},
	{"diff.external", set("diff.external", ""), []string{"git diff", "git diff HEAD"}},
	{"core.pager", set("core.pager", ""), []string{"git log"}},
	{"an alias", set("alias.status", "!"), []string{"git status"}},
	{"gpg.program", plantGPG, []string{"git log -p", "git show", "git log --show-signature -1"}},
	{"textconv", plantTextconv, []string{"git diff", "git log -p"}},
	{"a filter", plantFilter, []string{"git status", "git diff"}},
	{"an included file", plantInclude, []string{"git status"}},
	{"a hook on reading", plantHook, []string{"git status"}},
	{"a submodule behind a link and back", plantSubmodule, []string{"git status", "git diff"}},
	{"a repository that history names", plantHistory, []string{"git log -p", "git show", "git log -p --submodule=diff"}},
	{"a folder above", plantAbove, []string{"git status", "git -C below status"}},
}

// set writes a program into a repository's configuration.
func set(key, before string) func(*testing.T, *wire.Place, string) {
	return func(t *testing.T, p *wire.Place, dir string) { git(t, p, dir, "config", key, before+trap(p)) }
}

// plantSubmodule puts a repository into the index that its .git file finds behind a link: ".." is taken after it, not before.
func plantSubmodule(t *testing.T, p *wire.Place, dir string) {
	name := filepath.Base(dir)
	inner := repository(t, p, name+"/inner")
	git(t, p, dir, "add", "inner")
	git(t, p, inner, "config", "filter.evil.clean", trap(p))
	p.File(t, name+"/inner/.gitattributes", "*.txt filter=evil\n")
	p.File(t, name+"/far/deep/x", "")
	if err := errors.Join(os.Rename(inner+"/.git", dir+"/far/store"), os.Symlink("../far/deep", inner+"/there")); err != nil {
		t.Fatal(err)
	}
	p.File(t, name+"/inner/.git", "gitdir: there/../store\n")
}

// plantHistory leaves a repository where history has a submodule, and has git show what changed in it.
func plantHistory(t *testing.T, p *wire.Place, dir string) {
	inner := repository(t, p, filepath.Base(dir)+"/inner")
	git(t, p, dir, "add", "inner")
	git(t, p, dir, "commit", "-q", "-m", "inner")
	git(t, p, inner, "commit", "-q", "-a", "-m", "second")
	git(t, p, dir, "add", "inner")
	git(t, p, dir, "commit", "-q", "-m", "another inner")
	git(t, p, dir, "rm", "-q", "--cached", "inner")
	git(t, p, inner, "config", "diff.external", trap(p))
	git(t, p, dir, "config", "diff.submodule", "diff")
}

// plantAbove makes the folder that an agent works in one of a repository's, whose configuration lies above.
func plantAbove(t *testing.T, p *wire.Place, dir string) {
	git(t, p, dir, "config", "core.fsmonitor", trap(p))
	p.File(t, filepath.Join(filepath.Base(dir), "below", "b.txt"), "b\n")
}

func plantGPG(t *testing.T, p *wire.Place, dir string) {
	git(t, p, dir, "config", "gpg.program", p.File(t, "../gpg", "#!/bin/sh\nexec "+trap(p)+"\n"))
	if err := os.Chmod(filepath.Join(p.Home, "gpg"), 0o700); err != nil {
		t.Fatal(err)
	}
	git(t, p, dir, "config", "log.showSignature", "true")
	// A commit with something that looks like a signature.
	message := p.File(t, "../commit", "")
	cmd := exec.Command("sh", "-c", `{ echo "tree $(git write-tree)"; echo "author a <a@b> 0 +0000"; echo "committer a <a@b> 0 +0000"; printf 'gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\nsigned\n'; } >"$0" && git update-ref refs/heads/main "$(git hash-object -t commit -w "$0")"`, message)
	cmd.Dir, cmd.Env = dir, p.Env()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a signed commit: %v: %s", err, out)
	}
}

func plantTextconv(t *testing.T, p *wire.Place, dir string) {
	git(t, p, dir, "config", "diff.evil.textconv", trap(p))
	p.File(t, filepath.Join(filepath.Base(dir), ".gitattributes"), "*.txt diff=evil\n")
}

func plantFilter(t *testing.T, p *wire.Place, dir string) {
	git(t, p, dir, "config", "filter.evil.clean", trap(p))
	git(t, p, dir, "config", "filter.evil.process", trap(p))
	p.File(t, filepath.Join(filepath.Base(dir), ".gitattributes"), "*.txt filter=evil\n")
}

func plantInclude(t *testing.T, p *wire.Place, dir string) {
	p.File(t, filepath.Join(filepath.Base(dir), "settings"), "[core]\n\tfsmonitor = "+trap(p)+"\n")
	git(t, p, dir, "config", "include.path", "../settings")
}

func plantHook(t *testing.T, p *wire.Place, dir string) {
	hook := p.File(t, filepath.Join(filepath.Base(dir), "hooks", "post-index-change"), "#!/bin/sh\nexec "+trap(p)+"\n")
	if err := os.Chmod(hook, 0o700); err != nil {
		t.Fatal(err)
	}
	git(t, p, dir, "config", "core.hooksPath", "hooks")
}

// TestGit_ReadingRunsNoRepositoryPrograms: a policy that allows reading commands of git does not allow programs that a
// repository names.
func TestGit_ReadingRunsNoRepositoryPrograms(t *testing.T) {
	t.Parallel()
	for name, flags := range policies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openFixture(t, flags)
			s.noPerson()
			looked := false
			harmless := repository(t, s.Place, "harmless")
			s.enter(harmless)
			for _, line := range []string{"git status", "git diff", "git log -p", "git show"} {
				if out, allowed := s.runs(line, harmless); allowed && strings.Contains(out, "a.txt") {
					looked = true
				}
			}
			if !looked {
				t.Error("the policy lets nobody look at any repository: nothing was tried")
			}
			for i, plant := range plants {
				dir := repository(t, s.Place, fmt.Sprint("repository", i))
				plant.set(t, s.Place, dir)
				s.enter(dir)
				for _, line := range plant.looks {
					s.runs(line, dir)
					sprung(t, s.Place, plant.name+", "+line)
				}
			}
			// A folder that looks like a repository without a worktree, and brings one along.
			bare := s.Path("bare")
			git(t, s.Place, s.Work, "init", "-q", "--bare", bare)
			git(t, s.Place, bare, "config", "core.bare", "false")
			git(t, s.Place, bare, "config", "core.worktree", bare)
			git(t, s.Place, bare, "config", "core.fsmonitor", trap(s.Place))
			s.enter(bare)
			for _, line := range []string{"git status", "git diff"} {
				s.runs(line, bare)
				sprung(t, s.Place, "a bare repository, "+line)
			}
			// What the agent says itself, with the request.
			s.session = "in harmless"
			for what, env := range map[string][]any{
				"GIT_CONFIG_COUNT":      {variable("GIT_CONFIG_COUNT", "1"), variable("GIT_CONFIG_KEY_0", "core.fsmonitor"), variable("GIT_CONFIG_VALUE_0", trap(s.Place))},
				"GIT_CONFIG_PARAMETERS": {variable("GIT_CONFIG_PARAMETERS", "'core.fsmonitor="+trap(s.Place)+"'")},
				"GIT_EXTERNAL_DIFF":     {variable("GIT_EXTERNAL_DIFF", trap(s.Place))},
				"GIT_CONFIG_GLOBAL":     {variable("GIT_CONFIG_GLOBAL", s.File(t, "global", "[core]\n\tfsmonitor = "+trap(s.Place)+"\n"))},
				"HOME":                  {variable("HOME", filepath.Dir(s.File(t, "home/.gitconfig", "[core]\n\tfsmonitor = "+trap(s.Place)+"\n")))},
				"GIT_DIR":               {variable("GIT_DIR", bare)},
				"BASH_ENV":              {variable("BASH_ENV", s.File(t, "env.sh", trap(s.Place)+"\n")), variable("ENV", s.Path("env.sh"))},
			} {
				line := "git status"
				if what == "GIT_EXTERNAL_DIFF" {
					line = "git diff"
				}
				s.runs(line, harmless, env...)
				sprung(t, s.Place, what+" with the request, "+line)
			}
			s.finish()
		})
	}
}

// TestGit_AgentCannotPlantPrograms: a file that makes a person's git run a program later is not an ordinary edit.
func TestGit_AgentCannotPlantPrograms(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"workspace", "headless", "the README"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openFixture(t, policies[name])
			s.noPerson()
			dir := repository(t, s.Place, "repository")
			if got := s.agent.Send("fs/write_text_file", params("path", filepath.Join(dir, "b.txt"), "content", "x")).Answer(); got.Error != nil {
				t.Errorf("the policy lets nobody edit: %s", got.Raw)
			}
			if err := os.Symlink(".git", filepath.Join(dir, "elsewhere")); err != nil {
				t.Fatal(err)
			}
			if err := os.Link(filepath.Join(dir, ".git/config"), filepath.Join(dir, "plain")); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{"plain", ".git/config", ".git/hooks/pre-commit", ".git/info/attributes", ".git/../.git/config", "elsewhere/config", "elsewhere/hooks/post-checkout", ".git/modules/x/config", ".git/worktrees/x/config.worktree", ".git/objects/info/alternates", "HEAD/../.git/config.worktree"} {
				path := filepath.Join(dir) + "/" + file
				before, _ := os.ReadFile(path)
				got := s.agent.Send("fs/write_text_file", params("path", path, "content", "[core]\n\tfsmonitor = "+trap(s.Place)+"\n")).Answer()
				after, _ := os.ReadFile(path)
				if got.Error == nil || string(before) != string(after) {
					t.Errorf("ATTACK SUCCEEDED: %s was written: %s", file, got.Raw)
				}
			}
			hooks := filepath.Join(dir, ".git", "hooks")
			if err := os.MkdirAll(hooks, 0o700); err != nil {
				t.Fatal(err)
			}
			s.enter(hooks)
			got := s.agent.Send("fs/write_text_file", map[string]any{"sessionId": s.session, "path": filepath.Join(hooks, "pre-commit"), "content": "x"}).Answer()
			if _, err := os.Stat(filepath.Join(hooks, "pre-commit")); err == nil || got.Error == nil || !strings.Contains(string(got.Raw), "acphost/git") {
				t.Errorf("ATTACK SUCCEEDED: a session in .git/hooks wrote a hook: %s", got.Raw)
			}
			s.finish()
		})
	}
}

// TestGit_ApprovedCommitRunsHooks: a person who allows a commit expects that the repository's hooks run.
func TestGit_ApprovedCommitRunsHooks(t *testing.T) {
	t.Parallel()
	s := openFixture(t, configured("permission: {policy: workspace}\n"))
	dir := repository(t, s.Place, "repository")
	hook := s.File(t, "repository/.git/hooks/pre-commit", "#!/bin/sh\nexec "+trap(s.Place)+"\n")
	if err := os.Chmod(hook, 0o700); err != nil {
		t.Fatal(err)
	}
	s.Handle("session/request_permission", func(wire.Message) (any, error) {
		return map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "allow_once"}}, nil
	})
	out, allowed := s.runs("git -c user.name=a -c user.email=a@b commit -qam second", dir)
	if _, err := os.Stat(canaryOf(s.Place)); err != nil || !allowed {
		t.Errorf("the hook did not run (allowed: %v): %s", allowed, out)
	}
	s.finish()
}

// TestProgramName_RunsShownProgram: PATH may list programs of the workspace before others of the same name.
func TestProgramName_RunsShownProgram(t *testing.T) {
	t.Parallel()
	for name, flags := range policies {
		ways := []string{"the environment"}
		if name == "workspace" {
			ways = append(ways, "the request", "a relative folder")
		}
		for _, by := range ways {
			t.Run(name+", by "+by, func(t *testing.T) {
				t.Parallel()
				p := wire.NewPlace(t)
				for _, program := range []string{"git", "ls", "cat", "grep"} {
					file := p.File(t, "node_modules/.bin/"+program, "#!/bin/sh\nexec "+trap(p)+"\n")
					if err := os.Chmod(file, 0o700); err != nil {
						t.Fatal(err)
					}
				}
				path := p.Path("node_modules/.bin") + ":" + os.Getenv("PATH")
				if by == "a relative folder" {
					path = "node_modules/.bin:" + os.Getenv("PATH")
				}
				var env []any
				var own []string
				if by == "the request" {
					env = append(env, variable("PATH", path))
				} else {
					own = append(own, "PATH="+path)
				}
				s := openFixtureAt(t, p, flags, own...)
				s.noPerson()
				for _, line := range []string{"ls", "git status", "env ls", "ls | cat"} {
					s.runs(line, s.Work, env...)
					sprung(t, p, line)
				}
				s.finish()
			})
		}
	}
}
