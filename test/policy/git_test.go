package policy_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

func TestGateAnAgentCannotMakeAFolderARepository(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"workspace", "headless", "readonly", "none"} {
		t.Run(policy, func(t *testing.T) {
			p := e2e.NewPlace(t)
			var flags []string
			if policy != "none" {
				flags = p.Ready(t, policy)
			}
			s := p.Scene(t, flags)
			program, trace := p.Trap(t, "run-me")
			refused := 0
			for _, file := range [][2]string{
				{"bare/HEAD", "ref: refs/heads/main\n"}, {"bare/objects/x", ""}, {"bare/refs/x", ""},
				{"bare/config", "[core]\nrepositoryformatversion = 0\nbare = false\nworktree = " + p.Work + "\nfsmonitor = " + program + "\n"},
			} {
				if s.WriteFile(file[0], file[1]).Answer().Error != nil {
					refused++
				}
			}
			if refused == 0 {
				t.Error("a repository was written file by file")
			}
			run := s.Agent.Send("terminal/create", e2e.Params("command", "git status", "cwd", p.Path("bare")))
			if answer := run.Answer(); answer.Error == nil {
				var made struct{ TerminalID string }
				answer.Decode(t, &made)
				s.Agent.Request("terminal/wait_for_exit", e2e.Params("terminalId", made.TerminalID), nil)
			}
			p.ExpectNoTrace(t, trace)
			s.Finish()
		})
	}
}

func TestGateWhatIsGitsOwnIsWrittenByNobodyThroughTheClient(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"workspace", "own", "none"} {
		t.Run(policy, func(t *testing.T) {
			p := e2e.NewPlace(t)
			flags := map[string][]string{"workspace": p.Ready(t, "workspace")}[policy]
			if policy == "own" {
				flags = p.Policy(t, "version: 1\nrules:\n  - {id: edits, effect: allow, on: [fs.read, fs.write, tool.edit], path: [\"${root}/**\"]}\n", "")
			}
			s := p.Scene(t, flags)
			p.Repository(t, "")
			if err := os.Symlink(".git", p.Path("store")); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{".git/config", ".git/hooks/pre-commit", ".git/info/attributes", "sub/.git", ".GIT/config", "store/config",
				".git/modules/x/config", ".git./config"} {
				refused := s.WriteFile(name, "x").Answer()
				if refused.Error == nil || !strings.Contains(refused.Error.Message, "git") {
					t.Errorf("%s was written, or refused for another reason: %s", name, refused.Raw)
				}
			}
			if got := e2e.Content(s.Read(".git/HEAD")); !strings.HasPrefix(got, "ref: ") {
				t.Errorf("reading gave %q", got)
			}
			s.WriteFile(".gitignore", "x\n").Result(nil)
			s.Finish()
		})
	}
}

func TestGateGitRunsNothingOfARepositoryWhereNobodyIsAsked(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Scene(t, p.Ready(t, "workspace"))
	p.Repository(t, "")
	p.Repository(t, "nested")
	monitor, monitored := p.Trap(t, "monitor")
	filter, filtered := p.Trap(t, "filter")
	p.Configure(t, "nested", "core.fsmonitor", monitor)
	t.Run("what the environment turns off", func(t *testing.T) {
		p.Configure(t, "", "core.fsmonitor", monitor)
		p.Configure(t, "", "core.pager", monitor)
		p.Configure(t, "", "pager.log", monitor)
		p.Configure(t, "", "core.hooksPath", filepath.Dir(monitor))
		s.Runs("command", "git status")
		s.Runs("command", "git log -p")
		p.ExpectNoTrace(t, monitored)
	})
	t.Run("what it cannot turn off is asked about", func(t *testing.T) {
		p.Configure(t, "", "filter.x.clean", filter)
		p.File(t, ".gitattributes", "file filter=x\n")
		e2e.ExpectContains(t, "the question", s.AskedFor("command", "git diff"), "filter.x.clean")
		p.ExpectNoTrace(t, filtered)
		run := s.Agent.Send("terminal/create", e2e.Params("command", "git diff"))
		q := s.Asked()
		s.Choose(q, "allow_once")
		var made struct{ TerminalID string }
		run.Result(&made)
		s.Agent.Request("terminal/wait_for_exit", e2e.Params("terminalId", made.TerminalID), nil)
		if _, err := os.Stat(filtered); err != nil {
			t.Errorf("a person has allowed it, and the filter did not run: %v", err)
		}
		s.Status(q, "in_progress")
		s.Status(q, "completed")
		p.Configure(t, "", "--unset", "filter.x.clean")
		_ = os.Remove(p.Path(".gitattributes"))
		_ = os.Remove(monitored) // with a person's leave
	})
	t.Run("another repository is asked about", func(t *testing.T) {
		for _, with := range [][]any{
			{"command", "git status", "cwd", p.Path("nested")},
			{"command", "cd nested && git status"},
			{"command", "git -C nested status"},
			{"command", "git --git-dir=nested/.git status"},
			{"command", "GIT_DIR=nested/.git git status"},
			{"command", "git status", "env", []any{map[string]any{"name": "GIT_DIR", "value": p.Path("nested/.git")}}},
		} {
			s.AskedFor(with...)
		}
		p.ExpectNoTrace(t, monitored)
	})
	t.Run("a command that may write to git's own", func(t *testing.T) {
		for _, line := range []string{"echo x >.git/config", "git config core.fsmonitor x", "tee .git/hooks/x", "cp file .git/hooks/x"} {
			s.AskedFor("command", line)
		}
	})
	s.Finish()
}

