package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/wire"
)

// repository makes the workspace a repository with one commit, of which a file has changed since.
func (p *place) repository(t testing.TB, at string) {
	t.Helper()
	dir := p.path(at)
	p.file(t, filepath.Join(at, "file"), "one\n")
	for _, args := range [][]string{
		{"init", "--quiet"}, {"add", "file"},
		{"-c", "user.name=n", "-c", "user.email=e@example.com", "commit", "--quiet", "--message", "one"},
	} {
		cmd := wire.Command(t, "git", args...)
		cmd.Dir, cmd.Env = dir, p.env("GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	p.file(t, filepath.Join(at, "file"), "two\n")
}

// trap writes a program that leaves a trace where it ran, and returns it and the trace.
func (p *place) trap(t testing.TB, name string) (program, trace string) {
	t.Helper()
	trace = filepath.Join(p.home, "ran-"+strings.ReplaceAll(name, "/", "-"))
	program = p.file(t, name, fmt.Sprintf("#!/bin/sh\necho ran >>%s\n", trace))
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	return program, trace
}

// runs has the agent run a command and waits for its end; it must not be asked about.
func (s *scene) runs(with ...any) {
	s.t.Helper()
	var made struct{ TerminalID string }
	s.agent.Request("terminal/create", params(with...), &made)
	s.agent.Request("terminal/wait_for_exit", params("terminalId", made.TerminalID), nil)
}

// askedFor has the agent run a command about which a person must be asked, who says no; it returns the reason.
func (s *scene) askedFor(with ...any) string {
	s.t.Helper()
	run := s.agent.Send("terminal/create", params(with...))
	q := s.asked()
	s.choose(q, "reject_once")
	run.Refused(-32603)
	s.status(q, "failed")
	return string(q.Raw)
}

func (p *place) expectNoTrace(t testing.TB, trace string) {
	t.Helper()
	if _, err := os.Stat(trace); err == nil {
		t.Errorf("%s: a program of the workspace ran, and nobody was asked", filepath.Base(trace))
		_ = os.Remove(trace)
	}
}

func (p *place) ready(t testing.TB, name string) []string {
	t.Helper()
	return p.config(t, "permission: {policy: "+name+"}\n")
}

func TestGateAnAgentCannotMakeAFolderARepository(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"workspace", "headless", "readonly", "none"} {
		t.Run(policy, func(t *testing.T) {
			p := newPlace(t)
			var flags []string
			if policy != "none" {
				flags = p.ready(t, policy)
			}
			s := p.scene(t, flags)
			program, trace := p.trap(t, "run-me")
			refused := 0
			for _, file := range [][2]string{
				{"bare/HEAD", "ref: refs/heads/main\n"}, {"bare/objects/x", ""}, {"bare/refs/x", ""},
				{"bare/config", "[core]\nrepositoryformatversion = 0\nbare = false\nworktree = " + p.work + "\nfsmonitor = " + program + "\n"},
			} {
				if s.write(file[0], file[1]).Answer().Error != nil {
					refused++
				}
			}
			if refused == 0 {
				t.Error("a repository was written file by file")
			}
			run := s.agent.Send("terminal/create", params("command", "git status", "cwd", p.path("bare")))
			if answer := run.Answer(); answer.Error == nil {
				var made struct{ TerminalID string }
				answer.Decode(t, &made)
				s.agent.Request("terminal/wait_for_exit", params("terminalId", made.TerminalID), nil)
			}
			p.expectNoTrace(t, trace)
			s.finish()
		})
	}
}

func TestGateWhatIsGitsOwnIsWrittenByNobodyThroughTheClient(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"workspace", "own", "none"} {
		t.Run(policy, func(t *testing.T) {
			p := newPlace(t)
			flags := map[string][]string{"workspace": p.ready(t, "workspace")}[policy]
			if policy == "own" {
				flags = p.policy(t, "version: 1\nrules:\n  - {id: edits, effect: allow, on: [fs.read, fs.write, tool.edit], path: [\"${root}/**\"]}\n", "")
			}
			s := p.scene(t, flags)
			p.repository(t, "")
			if err := os.Symlink(".git", p.path("store")); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{".git/config", ".git/hooks/pre-commit", ".git/info/attributes", "sub/.git", ".GIT/config", "store/config",
				".git/modules/x/config", ".git./config"} {
				refused := s.write(name, "x").Answer()
				if refused.Error == nil || !strings.Contains(refused.Error.Message, "git") {
					t.Errorf("%s was written, or refused for another reason: %s", name, refused.Raw)
				}
			}
			if got := content(s.read(".git/HEAD")); !strings.HasPrefix(got, "ref: ") {
				t.Errorf("reading gave %q", got)
			}
			s.write(".gitignore", "x\n").Result(nil)
			s.finish()
		})
	}
}

