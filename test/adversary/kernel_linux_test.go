package adversary

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// kernelRules are the rules of the tests at the kernel: files of the workspace may be changed, but for .env, and two programs run.
const kernelRules = `
version: 1
rules:
  - {id: env, effect: deny, path: ["**/.env", "**/.env.*"]}
  - {id: files, effect: allow, on: [fs.read, fs.write, fs.list], path: ["${root}/**"]}
  - {id: no-id, effect: deny, command: ["id"]}
  - {id: run, effect: allow, command: ["echo", "touch a", "sh -c"]}
`

// needsSandbox skips a test of what only a kernel can do that asks.
func needsSandbox(t *testing.T) {
	t.Helper()
	if err := sandbox.Supported(); err != nil {
		t.Skipf("nothing can be confined here (%s): %v", runtime.GOARCH, err)
	}
}

// inSandbox returns flags for an agent in a sandbox that is under rules.
func inSandbox(mode, rules string) func(*wire.Place) []string {
	return policy(rules, "sandbox: {mode: "+mode+", require: true}")
}

// prompt begins a turn, and returns the agent's side of it.
func (s *fixture) prompt() {
	s.t.Helper()
	s.Send("session/prompt", params("prompt", []any{map[string]any{"type": "text", "text": "go"}}))
	s.agent.Expect("session/prompt")
}

// TestKernel_AppliesRules: the agent's processes write files and run programs that the agent could not write or run
// through its client.
func TestKernel_AppliesRules(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	s := openFixture(t, inSandbox("enforce", kernelRules))
	s.prompt()
	h := s.hand
	s.File(t, ".env", "SECRET=1")
	h.refused("write", s.Path(".env"), "SECRET=2")
	h.refused("write", s.Path(".env.local"), "x")
	h.refused("link", s.Path(".env"), s.Path("other"))
	h.refused("write", filepath.Join(s.Home, "outside"), "x")
	for _, a := range h.try("write", s.Path("inside"), "x") {
		if a.Err != "" {
			t.Errorf("a file of the workspace: %s", a)
		}
	}
	h.refused("run", "/usr/bin/id")
	if got := h.try("run", "/bin/echo", "hello"); got[0].Err != "" || !strings.Contains(got[0].Got, "hello") {
		t.Errorf("a command that rules allow: %v", got)
	}
	if got, err := os.ReadFile(s.Path(".env")); err != nil || string(got) != "SECRET=1" {
		t.Errorf("ATTACK SUCCEEDED: .env has %q, %v", got, err)
	}
	s.recorded(`"rule":"env"`, `"rule":"no-id"`, `"rule":"run"`, `"rule":"files"`)
	s.finish()
}

// TestRename_FolderDoesNotEvadeRule: a rule for a path applies also if a rename gives a folder above the path its name,
// or another name.
func TestRename_FolderDoesNotEvadeRule(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	s := openFixture(t, inSandbox("enforce", `
version: 1
rules:
  - {id: later, effect: ask, on: [fs.write], path: ["${root}/ci/jobs/**"]}
  - {id: never, effect: deny, on: [fs.write], path: ["${root}/conf/prod/**"]}
  - {id: files, effect: allow, on: [fs.read, fs.write, fs.list], path: ["${root}/**", "~/**"]}
`))
	s.prompt()
	h := s.hand
	for _, file := range []string{"ci/jobs/build.yml", "conf/prod/key"} {
		if err := os.MkdirAll(filepath.Dir(s.Path(file)), 0o700); err != nil {
			t.Fatal(err)
		}
		s.File(t, file, "mine")
	}
	h.refused("rename", s.Path("ci"), s.Path("away"))
	h.refused("rename", s.Path("conf"), s.Path("away"))
	for _, into := range []string{"new/jobs", "other/prod", "empty"} {
		h.worked("mkdir", s.Path(into))
	}
	h.worked("write", s.Path("new/jobs/job.yml"), "x")
	h.worked("write", s.Path("other/prod/key"), "x")
	h.refused("exchange", s.Path("new"), s.Path("ci"))
	h.refused("exchange", s.Path("conf"), s.Path("other"))
	h.refused("exchange", s.Path("empty"), s.Path("conf"))
	if err := errors.Join(os.RemoveAll(s.Path("ci")), os.RemoveAll(s.Path("conf"))); err != nil {
		t.Fatal(err)
	}
	h.refused("rename", s.Path("new"), s.Path("ci"))
	h.refused("rename", s.Path("other"), s.Path("conf"))
	if _, err := os.Stat(filepath.Join(s.Home, ".local/state/acphost")); err != nil {
		t.Fatal(err)
	}
	h.refused("rename", filepath.Join(s.Home, ".local"), filepath.Join(s.Home, "away")) // acphost's own state is in it
	h.worked("rename", s.Path("other"), s.Path("another"))
	h.worked("rename", s.Path("empty"), s.Path("ci"))
	s.recorded(`"rule":"never"`)
	s.finish()
}