func TestGateAPersonsYesKeepsHooksAndARuleDoesNot(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Scene(t, p.Policy(t, "version: 1\nrules:\n  - {id: commits, effect: allow, command: [\"git commit --quiet --all -m ruled\"]}\n", ""))
	p.Repository(t, "")
	p.Configure(t, "", "user.name", "n")
	p.Configure(t, "", "user.email", "e@example.com")
	_, trace := p.Trap(t, ".git/hooks/pre-commit")
	s.Runs("command", "git commit --quiet --all -m ruled")
	p.ExpectNoTrace(t, trace)
	p.File(t, "file", "three\n")
	run := s.Agent.Send("terminal/create", e2e.Params("command", "git commit --quiet --all -m asked"))
	q := s.Asked()
	s.Choose(q, "allow_once")
	var made struct{ TerminalID string }
	run.Result(&made)
	s.Agent.Request("terminal/wait_for_exit", e2e.Params("terminalId", made.TerminalID), nil)
	if _, err := os.Stat(trace); err != nil {
		t.Errorf("the hook of a commit that a person has allowed did not run: %v", err)
	}
	s.Finish()
}

func TestGateAProgramIsWhatItsNameLeadsTo(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"workspace", "readonly", "headless", "ask"} {
		t.Run(policy, func(t *testing.T) {
			p := e2e.NewPlace(t)
			s := p.Scene(t, p.Ready(t, policy), "PATH="+p.Path(".venv/bin")+":"+os.Getenv("PATH"))
			p.Repository(t, "")
			_, trace := p.Trap(t, ".venv/bin/git")
			env := p.TrapOnly(t, ".venv/bin/env")
			for _, with := range [][]any{
				{"command", "git status"}, {"command", "git", "args", []string{"status"}}, {"command", "ls; git status | cat"},
				{"command", "sh -c 'git status'"}, {"command", "\\git status"}, {"command", "command git status"},
				{"command", "env ls"}, {"command", "timeout 5 git status"},
			} {
				if reason := s.AskedFor(with...); policy != "ask" {
					e2e.ExpectContains(t, "the question", reason, "a program of the workspace")
				}
			}
			if policy != "ask" {
				s.Runs("command", "ls")
				s.Runs("command", "echo hello")
			}
			p.ExpectNoTrace(t, trace)
			p.ExpectNoTrace(t, env)
			s.Finish()
		})
	}
}

func TestGateAProjectsOwnToolsRunByARuleForBuilds(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Scene(t, p.Ready(t, "headless"), "PATH="+p.Path(".venv/bin")+":"+os.Getenv("PATH"))
	for _, name := range []string{".venv/bin/pytest", "gradlew", ".venv/bin/npm", "node_modules/.bin/jest"} {
		_, trace := p.Trap(t, name)
		switch line := map[string]string{"gradlew": "./gradlew test", "node_modules/.bin/jest": "node_modules/.bin/jest -t x"}[name]; line {
		case "":
			program := filepath.Base(name)
			s.Runs("command", program, "args", []string{"test"})
			if err := os.Remove(trace); err != nil {
				t.Fatal(err)
			}
			s.Runs("command", program+" test && mkdir -p "+program+"-done")
		default:
			s.Runs("command", line)
		}
		if _, err := os.Stat(trace); err != nil {
			t.Errorf("%s did not run: %v", name, err)
		}
	}
	_, trace := p.Trap(t, ".venv/bin/ls")
	e2e.ExpectContains(t, "the question", s.AskedFor("command", "ls"), "a program of the workspace")
	p.ExpectNoTrace(t, trace)
	s.Finish()
}