func TestGateGitRunsNothingOfARepositoryWhereNobodyIsAsked(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, p.ready(t, "workspace"))
	p.repository(t, "")
	p.repository(t, "nested")
	monitor, monitored := p.trap(t, "monitor")
	filter, filtered := p.trap(t, "filter")
	p.configure(t, "nested", "core.fsmonitor", monitor)
	t.Run("what the environment turns off", func(t *testing.T) {
		p.configure(t, "", "core.fsmonitor", monitor)
		p.configure(t, "", "core.pager", monitor)
		p.configure(t, "", "pager.log", monitor)
		p.configure(t, "", "core.hooksPath", filepath.Dir(monitor))
		s.runs("command", "git status")
		s.runs("command", "git log -p")
		p.expectNoTrace(t, monitored)
	})
	t.Run("what it cannot turn off is asked about", func(t *testing.T) {
		p.configure(t, "", "filter.x.clean", filter)
		p.file(t, ".gitattributes", "file filter=x\n")
		expectContains(t, "the question", s.askedFor("command", "git diff"), "filter.x.clean")
		p.expectNoTrace(t, filtered)
		run := s.agent.Send("terminal/create", params("command", "git diff"))
		q := s.asked()
		s.choose(q, "allow_once")
		var made struct{ TerminalID string }
		run.Result(&made)
		s.agent.Request("terminal/wait_for_exit", params("terminalId", made.TerminalID), nil)
		if _, err := os.Stat(filtered); err != nil {
			t.Errorf("a person has allowed it, and the filter did not run: %v", err)
		}
		s.status(q, "in_progress")
		s.status(q, "completed")
		p.configure(t, "", "--unset", "filter.x.clean")
		_ = os.Remove(p.path(".gitattributes"))
		_ = os.Remove(monitored) // with a person's leave
	})
	t.Run("another repository is asked about", func(t *testing.T) {
		for _, with := range [][]any{
			{"command", "git status", "cwd", p.path("nested")},
			{"command", "cd nested && git status"},
			{"command", "git -C nested status"},
			{"command", "git --git-dir=nested/.git status"},
			{"command", "GIT_DIR=nested/.git git status"},
			{"command", "git status", "env", []any{map[string]any{"name": "GIT_DIR", "value": p.path("nested/.git")}}},
		} {
			s.askedFor(with...)
		}
		p.expectNoTrace(t, monitored)
	})
	t.Run("a command that may write to git's own", func(t *testing.T) {
		for _, line := range []string{"echo x >.git/config", "git config core.fsmonitor x", "tee .git/hooks/x", "cp file .git/hooks/x"} {
			s.askedFor("command", line)
		}
	})
	s.finish()
}

func TestGateAPersonsYesKeepsHooksAndARuleDoesNot(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, p.policy(t, "version: 1\nrules:\n  - {id: commits, effect: allow, command: [\"git commit --quiet --all -m ruled\"]}\n", ""))
	p.repository(t, "")
	p.configure(t, "", "user.name", "n")
	p.configure(t, "", "user.email", "e@example.com")
	_, trace := p.trap(t, ".git/hooks/pre-commit")
	s.runs("command", "git commit --quiet --all -m ruled")
	p.expectNoTrace(t, trace)
	p.file(t, "file", "three\n")
	run := s.agent.Send("terminal/create", params("command", "git commit --quiet --all -m asked"))
	q := s.asked()
	s.choose(q, "allow_once")
	var made struct{ TerminalID string }
	run.Result(&made)
	s.agent.Request("terminal/wait_for_exit", params("terminalId", made.TerminalID), nil)
	if _, err := os.Stat(trace); err != nil {
		t.Errorf("the hook of a commit that a person has allowed did not run: %v", err)
	}
	s.finish()
}

func TestGateAProgramIsWhatItsNameLeadsTo(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"workspace", "readonly", "headless", "ask"} {
		t.Run(policy, func(t *testing.T) {
			p := newPlace(t)
			s := p.scene(t, p.ready(t, policy), "PATH="+p.path(".venv/bin")+":"+os.Getenv("PATH"))
			p.repository(t, "")
			_, trace := p.trap(t, ".venv/bin/git")
			env := p.trapOnly(t, ".venv/bin/env")
			for _, with := range [][]any{
				{"command", "git status"}, {"command", "git", "args", []string{"status"}}, {"command", "ls; git status | cat"},
				{"command", "sh -c 'git status'"}, {"command", "\\git status"}, {"command", "command git status"},
				{"command", "env ls"}, {"command", "timeout 5 git status"},
			} {
				if reason := s.askedFor(with...); policy != "ask" {
					expectContains(t, "the question", reason, "a program of the workspace")
				}
			}
			if policy != "ask" {
				s.runs("command", "ls")
				s.runs("command", "echo hello")
			}
			p.expectNoTrace(t, trace)
			p.expectNoTrace(t, env)
			s.finish()
		})
	}
}