// TestRename_FilesAddedDuringMoveAreDecided: reading the folder's content for the decision takes time, in which an
// agent can add files.
func TestRename_FilesAddedDuringMoveAreDecided(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	s := openFixture(t, inSandbox("enforce", `
version: 1
rules:
  - {id: never, effect: deny, on: [fs.write], path: ["${root}/conf/*.key"]}
  - {id: files, effect: allow, on: [fs.read, fs.write, fs.list], path: ["${root}/**"]}
`))
	s.prompt()
	if err := os.Mkdir(s.Path("other"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		s.File(t, fmt.Sprint("other/", i), "")
	}
	testkit.Eventually(t, "a file comes into the folder while its move is decided on", func() bool {
		moved := s.hand.try("move-and-fill", s.Path("other"), s.Path("conf"), s.Path("other/a.key"))[0]
		notWritten(t, s.Path("conf/a.key"))
		switch moved.Err {
		case "": // the file came too late
			if err := os.Rename(s.Path("conf"), s.Path("other")); err != nil {
				t.Fatal(err)
			}
		case "EBUSY": // a busy machine could not decide in time
			if err := os.Remove(s.Path("other/a.key")); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		return moved.Err == "EACCES"
	})
	s.recorded(`"rule":"never"`)
	if err := os.Remove(s.Path("other/a.key")); err != nil {
		t.Fatal(err)
	}
	s.hand.worked("rename", s.Path("other"), s.Path("conf"))
	s.finish()
}

// TestRename_DoesNotEvadeReadRule: a file that the agent may not read cannot be given a name under which the agent may.
func TestRename_DoesNotEvadeReadRule(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	s := openFixture(t, policy(`
version: 1
rules:
  - {id: never, effect: deny, on: [fs.read], path: ["${root}/conf/prod/**"]}
  - {id: files, effect: allow, on: [fs.read, fs.write, fs.list], path: ["${root}/**"]}
`, "sandbox: {mode: enforce, require: true, reads: true}"))
	s.prompt()
	h := s.hand
	for _, file := range []string{"conf/prod/key", "open/file"} {
		if err := os.MkdirAll(filepath.Dir(s.Path(file)), 0o700); err != nil {
			t.Fatal(err)
		}
		s.File(t, file, "mine")
	}
	key, open := s.Path("conf/prod/key"), s.Path("open/file")
	h.refused("link", key, s.Path("linked"))
	h.refused("rename", key, s.Path("moved"))
	h.refused("exchange", key, open)
	h.refused("exchange", open, key)
	h.refused("rename", s.Path("conf/prod"), s.Path("moved"))
	h.refused("rename", s.Path("conf"), s.Path("moved"))
	h.refused("exchange", s.Path("open"), s.Path("conf"))
	h.worked("link", open, s.Path("linked"))
	h.worked("rename", open, s.Path("open/other"))
	h.worked("rename", s.Path("open"), s.Path("moved"))
	s.recorded(`"rule":"never"`)
	s.finish()
}

// recorded expects that the record of decisions at the kernel has all of these.
func (s *fixture) recorded(want ...string) {
	s.t.Helper()
	var out, missing string
	var status int
	// The sandbox reports its own refusals without waiting for the supervisor, which records them.
	if !testkit.Poll(func() bool {
		out, status = s.person("audit", "query", "--json", "--door", "kernel")
		i := slices.IndexFunc(want, func(w string) bool { return !strings.Contains(out, w) })
		if i >= 0 {
			missing = want[i]
		}
		return status == 0 && i < 0
	}) {
		s.t.Errorf("the record has no %s (status %d):\n%s", missing, status, out)
	}
}

// worked orders something that has to work.
func (h *hand) worked(deed string, args ...string) tries {
	h.t.Helper()
	all := h.try(deed, args...)
	for _, a := range all {
		if a.Err != "" {
			h.t.Errorf("%s: want that it works", a)
		}
	}
	return all
}

// answers answers a question at the kernel, and waits until the answer counts.
func (s *fixture) answers(asked wire.Message, option string) {
	s.t.Helper()
	s.Reply(asked, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": option}})
	s.ExpectWhere("the end of the question", func(m wire.Message) bool {
		raw := string(m.Raw)
		return strings.Contains(raw, `"tool_call_update"`) && (strings.Contains(raw, `"completed"`) || strings.Contains(raw, `"failed"`))
	})
}

// TestApproval_CountsForNextTry: a system call cannot wait for a person. It is rejected at once, and the question is
// asked meanwhile.
func TestApproval_CountsForNextTry(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	s := openFixture(t, inSandbox("enforce", kernelRules+"  - {id: make, effect: ask, command: [mkdir]}\n"))
	s.prompt()
	h := s.hand
	outside, other := filepath.Join(s.Home, "outside"), filepath.Join(s.Home, "other")
	h.refused("write", outside, "x")
	asked := s.Expect("session/request_permission")
	h.refused("write", outside, "x") // it is being asked about
	s.answers(asked, "allow_once")
	h.worked("write", outside, "x")
	h.worked("write", outside, "y") // in the same turn
	h.refused("write", other, "x")
	s.answers(s.Expect("session/request_permission"), "reject_once")
	h.refused("write", other, "x")

	h.refused("run", "/usr/bin/mkdir", s.Path("d"))
	s.answers(s.Expect("session/request_permission"), "allow_once")
	h.worked("run", "/usr/bin/mkdir", s.Path("d"))
	if err := os.Remove(s.Path("d")); err != nil {
		t.Error(err)
	}
	h.refused("run", "/usr/bin/mkdir", s.Path("d")) // a command passes once
	s.Expect("session/request_permission")
	if left := s.Waiting(); len(left) > 0 {
		for _, m := range left {
			if m.Method == "session/request_permission" {
				t.Errorf("one more question: %s", m.Raw)
			}
		}
	}
	s.recorded(`"option":"allow_once"`, `"option":"reject_once"`, `"answered_by":"earlier answer"`)
	s.finish()
}

// TestCommand_AllowedIsNotAskedAgainAtKernel: an agent asks for a command and then starts the shell by itself. The
// processes of the command have its rights, and denied actions stay denied.
func TestCommand_AllowedIsNotAskedAgainAtKernel(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	rules := "version: 1\nrules:\n  - {id: env, effect: deny, path: ['**/.env']}\n  - {id: no-id, effect: deny, command: [id]}\n"
	s := openFixture(t, inSandbox("enforce", rules))
	s.prompt()
	s.File(t, ".env", "SECRET=1")
	s.File(t, "build", "mkdir -p a/b && cd a/b && for i in 1 2 3; do echo $i > f$i; done; id; sh -c 'echo SECRET=2 > ../../.env'; touch "+
		filepath.Join(s.Home, "outside"))
	line := "sh ./build"
	call := s.agent.Send("session/request_permission", params("toolCall", map[string]any{
		"toolCallId": "t1", "title": line, "kind": "execute", "rawInput": map[string]any{"command": line},
		"content": []any{map[string]any{"type": "content", "content": map[string]any{"type": "text", "text": line}}},
	}, "options", []any{map[string]any{"optionId": "yes", "name": "Yes", "kind": "allow_once"}, map[string]any{"optionId": "no", "name": "No", "kind": "reject_once"}}))
	s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
	call.Result(nil)
	got := s.hand.try("run", "/bin/bash", "-lc", line)
	if _, err := os.Stat(s.Path("a/b/f3")); err != nil {
		t.Errorf("a descendant of an allowed command: %v\n%v", err, got)
	}
	notWritten(t, filepath.Join(s.Home, "outside")) // the line does not name it
	if text, err := os.ReadFile(s.Path(".env")); err != nil || string(text) != "SECRET=1" {
		t.Errorf("ATTACK SUCCEEDED: .env has %q, %v", text, err)
	}
	if !strings.Contains(got[0].Got, "rule env") || !strings.Contains(got[0].Got, "rule no-id") {
		t.Errorf("the command was told %q, want which rules denied", got[0].Got)
	}
	s.finish()
}

// TestShell_StartupFileGivesNoRights: the agent's shell reads a file of the agent before an allowed line. The shell
// keeps the agent's rights, and so do the agent's own files under other names.
func TestShell_StartupFileGivesNoRights(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	s := openFixture(t, func(p *wire.Place) []string {
		p.File(t, "../.config/acphost/agents.json", `{"agents": [{"id": "attacker", "acphost": {"state": ["~/.own", "~/.own/kept/**"]}}]}`)
		return inSandbox("enforce", kernelRules)(p)
	})
	s.prompt()
	h, own, outside := s.hand, filepath.Join(s.Home, ".own"), filepath.Join(s.Home, "outside")
	if err := os.MkdirAll(filepath.Join(own, "kept"), 0o700); err != nil {
		t.Fatal(err)
	}
	line := func(from, into string) string { return "source " + from + " && eval 'echo hi' && pwd -P >| " + into }
	from, into := filepath.Join(own, "kept", "first"), filepath.Join(own, "kept", "cwd")
	h.worked("write", from, "echo x > "+outside+"; echo read")
	if got := h.try("run", "/bin/bash", "-c", line(from, into)); !strings.Contains(got[0].Got, "read") || !strings.Contains(got[0].Got, "hi") {
		t.Errorf("a line that a rule allows: %v", got)
	}
	s.refuse(s.Expect("session/request_permission")) // what the file has the shell write
	if _, err := os.Stat(into); err != nil {
		t.Errorf("the agent's own file: %v", err)
	}
	h.refused("run", "/bin/bash", "-c", line(from, outside))
	h.refused("write", filepath.Join(own, "settings"), "x")
	s.refuse(s.Expect("session/request_permission"))
	h.refused("write", filepath.Join(own, "kept", ".env"), "x") // deny rules hold there too
	if _, err := os.Stat(outside); err == nil {
		t.Error("ATTACK SUCCEEDED: the shell has written outside")
	}
	s.finish()
}

// TestGit_OwnFolderOfAgentGivesNoRights: git with a folder of the agent has the agent's rights, whatever the agent has
// written there.
func TestGit_OwnFolderOfAgentGivesNoRights(t *testing.T) {
	needsSandbox(t)
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("there is no git")
	}
	t.Parallel()
	s := openFixture(t, func(p *wire.Place) []string {
		p.File(t, "../.config/acphost/agents.json", `{"agents": [{"id": "attacker", "acphost": {"state": ["~/.own", "~/.own/kept/**"]}}]}`)
		return inSandbox("enforce", kernelRules+"  - {id: no-gc, effect: deny, command: [\"git gc\"]}\n")(p)
	})
	s.prompt()
	h, own, outside := s.hand, filepath.Join(s.Home, ".own", "kept", "git"), filepath.Join(s.Home, "outside")
	tool := s.File(t, "tool", "#!/bin/sh\necho x > "+outside+"\n")
	if err := os.Chmod(tool, 0o700); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(s.Home, "other")
	for _, dir := range []string{own, other} {
		if out, err := exec.Command(git, "init", "-q", "--bare", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	work := filepath.Dir(tool)
	h.worked("run", "git", "--git-dir", own, "--work-tree", work, "add", "--all")
	h.refused("run", "git", "--git-dir", other, "--work-tree", work, "add", "--all") // it may not write there
	s.refuse(s.Expect("session/request_permission"))
	h.refused("run", "git", "--git-dir", own, "gc")
	// What the agent has git run there is decided on, as if the agent ran it.
	config, err := os.ReadFile(filepath.Join(own, "config"))
	if err != nil {
		t.Fatal(err)
	}
	config = append(config, "[filter \"x\"]\n\tclean = "+tool+"\n"...)
	h.refused("write", filepath.Join(own, "config"), string(config)) // the agent's own folders are no place for what git runs
	if err := os.WriteFile(filepath.Join(own, "config"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	s.File(t, ".gitattributes", "* filter=x\n")
	s.File(t, "new", "text\n")
	h.try("run", "git", "--git-dir", own, "--work-tree", work, "add", "--all")
	asked := s.Expect("session/request_permission")
	if !strings.Contains(string(asked.Raw), "outside") {
		t.Errorf("asked about %s, want the file that the filter writes", asked.Raw)
	}
	s.refuse(asked)
	if _, err := os.Stat(outside); err == nil {
		t.Error("ATTACK SUCCEEDED: a program that git was told to run has written outside")
	}
	s.recorded(`"rule":"no-gc"`)
	s.finish()
}

// TestObserve_RejectsNothing also checks that actions are recorded that would have been rejected.
func TestObserve_RejectsNothing(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	s := openFixture(t, inSandbox("observe", kernelRules))
	s.prompt()
	s.File(t, ".env", "SECRET=1")
	s.hand.worked("write", s.Path(".env"), "SECRET=2")
	s.hand.worked("write", filepath.Join(s.Home, "outside"), "x")
	s.hand.worked("run", "/usr/bin/id")
	s.recorded(`"rule":"env"`, `"rule":"no-id"`, `"outcome":"done, not asked"`)
	s.finish()
}

// TestFault_NothingHangsOrRemains kills or stops each of acphost's processes.
func TestFault_NothingHangsOrRemains(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	t.Run("the sandbox is killed", func(t *testing.T) {
		t.Parallel()
		s := openFixture(t, inSandbox("enforce", "version: 1\nrules: [{id: run, effect: allow, on: [terminal.create]}]\n"))
		s.prompt()
		family, err := proc.Descendants(s.PID())
		if err != nil {
			t.Fatal(err)
		}
		stray := s.hand.spawn("stray")
		s.kill(parent(s.hand.pid))
		s.hand.expectEnd()
		stray.expectEnd()
		s.Close()
		s.ExpectExit()
		s.ExpectNobody(t, family)
	})
	t.Run("the policy is stopped", func(t *testing.T) {
		t.Parallel()
		s := openFixture(t, inSandbox("enforce", kernelRules))
		s.prompt()
		permd := s.own()["permd"]
		testkit.Freeze(t, permd)
		s.hand.refused("write", s.Path("inside"), "x")
		if err := syscall.Kill(permd, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		s.hand.worked("write", s.Path("inside"), "x")
		s.finish()
	})
	t.Run("the policy is killed", func(t *testing.T) {
		t.Parallel()
		s := openFixture(t, inSandbox("enforce", kernelRules))
		s.prompt()
		s.kill(s.own()["permd"])
		if !testkit.Poll(func() bool {
			a, err := s.hand.order("write", s.Path("inside"), "x")
			return err == nil && a[0].Err == ""
		}) {
			t.Error("nothing passes after the policy was started again")
		}
		s.finish()
	})
	t.Run("the supervisor is killed", func(t *testing.T) {
		t.Parallel()
		s := openFixture(t, inSandbox("enforce", kernelRules))
		s.prompt()
		family, err := proc.Descendants(s.PID())
		if err != nil {
			t.Fatal(err)
		}
		s.kill(s.PID())
		s.hand.expectEnd()
		<-s.Done()
		s.ExpectNobody(t, family)
	})
}

// TestSandbox_IsUnreachableForAgent: the sandbox is the agent's parent, runs as the same user, and holds the socket for
// decisions.
func TestSandbox_IsUnreachableForAgent(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	rules := "version: 1\nrules: [{id: all, effect: allow, path: ['/**']}]\n"
	s := openFixture(t, inSandbox("enforce", rules))
	s.prompt()
	box := parent(s.hand.pid)
	for _, file := range []string{"mem", "fd/3", "environ"} {
		s.hand.refused("write", fmt.Sprintf("/proc/%d/%s", box, file), "x")
		s.hand.refused("read", fmt.Sprintf("/proc/%d/%s", box, file))
	}
	s.hand.refused("write", fmt.Sprintf("/proc/%d/oom_score_adj", box), "1000")
	sockets := 0
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.hand.pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", s.hand.pid, fd.Name())); strings.HasPrefix(to, "socket:") {
			sockets++
		}
	}
	if sockets != 2 { // the attacker's own, by which it is played and ordered
		t.Errorf("the agent holds %d sockets, want its own 2", sockets)
	}
	if got := statusOf(s.hand.pid)["Seccomp_filters"]; got < "2" {
		t.Errorf("the agent is behind %s filters, want that of every agent and that of the sandbox", got)
	}
	s.finish()
}

// TestExec_FailureGivesNoRights: an allowed command changes files in the workspace, and the kernel can reject a program that was
// allowed. The process then continues with its old code, and must not have the command's rights.
func TestExec_FailureGivesNoRights(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	rules := "version: 1\nrules: [{id: run, effect: allow, on: [terminal.create]}]\n"
	s := openFixture(t, inSandbox("enforce", rules))
	s.prompt()
	broken := filepath.Join(s.Home, "broken")
	if err := os.WriteFile(broken, []byte("#!/there/is/none\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	h := s.hand.spawn("orphan") // allowed, so that it is a command's
	h.worked("write", s.Path("by-a-command"), "x")
	h.leave()
	s.hand.refused("exec", broken)
	s.hand.refused("write", s.Path("by-the-agent"), "x")
	notWritten(t, s.Path("by-the-agent"))
	s.finish()
}

// TestLandlock_OwnDomainAppliesBesideRules: a process of the agent enters a Landlock domain. The sandbox makes no call
// for it that the domain forbids, and the rules apply unchanged.
func TestLandlock_OwnDomainAppliesBesideRules(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	s := openFixture(t, inSandbox("enforce", `
version: 1
rules:
  - {id: env, effect: deny, path: ["**/.env"]}
  - {id: files, effect: allow, on: [fs.read, fs.write, fs.list], path: ["${root}/**"]}
  - {id: run, effect: allow, on: [terminal.create]}
`))
	s.prompt()
	s.File(t, "own/.env", "SECRET=1")
	h := s.hand.spawn("confined")
	h.worked("enclose", s.Path("own"))
	h.worked("write", s.Path("own/file"), "x")
	h.refused("write", s.Path("own/.env"), "x")
	h.refused("write", s.Path("elsewhere"), "x")
	notWritten(t, s.Path("elsewhere"))
	s.hand.worked("write", s.Path("elsewhere"), "x")
	h.leave()
	s.finish()
}

// TestAudit_RecordsRejectionsBySandbox: the sandbox rejects chroot without a question, and the record shows the user
// which process tried it.
func TestAudit_RecordsRejectionsBySandbox(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	s := openFixture(t, inSandbox("enforce", "version: 1\nrules: [{id: run, effect: allow, on: [terminal.create]}]\n"))
	s.prompt()
	for range 3 {
		s.hand.try("run", "/usr/sbin/chroot", s.Work, "/bin/true")
	}
	s.recorded(`"rule":"acphost/sandbox"`, `another root folder, or a mount`)
	out, _ := s.person("audit", "query", "--json", "--door", "kernel")
	if n := strings.Count(out, `"rule":"acphost/sandbox"`); n != 1 {
		t.Errorf("%d records of the same in one turn, want 1:\n%s", n, out)
	}
	s.finish()
}

// TestSandbox_RequiredButUnavailableStopsStart: a sandbox cannot run inside of another one, as on a kernel without
// Landlock.
func TestSandbox_RequiredButUnavailableStopsStart(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	dir := testkit.ShortDir(t)
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte("journal: {disabled: true}\nsandbox: {mode: enforce, require: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program("acphost"), sandbox.Command, "--write", "/", "--", program("acphost"), "run", "--config", config, "--", "true")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "TMPDIR=" + dir}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "sandbox.require is set") || !strings.Contains(string(out), "leave out sandbox.require") {
		t.Errorf("got %v:\n%s", err, out)
	}
}