func TestGateAProgramThatIsNotInstalledIsItsName(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	late := filepath.Join(p.Home, "late")
	if err := os.MkdirAll(late, 0o700); err != nil {
		t.Fatal(err)
	}
	rules := "version: 1\nrules:\n  - {id: tools, effect: allow, command: [acphost-no-such-tool]}\n"
	s := p.Scene(t, p.Policy(t, rules, ""), "PATH="+late+":"+os.Getenv("PATH"))
	s.Runs("command", "acphost-no-such-tool --version")
	s.Agent.Send("terminal/create", e2e.Params("command", "acphost-no-such-tool", "args", []string{"x"})).Refused(-32603)
	// One that comes while a person is asked is not what the person was asked about.
	run := s.Agent.Send("terminal/create", e2e.Params("command", "acphost-late-tool", "args", []string{"x"}))
	q := s.Asked()
	trace := filepath.Join(p.Home, "ran-late")
	if err := os.WriteFile(filepath.Join(late, "acphost-late-tool"), []byte("#!/bin/sh\necho ran >"+trace+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.Choose(q, "allow_once")
	run.Refused(-32603)
	p.ExpectNoTrace(t, trace)
	s.Finish()
}

func TestGateAnAgentThatRunsGitItselfIsHeldToTheRepositoryAsItIs(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Scene(t, p.Ready(t, "workspace"), "PATH="+p.Path("bin")+":"+os.Getenv("PATH"))
	p.Repository(t, "")
	if err := os.Mkdir(p.Path("bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	allowed := func() {
		t.Helper()
		if got := e2e.Chosen(t, s.Ask(e2e.Command("git status"), e2e.Options)); got != "yes" {
			t.Fatalf("the answer is %q", got)
		}
	}
	left := func() {
		t.Helper()
		asked := s.Ask(e2e.Command("git status"), e2e.Options)
		s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "no"}})
		e2e.Chosen(t, asked)
	}
	allowed()
	monitor, trace := p.Trap(t, "monitor")
	p.Configure(t, "", "core.fsmonitor", monitor)
	left() // nobody turns that off for the agent
	p.Configure(t, "", "--unset", "core.fsmonitor")
	allowed()
	_, ran := p.Trap(t, "bin/git")
	e2e.ExpectContains(t, "the question about the call", s.AskedFor("command", "git status"), "a program of the workspace")
	left()
	p.ExpectNoTrace(t, trace)
	p.ExpectNoTrace(t, ran)
	s.Finish()
}

func TestGateACommandRunsWhereThePersonWasToldThatItWould(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Scene(t, p.Ready(t, "ask"))
	p.File(t, "told/kept", "")
	p.File(t, "other/kept", "")
	run := s.Agent.Send("terminal/create", e2e.Params("command", "touch ran", "cwd", p.Path("told")))
	q := s.Asked()
	if err := errors.Join(os.Rename(p.Path("told"), p.Path("gone")), os.Rename(p.Path("other"), p.Path("told"))); err != nil {
		t.Fatal(err)
	}
	s.Choose(q, "allow_once")
	s.Status(q, "in_progress")
	e2e.ExpectContains(t, "the agent's error", run.Refused(-32603).Message, "was replaced")
	s.Status(q, "failed")
	if _, err := os.Stat(p.Path("told/ran")); err == nil {
		t.Error("it ran in another folder")
	}
	s.Finish()
}

func TestGateARememberedYesToGitDoesNotCoverWhatItRunsSince(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Scene(t, p.Ready(t, "ask"))
	p.Repository(t, "")
	monitor, trace := p.Trap(t, "monitor")
	run := s.Agent.Send("terminal/create", e2e.Params("command", "git status"))
	q := s.Asked()
	s.Choose(q, "allow_always")
	var made struct{ TerminalID string }
	run.Result(&made)
	s.Agent.Request("terminal/wait_for_exit", e2e.Params("terminalId", made.TerminalID), nil)
	s.Status(q, "in_progress")
	s.Status(q, "completed")
	s.Runs("command", "git status -s")
	p.Configure(t, "", "core.fsmonitor", monitor)
	s.AskedFor("command", "git status -s")
	p.ExpectNoTrace(t, trace)
	p.Configure(t, "", "--unset", "core.fsmonitor")
	s.Runs("command", "git status -s")
	s.Finish()
}
