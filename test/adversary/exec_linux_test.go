package adversary

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// meanwhile has the agent start a program in its own place, and exchange something after a pause, while that is
// decided on. Each pause has a fixture of its own, of which held says that nothing was gained.
func meanwhile(t *testing.T, order func(s *fixture, script, another, pause string) []string, held func(t *testing.T, s *fixture, leaves string)) {
	t.Helper()
	for _, pause := range []string{"300us", "1ms", "2ms", "4ms", "8ms"} {
		t.Run(pause, func(t *testing.T) {
			t.Parallel()
			s, script, another, leaves := twoScripts(t)
			if _, err := s.hand.order("start-elsewhere", order(s, script, another, pause)...); err == nil {
				s.finish() // it was refused
			} else {
				s.Close()
				<-s.Done()
			}
			held(t, s, leaves)
		})
	}
}

// twoScripts opens a fixture in which the rules allow the script "tool" that lies outside, and "touch a". Another one,
// that of the workspace, leaves the file that is returned.
func twoScripts(t *testing.T) (s *fixture, script, another, leaves string) {
	t.Helper()
	needsSandbox(t)
	folder, err := os.MkdirTemp("", "tool") //nolint:usetesting // only one user can search the folders of t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	script = filepath.Join(folder, "tool")
	rules := kernelRules + "  - {id: tool, effect: allow, command: [tool]}\n"
	s = openFixture(t, inSandbox("enforce", rules), "PATH="+folder+":"+os.Getenv("PATH"))
	another, leaves = s.Path("tool"), filepath.Join(s.Home, "left")
	for file, line := range map[string]string{script: "true", another: "echo x > " + leaves} {
		if err := errors.Join(os.WriteFile(file, []byte("#!/bin/sh\n"+line+"\n"), 0o755), os.Chmod(filepath.Dir(file), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	s.prompt()
	s.hand.worked("run", script)
	s.hand.refused("run", another)
	return s, script, another, leaves
}

// TestExec_RunsInDecidedFolder: a rule allows a program in the workspace, and other threads of the process change its
// folder meanwhile.
func TestExec_RunsInDecidedFolder(t *testing.T) {
	t.Parallel()
	meanwhile(t, func(s *fixture, _, _, pause string) []string {
		return []string{s.Home, pause, "/usr/bin/touch", "touch", "a"}
	},
		func(t *testing.T, s *fixture, _ string) { t.Helper(); notWritten(t, filepath.Join(s.Home, "a")) })
	s, _, _, _ := twoScripts(t)
	s.hand.refused("start-and-leave", s.Work, s.Home, "/usr/bin/touch", "touch", "a")
	notWritten(t, filepath.Join(s.Home, "a"))
	s.finish()
}

// TestExec_ScriptIsTheDecidedOne: an interpreter opens its script again, by the name or the descriptor that it was
// started with. It has to open the same file.
func TestExec_ScriptIsTheDecidedOne(t *testing.T) {
	t.Parallel()
	meanwhile(t, func(_ *fixture, script, another, pause string) []string {
		return []string{another, pause, script, "tool"}
	},
		func(t *testing.T, _ *fixture, leaves string) { t.Helper(); notWritten(t, leaves) })
	s, script, another, leaves := twoScripts(t)
	// From another folder, the same name leads to the other one.
	up := strings.Repeat("../", strings.Count(s.Work, "/")) + strings.TrimPrefix(script, "/")
	deeper := s.Path(strings.Repeat("d/", strings.Count(s.Work, "/")))
	if err := errors.Join(os.MkdirAll(deeper, 0o755), os.MkdirAll(s.Path(filepath.Dir(script)), 0o755), os.Symlink(another, s.Path(script))); err != nil {
		t.Fatal(err)
	}
	s.hand.try("start-and-leave", s.Work, deeper, up, "tool")
	notWritten(t, leaves)
	// Its folder can get another name, after which the name leads elsewhere, too: so it has the rights of the agent.
	made := filepath.Join(s.Home, "made")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nmkdir "+made+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.hand.try("run", up)
	notWritten(t, made)
	s.finish()
}

// TestExec_GitSubcommandNames: git depends on the name by which it is called. A rule for "git init" has to match
// "git-init", too, and a rule that allows "git status" must not match git under other names.
func TestExec_GitSubcommandNames(t *testing.T) {
	needsSandbox(t)
	needsProgram(t, "git")
	needsProgram(t, "bash")
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	t.Parallel()
	s := openFixture(t, inSandbox("enforce", kernelRules+"  - {id: look, effect: allow, command: [\"git status\", \""+git+" status\"]}\n"+
		"  - {id: never, effect: deny, command: [\"git init\"]}\n"))
	s.prompt()
	s.hand.try("run-as", git, "git-init", "status")
	s.hand.try("run-as", git, "/x/git-init", "status")
	s.File(t, "script", "exec -a git-init "+git+" status\n")
	s.hand.try("run", "/bin/bash", "./script")
	if _, err := os.Lstat(s.Path("status")); err == nil {
		t.Error("ATTACK SUCCEEDED: git has made a repository")
	}
	s.recorded(`"rule":"never"`)
	if out, _ := s.person("audit", "query", "--json", "--door", "kernel"); strings.Contains(out, `"rule":"look"`) {
		t.Errorf("ATTACK SUCCEEDED: git under another name is the allowed command:\n%s", out)
	}
	s.finish()
}

// TestExec_EarlierChildrenGetNoRights: processes that a process started before it executed an allowed command have the
// agent's rights, not those of the command.
func TestExec_EarlierChildrenGetNoRights(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	s := openFixture(t, inSandbox("enforce", kernelRules+"  - {id: wait, effect: allow, command: [\"sleep 5\"]}\n"))
	s.prompt()
	outside := filepath.Join(s.Home, "outside")
	s.hand.refused("write", outside, "x")
	s.hand.refused("fork-before", outside, "/usr/bin/sleep", "5")
	notWritten(t, outside)
	s.finish()
}
