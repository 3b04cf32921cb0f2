package policy_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

func TestGit_AgentCannotCreateRepository(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"workspace", "headless", "readonly", "none"} {
		t.Run(policy, func(t *testing.T) {
			p := e2e.NewPlace(t)
			var flags []string
			if policy != "none" {
				flags = readyPolicy(t, p, policy)
			}
			s := p.Fixture(t, flags)
			program, trace := trap(t, p, "run-me")
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
			expectNoTrace(t, p, trace)
			s.Finish()
		})
	}
}

func TestGit_OwnFilesAreProtected(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"workspace", "own", "none"} {
		t.Run(policy, func(t *testing.T) {
			p := e2e.NewPlace(t)
			flags := map[string][]string{"workspace": readyPolicy(t, p, "workspace")}[policy]
			if policy == "own" {
				flags = p.Policy(t, "version: 1\nrules:\n  - {id: edits, effect: allow, on: [fs.read, fs.write, tool.edit], path: [\"${root}/**\"]}\n", "")
			}
			s := p.Fixture(t, flags)
			repository(t, p, "")
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

// TestGit_ShowsOnlySessionFolderOfRepository: if the session's folder is a part of a repository, git shows the files in
// that folder, and no others.
func TestGit_ShowsOnlySessionFolderOfRepository(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	repository(t, p, "../")
	run := func(args ...string) {
		t.Helper()
		cmd := wire.Command(t, "git", args...)
		cmd.Dir, cmd.Env = filepath.Dir(p.Work), p.Env("GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	p.File(t, "inside", "one\n")
	run("add", "--", p.Path("inside"))
	p.File(t, "inside", "changed-inside\n")
	p.File(t, "../file", "changed-outside\n")
	s := p.Fixture(t, readyPolicy(t, p, "workspace"))
	for _, line := range []string{"git diff", "git status --short && git diff"} {
		var made struct{ TerminalID string }
		created := s.Agent.Send("terminal/create", e2e.Params("command", line))
		s.Expect("session/update") // the omission is reported
		created.Result(&made)
		terminal := e2e.Params("terminalId", made.TerminalID)
		s.Agent.Request("terminal/wait_for_exit", terminal, nil)
		var output struct{ Output string }
		s.Agent.Request("terminal/output", terminal, &output)
		if !strings.Contains(output.Output, "changed-inside") || strings.Contains(output.Output, "changed-outside") {
			t.Errorf("%s printed %q, want the change inside of the session's folder alone", line, output.Output)
		}
	}
	s.Finish()
}

func TestGit_UnattendedRunsNoRepositoryPrograms(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, readyPolicy(t, p, "workspace"))
	repository(t, p, "")
	repository(t, p, "nested")
	monitor, monitored := trap(t, p, "monitor")
	filter, filtered := trap(t, p, "filter")
	configure(t, p, "nested", "core.fsmonitor", monitor)
	t.Run("settings that the environment disables", func(t *testing.T) {
		configure(t, p, "", "core.fsmonitor", monitor)
		configure(t, p, "", "core.pager", monitor)
		configure(t, p, "", "pager.log", monitor)
		configure(t, p, "", "core.hooksPath", filepath.Dir(monitor))
		runsCommand(s, "command", "git status")
		runsCommand(s, "command", "git log -p")
		expectNoTrace(t, p, monitored)
	})
	t.Run("settings that it cannot disable are asked about", func(t *testing.T) {
		configure(t, p, "", "filter.x.clean", filter)
		p.File(t, ".gitattributes", "file filter=x\n")
		e2e.ExpectContains(t, "the question", askedFor(s, "command", "git diff"), "filter.x.clean")
		expectNoTrace(t, p, filtered)
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
		configure(t, p, "", "--unset", "filter.x.clean")
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
			askedFor(s, with...)
		}
		expectNoTrace(t, p, monitored)
	})
	t.Run("a command that may write to git's own", func(t *testing.T) {
		for _, line := range []string{"echo x >.git/config", "git config core.fsmonitor x", "tee .git/hooks/x", "cp file .git/hooks/x"} {
			askedFor(s, "command", line)
		}
	})
	s.Finish()
}

func TestGit_OnlyUsersAnswerKeepsHooks(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, p.Policy(t, "version: 1\nrules:\n  - {id: commits, effect: allow, command: [\"git commit --quiet --all -m ruled\"]}\n", ""))
	repository(t, p, "")
	configure(t, p, "", "user.name", "n")
	configure(t, p, "", "user.email", "e@example.com")
	_, trace := trap(t, p, ".git/hooks/pre-commit")
	runsCommand(s, "command", "git commit --quiet --all -m ruled")
	expectNoTrace(t, p, trace)
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

func TestProgramName_IsResolved(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"workspace", "readonly", "headless", "ask"} {
		t.Run(policy, func(t *testing.T) {
			p := e2e.NewPlace(t)
			s := p.Fixture(t, readyPolicy(t, p, policy), "PATH="+p.Path(".venv/bin")+":"+os.Getenv("PATH"))
			repository(t, p, "")
			_, trace := trap(t, p, ".venv/bin/git")
			env := trapOnly(t, p, ".venv/bin/env")
			for _, with := range [][]any{
				{"command", "git status"}, {"command", "git", "args", []string{"status"}}, {"command", "ls; git status | cat"},
				{"command", "sh -c 'git status'"}, {"command", "\\git status"}, {"command", "command git status"},
				{"command", "env ls"}, {"command", "timeout 5 git status"},
			} {
				if reason := askedFor(s, with...); policy != "ask" {
					e2e.ExpectContains(t, "the question", reason, "a program of the workspace")
				}
			}
			if policy != "ask" {
				runsCommand(s, "command", "ls")
				runsCommand(s, "command", "echo hello")
			}
			expectNoTrace(t, p, trace)
			expectNoTrace(t, p, env)
			s.Finish()
		})
	}
}

func TestProjectTools_RunByBuildRule(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, readyPolicy(t, p, "headless"), "PATH="+p.Path(".venv/bin")+":"+os.Getenv("PATH"))
	for _, name := range []string{".venv/bin/pytest", "gradlew", ".venv/bin/npm", "node_modules/.bin/jest"} {
		_, trace := trap(t, p, name)
		switch line := map[string]string{"gradlew": "./gradlew test", "node_modules/.bin/jest": "node_modules/.bin/jest -t x"}[name]; line {
		case "":
			program := filepath.Base(name)
			runsCommand(s, "command", program, "args", []string{"test"})
			if err := os.Remove(trace); err != nil {
				t.Fatal(err)
			}
			runsCommand(s, "command", program+" test && mkdir -p "+program+"-done")
		default:
			runsCommand(s, "command", line)
		}
		if _, err := os.Stat(trace); err != nil {
			t.Errorf("%s did not run: %v", name, err)
		}
	}
	_, trace := trap(t, p, ".venv/bin/ls")
	e2e.ExpectContains(t, "the question", askedFor(s, "command", "ls"), "a program of the workspace")
	expectNoTrace(t, p, trace)
	s.Finish()
}

func TestProgramName_NotInstalled(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	late := filepath.Join(p.Home, "late")
	if err := os.MkdirAll(late, 0o700); err != nil {
		t.Fatal(err)
	}
	rules := "version: 1\nrules:\n  - {id: tools, effect: allow, command: [acphost-no-such-tool]}\n"
	s := p.Fixture(t, p.Policy(t, rules, ""), "PATH="+late+":"+os.Getenv("PATH"))
	runsCommand(s, "command", "acphost-no-such-tool --version")
	s.Agent.Send("terminal/create", e2e.Params("command", "acphost-no-such-tool", "args", []string{"x"})).Refused(-32603)
	// A program that appears during the question is not the program that the question was about.
	run := s.Agent.Send("terminal/create", e2e.Params("command", "acphost-late-tool", "args", []string{"x"}))
	q := s.Asked()
	trace := filepath.Join(p.Home, "ran-late")
	if err := os.WriteFile(filepath.Join(late, "acphost-late-tool"), []byte("#!/bin/sh\necho ran >"+trace+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.Choose(q, "allow_once")
	run.Refused(-32603)
	expectNoTrace(t, p, trace)
	s.Finish()
}

func TestGit_RunByAgentUsesCurrentRepository(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, readyPolicy(t, p, "workspace"), "PATH="+p.Path("bin")+":"+os.Getenv("PATH"))
	repository(t, p, "")
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
	monitor, trace := trap(t, p, "monitor")
	configure(t, p, "", "core.fsmonitor", monitor)
	left() // that is not disabled for the agent
	configure(t, p, "", "--unset", "core.fsmonitor")
	allowed()
	_, ran := trap(t, p, "bin/git")
	e2e.ExpectContains(t, "the question about the call", askedFor(s, "command", "git status"), "a program of the workspace")
	left()
	expectNoTrace(t, p, trace)
	expectNoTrace(t, p, ran)
	s.Finish()
}

func TestCommand_RunsInShownFolder(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, readyPolicy(t, p, "ask"))
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

func TestGit_GrantDoesNotCoverNewPrograms(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, readyPolicy(t, p, "ask"))
	repository(t, p, "")
	monitor, trace := trap(t, p, "monitor")
	run := s.Agent.Send("terminal/create", e2e.Params("command", "git status"))
	q := s.Asked()
	s.Choose(q, "allow_always")
	var made struct{ TerminalID string }
	run.Result(&made)
	s.Agent.Request("terminal/wait_for_exit", e2e.Params("terminalId", made.TerminalID), nil)
	s.Status(q, "in_progress")
	s.Status(q, "completed")
	runsCommand(s, "command", "git status -s")
	configure(t, p, "", "core.fsmonitor", monitor)
	askedFor(s, "command", "git status -s")
	expectNoTrace(t, p, trace)
	configure(t, p, "", "--unset", "core.fsmonitor")
	runsCommand(s, "command", "git status -s")
	s.Finish()
}

// repository makes the workspace a repository with one commit, of which a file has changed since.
func repository(t testing.TB, p *e2e.Place, at string) {
	t.Helper()
	dir := p.Path(at)
	p.File(t, filepath.Join(at, "file"), "one\n")
	for _, args := range [][]string{
		{"init", "--quiet"}, {"add", "file"},
		{"-c", "user.name=n", "-c", "user.email=e@example.com", "commit", "--quiet", "--message", "one"},
	} {
		cmd := wire.Command(t, "git", args...)
		cmd.Dir, cmd.Env = dir, p.Env("GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	p.File(t, filepath.Join(at, "file"), "two\n")
}

// trap writes a program that leaves a trace where it ran, and returns it and the trace.
func trap(t testing.TB, p *e2e.Place, name string) (program, trace string) {
	t.Helper()
	trace = filepath.Join(p.Home, "ran-"+strings.ReplaceAll(name, "/", "-"))
	program = p.File(t, name, fmt.Sprintf("#!/bin/sh\necho ran >>%s\n", trace))
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	return program, trace
}

// runsCommand has the agent run a command and waits for its end; it must not be asked about.
func runsCommand(s *e2e.Fixture, with ...any) {
	s.T.Helper()
	var made struct{ TerminalID string }
	s.Agent.Request("terminal/create", e2e.Params(with...), &made)
	s.Agent.Request("terminal/wait_for_exit", e2e.Params("terminalId", made.TerminalID), nil)
}

// askedFor has the agent run a command about which a person must be asked, rejects the question, and returns its
// reason.
func askedFor(s *e2e.Fixture, with ...any) string {
	s.T.Helper()
	run := s.Agent.Send("terminal/create", e2e.Params(with...))
	q := s.Asked()
	s.Choose(q, "reject_once")
	_ = run.Refused(-32603)
	s.Status(q, "failed")
	return string(q.Raw)
}

// expectNoTrace fails the test if a program that Trap made has run, and makes room for the next one.
func expectNoTrace(t testing.TB, p *e2e.Place, trace string) {
	t.Helper()
	if _, err := os.Stat(trace); err == nil {
		t.Errorf("%s: a program of the workspace ran, and there was no question", filepath.Base(trace))
		_ = os.Remove(trace)
	}
}

// readyPolicy is the configuration with a ready-made policy.
func readyPolicy(t testing.TB, p *e2e.Place, name string) []string {
	t.Helper()
	return p.Config(t, "permission: {policy: "+name+"}\n")
}

// trapOnly is trap for what only its trace is needed of.
func trapOnly(t testing.TB, p *e2e.Place, name string) string {
	_, trace := trap(t, p, name)
	return trace
}

// configure changes the settings of a repository of the workspace.
func configure(t testing.TB, p *e2e.Place, at string, args ...string) {
	t.Helper()
	cmd := wire.Command(t, "git", append([]string{"config", "--local"}, args...)...)
	cmd.Dir, cmd.Env = p.Path(at), p.Env("GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git config %q: %v\n%s", args, err, out)
	}
}
