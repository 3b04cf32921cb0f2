package adversary

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
)

// needsBubblewrap skips a test where the user of the agents cannot make namespaces: the kernel lets root without
// capabilities map no users.
func needsBubblewrap(t *testing.T) {
	t.Helper()
	needsSandbox(t)
	needsProgram(t, "bwrap")
	if os.Getuid() == 0 {
		t.Skip("root without capabilities cannot map users into a namespace")
	}
	if out, err := exec.Command("bwrap", "--unshare-user", "--ro-bind", "/", "/", "--proc", "/proc", "true").CombinedOutput(); err != nil {
		t.Skipf("nobody can make namespaces here: %v %s", err, out)
	}
}

// inBubblewrap is a script that runs another one in bubblewrap, as agents have it run their commands.
func inBubblewrap(s *fixture, more ...string) string {
	return strings.Join(append([]string{
		"bwrap --unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts --new-session --die-with-parent --ro-bind / / --bind",
		s.Work, s.Work, "--dev /dev --proc /proc --tmpfs /mnt --chdir", s.Work,
	}, more...), " ") + " -- sh ./line\n"
}

// TestBubblewrap_WorksUnderRules: an allowed command starts programs in bubblewrap. Both the restrictions of bubblewrap
// and the rules apply. The record has the paths outside of the namespace.
func TestBubblewrap_WorksUnderRules(t *testing.T) {
	needsBubblewrap(t)
	t.Parallel()
	s := openFixture(t, inSandbox("enforce", kernelRules+"  - {id: box, effect: allow, command: [\"sh ./box\"]}\n"+
		"  - {id: never, effect: deny, on: [fs.write], path: [\"${root}/conf/prod/**\"]}\n"))
	s.prompt()
	if err := os.MkdirAll(s.Path("conf/prod"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.File(t, "conf/prod/key", "mine")
	s.File(t, ".env", "SECRET=1")
	outside := filepath.Join(s.Home, "outside")
	for name, c := range map[string]struct {
		line, want string
		more       []string
	}{
		"what may be changed":    {"echo hi > allowed.txt; echo y > /mnt/y; cat allowed.txt /mnt/y", "hi\ny", nil},
		"git":                    {"git init -q r; cd r; git status --short; echo after", "after", nil},
		"what rules deny":        {"echo x > .env; echo after", "after", nil},
		"what bubblewrap denies": {"echo x > " + outside + "; echo after", "after", nil},
		"a program":              {"id || echo after", "after", nil},
		"under another name":     {"echo x > shown; rm -f shown; chmod 0 shown; echo after", "after", []string{"--bind", s.Path(".env"), s.Path("shown")}},
		"its folder":             {"echo x > /mnt/w/.env; mv /mnt/w/.env /mnt/w/x; echo after", "after", []string{"--bind", s.Work, "/mnt/w"}},
		"a folder that is moved": {"mv /mnt/w/conf /mnt/w/away; mv conf away; echo after", "after", []string{"--bind", s.Work, "/mnt/w"}},
		"what a folder becomes":  {"mkdir -p m/prod; echo x > m/prod/a; mv -T /mnt/w/m /mnt/w/conf/more; mv -T m conf/prod/n; mv m/prod conf/prod/n; echo after", "after", []string{"--bind", s.Work, "/mnt/w"}},
		"a program as another":   {"./shown2 || echo after", "after", []string{"--bind", "/usr/bin/id", s.Path("shown2")}},
	} {
		s.File(t, "line", c.line+"\n")
		s.File(t, "box", inBubblewrap(s, c.more...))
		if got := s.hand.try("run", "/bin/sh", "./box"); !strings.Contains(got[0].Got, c.want) || strings.Contains(got[0].Got, "uid=") {
			t.Errorf("%s: got %v, want %q", name, got, c.want)
		}
		if text, err := os.ReadFile(s.Path(".env")); err != nil || string(text) != "SECRET=1" {
			t.Errorf("ATTACK SUCCEEDED: %s: .env has %q, %v", name, text, err)
		}
	}
	notWritten(t, outside)
	if in, err := os.ReadDir(s.Path("conf/prod")); err != nil || len(in) != 1 {
		t.Errorf("ATTACK SUCCEEDED: in a folder that is denied there are %v, %v", in, err)
	}
	if text, err := os.ReadFile(s.Path("allowed.txt")); err != nil || string(text) != "hi\n" {
		t.Errorf("a file that may be written has %q, %v", text, err)
	}
	s.recorded(`"rule":"env"`, `"rule":"no-id"`, `"rule":"never"`, s.Path(".env"))
	s.finish()
}

// TestNamespace_AllowRuleGivesNoRights: in its own mount namespace an agent chooses the libraries, settings and
// arguments of a program. So a program that a rule allows has only the agent's rights there, and its actions are
// decided.
func TestNamespace_AllowRuleGivesNoRights(t *testing.T) {
	needsBubblewrap(t)
	t.Parallel()
	needsProgram(t, "perl")
	s := openFixture(t, inSandbox("enforce", kernelRules+"  - {id: perl, effect: allow, command: [\"perl -e\"]}\n"))
	s.prompt()
	h, outside, other := s.hand, filepath.Join(s.Home, "outside"), filepath.Join(s.Home, "other")
	write := []string{"/usr/bin/perl", "-e", `open(F, ">", $ARGV[0]) or exit 3; print F "x"`}
	h.worked("run", append(write, other)...) // a command that was allowed
	h.worked("apart", append(write, s.Path("inside"))...)
	h.refused("apart", append(write, outside)...)
	notWritten(t, outside)
	if asked := s.Expect("session/request_permission"); !strings.Contains(string(asked.Raw), outside) {
		t.Errorf("another question than about the file: %s", asked.Raw)
	}
	h.refused("apart", "/usr/bin/id")
	s.recorded(`"rule":"no-id"`)
	s.finish()
}

// TestNamespace_FolderOfOtherSandboxIsDenied: the command of a terminal has its own sandbox. The agent's sandbox, in
// which no namespace was made, denies a folder that is mounted under another name in the command's sandbox.
func TestNamespace_FolderOfOtherSandboxIsDenied(t *testing.T) {
	needsBubblewrap(t)
	t.Parallel()
	s := openFixture(t, inSandbox("enforce", kernelRules+"  - {id: never, effect: deny, on: [fs.write], path: [\"${root}/conf/prod/**\"]}\n"+
		"  - {id: hand, effect: allow, command: [\""+program("attacker")+"\"]}\n"))
	s.prompt()
	for _, dir := range []string{"conf/prod", "open"} {
		if err := os.MkdirAll(s.Path(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	stage := s.NewStage(t)
	command := s.command()
	command.worked("namespace", stage.Path)
	inside := s.awaitHand("in a namespace of a command", stage)
	s.hand.worked("await-folder", s.Path("socket"))
	send := func(folder string) {
		inside.worked("bind", folder, s.Path("open"))
		inside.worked("send-folder", s.Path("socket"), s.Path("open"))
	}
	send(s.Path("conf/prod"))
	s.hand.refused("write-there", "key")
	notWritten(t, s.Path("conf/prod/key"))
	send(s.Home)
	s.hand.refused("run-there", "/usr/bin/touch", "a")
	notWritten(t, filepath.Join(s.Home, "a"))
	s.finish()
}

// TestObserve_RecordsOutsidePathsInNamespaces: agents with their own sandbox run commands in mount namespaces. Actions
// there are recorded by their path outside, and rejected no more than elsewhere. A program that a rule allows has the
// agent's rights there. Where the sandbox cannot follow, the record has the agent's own report.
func TestObserve_RecordsOutsidePathsInNamespaces(t *testing.T) {
	needsBubblewrap(t)
	t.Parallel()
	s := openFixture(t, inSandbox("observe", kernelRules+"  - {id: box, effect: allow, command: [\"sh ./box\"]}\n"))
	s.prompt()
	h, outside := s.hand, filepath.Join(s.Home, "outside")
	s.File(t, ".env", "SECRET=1")
	s.File(t, "line", "echo SECRET=2 > shown; id -u")
	s.File(t, "box", inBubblewrap(s, "--bind", s.Path(".env"), s.Path("shown")))
	h.worked("run", "/bin/sh", "./box")
	if text, err := os.ReadFile(s.Path(".env")); err != nil || string(text) != "SECRET=2\n" {
		t.Errorf("in a file that the line has written there is %q, %v", text, err)
	}
	s.File(t, "box", "echo x > "+outside)
	h.worked("apart", "/bin/sh", "./box")
	const file = `"door":"DOOR_KERNEL","paths":[{"path":"`
	s.recorded(`"rule":"env"`, file+s.Path(".env"), `"rule":"no-id"`, `"outcome":"done, not asked"`, file+outside)
	report := func(id, command string) {
		s.agent.Notify("session/update", params("update", map[string]any{
			"sessionUpdate": "tool_call", "toolCallId": id, "title": "x", "kind": "execute", "status": "completed",
			"rawInput": map[string]any{"command": command},
		}))
	}
	h.worked("apart", "/bin/sh", "-c", "cd "+s.Work+"; mkdir l u w m; mount -n -t overlay o m -o lowerdir=l,upperdir=u,workdir=w; echo x > m/a")
	report("lost", "cat "+s.Path(".env")+" again")
	testkit.Eventually(t, "what the agent reports is recorded", func() bool {
		out, _ := s.person("audit", "query", "--json", "--door", "report")
		return strings.Contains(out, "again")
	})
	s.recorded(`"rule":"acphost/sandbox"`)
	s.finish()
}