func TestGateAProjectsOwnToolsRunByARuleForBuilds(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, p.ready(t, "headless"), "PATH="+p.path(".venv/bin")+":"+os.Getenv("PATH"))
	for _, name := range []string{".venv/bin/pytest", "gradlew", ".venv/bin/npm", "node_modules/.bin/jest"} {
		_, trace := p.trap(t, name)
		switch line := map[string]string{"gradlew": "./gradlew test", "node_modules/.bin/jest": "node_modules/.bin/jest -t x"}[name]; line {
		case "":
			program := filepath.Base(name)
			s.runs("command", program, "args", []string{"test"})
			if err := os.Remove(trace); err != nil {
				t.Fatal(err)
			}
			s.runs("command", program+" test && mkdir -p "+program+"-done")
		default:
			s.runs("command", line)
		}
		if _, err := os.Stat(trace); err != nil {
			t.Errorf("%s did not run: %v", name, err)
		}
	}
	_, trace := p.trap(t, ".venv/bin/ls")
	expectContains(t, "the question", s.askedFor("command", "ls"), "a program of the workspace")
	p.expectNoTrace(t, trace)
	s.finish()
}

func TestGateAProgramThatIsNotInstalledIsItsName(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	late := filepath.Join(p.home, "late")
	if err := os.MkdirAll(late, 0o700); err != nil {
		t.Fatal(err)
	}
	rules := "version: 1\nrules:\n  - {id: tools, effect: allow, command: [acphost-no-such-tool]}\n"
	s := p.scene(t, p.policy(t, rules, ""), "PATH="+late+":"+os.Getenv("PATH"))
	s.runs("command", "acphost-no-such-tool --version")
	s.agent.Send("terminal/create", params("command", "acphost-no-such-tool", "args", []string{"x"})).Refused(-32603)
	// One that comes while a person is asked is not what the person was asked about.
	run := s.agent.Send("terminal/create", params("command", "acphost-late-tool", "args", []string{"x"}))
	q := s.asked()
	trace := filepath.Join(p.home, "ran-late")
	if err := os.WriteFile(filepath.Join(late, "acphost-late-tool"), []byte("#!/bin/sh\necho ran >"+trace+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.choose(q, "allow_once")
	run.Refused(-32603)
	p.expectNoTrace(t, trace)
	s.finish()
}

// trapOnly is trap for what only its trace is needed of.
func (p *place) trapOnly(t testing.TB, name string) string {
	_, trace := p.trap(t, name)
	return trace
}

// configure changes the settings of a repository of the workspace.
func (p *place) configure(t testing.TB, at string, args ...string) {
	t.Helper()
	cmd := wire.Command(t, "git", append([]string{"config", "--local"}, args...)...)
	cmd.Dir, cmd.Env = p.path(at), p.env("GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git config %q: %v\n%s", args, err, out)
	}
}

func TestGateAnAgentThatRunsGitItselfIsHeldToTheRepositoryAsItIs(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, p.ready(t, "workspace"), "PATH="+p.path("bin")+":"+os.Getenv("PATH"))
	p.repository(t, "")
	if err := os.Mkdir(p.path("bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	allowed := func() {
		t.Helper()
		if got := chosen(t, s.ask(command("git status"), options)); got != "yes" {
			t.Fatalf("the answer is %q", got)
		}
	}
	left := func() {
		t.Helper()
		asked := s.ask(command("git status"), options)
		s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "no"}})
		chosen(t, asked)
	}
	allowed()
	monitor, trace := p.trap(t, "monitor")
	p.configure(t, "", "core.fsmonitor", monitor)
	left() // nobody turns that off for the agent
	p.configure(t, "", "--unset", "core.fsmonitor")
	allowed()
	_, ran := p.trap(t, "bin/git")
	expectContains(t, "the question about the call", s.askedFor("command", "git status"), "a program of the workspace")
	left()
	p.expectNoTrace(t, trace)
	p.expectNoTrace(t, ran)
	s.finish()
}

func TestGateACommandRunsWhereThePersonWasToldThatItWould(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, p.ready(t, "ask"))
	p.file(t, "told/kept", "")
	p.file(t, "other/kept", "")
	run := s.agent.Send("terminal/create", params("command", "touch ran", "cwd", p.path("told")))
	q := s.asked()
	if err := errors.Join(os.Rename(p.path("told"), p.path("gone")), os.Rename(p.path("other"), p.path("told"))); err != nil {
		t.Fatal(err)
	}
	s.choose(q, "allow_once")
	s.status(q, "in_progress")
	expectContains(t, "the agent's error", run.Refused(-32603).Message, "was replaced")
	s.status(q, "failed")
	if _, err := os.Stat(p.path("told/ran")); err == nil {
		t.Error("it ran in another folder")
	}
	s.finish()
}

func TestGateARememberedYesToGitDoesNotCoverWhatItRunsSince(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, p.ready(t, "ask"))
	p.repository(t, "")
	monitor, trace := p.trap(t, "monitor")
	run := s.agent.Send("terminal/create", params("command", "git status"))
	q := s.asked()
	s.choose(q, "allow_always")
	var made struct{ TerminalID string }
	run.Result(&made)
	s.agent.Request("terminal/wait_for_exit", params("terminalId", made.TerminalID), nil)
	s.status(q, "in_progress")
	s.status(q, "completed")
	s.runs("command", "git status -s")
	p.configure(t, "", "core.fsmonitor", monitor)
	s.askedFor("command", "git status -s")
	p.expectNoTrace(t, trace)
	p.configure(t, "", "--unset", "core.fsmonitor")
	s.runs("command", "git status -s")
	s.finish()
}
