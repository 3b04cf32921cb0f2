package e2e_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/internal/users"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/wire"
)

// guest is the user that agents run as here.
func guest(t testing.TB) *proc.User {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process as another user")
	}
	u, err := users.Lookup("nobody")
	if err != nil {
		t.Skipf("this system has no user nobody: %v", err)
	}
	return u
}

// house is a place in which agents and their handlers run as another user.
type house struct {
	*place
	guest *proc.User
	flags []string
}

func newHouse(t testing.TB) *house {
	t.Helper()
	u := guest(t)
	p := newPlace(t)
	h := &house{place: p, guest: u, flags: p.config(t, "agent: {user: nobody}\n")}
	for _, dir := range []string{p.home, filepath.Join(p.home, "tmp")} {
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	h.own(t, p.work)
	if err := wire.Command(t, "setpriv", "--reuid", strconv.Itoa(int(u.UID)), "--clear-groups", program("termd"), "--version").Run(); err != nil {
		t.Skipf("nobody may not execute the programs under test in %s: %v", bin, err)
	}
	return h
}

// own gives a file to the guest.
func (h *house) own(t testing.TB, path string) {
	t.Helper()
	if err := os.Chown(path, int(h.guest.UID), int(h.guest.GID)); err != nil {
		t.Fatal(err)
	}
}

// scene is place.scene, with an agent that the guest may execute.
func (h *house) scene(t testing.TB, flags []string, env ...string) *scene {
	t.Helper()
	st := h.newStage(t)
	st.command[0] = h.install(t, st.command[0])
	started := h.start(t, flags, st.command, env...)
	s := &scene{host: started, agent: st.play(t)}
	call := started.initialize(showsTerminals)
	s.agent.Reply(s.agent.Expect("initialize"), map[string]any{"protocolVersion": 1})
	call.Result(nil)
	s.open("s1")
	return s
}

// install copies a program to where everybody may execute it.
func (h *house) install(t testing.TB, program string) string {
	t.Helper()
	from, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	path := filepath.Join(h.home, filepath.Base(program))
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// prints is what a command line writes.
func (s *scene) prints(line string) string {
	s.t.Helper()
	var ran struct{ Output string }
	s.agent.Request("terminal/run", params("command", line), &ran)
	return strings.ReplaceAll(ran.Output, "\r\n", "\n")
}

// ownerOf is who a file belongs to.
func ownerOf(t testing.TB, path string) uint32 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}

// userOf is the user id that a process runs as.
func userOf(t testing.TB, pid int64) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			if all := slices.Compact(strings.Fields(ids)); len(all) == 1 {
				return all[0]
			}
			return line
		}
	}
	t.Fatalf("process %d has no user", pid)
	return ""
}

func TestWhatIsDoneForAnAgentIsDoneAsItsUser(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.file(t, "secret.txt", "root's alone\n") // 0600
	h.own(t, h.file(t, "mine.txt", "mine\n"))
	if err := os.Mkdir(h.path("closed"), 0o755); err != nil {
		t.Fatal(err)
	}
	hidden := filepath.Join(h.home, "hidden")
	if err := os.Mkdir(hidden, 0o700); err != nil {
		t.Fatal(err)
	}
	s := h.scene(t, h.flags)

	uid := fmt.Sprint(h.guest.UID)
	if got := s.prints(`id -u; id -ru; whoami; id -G | tr ' ' '\n' | grep -cx 0; echo "$HOME:$USER:$LOGNAME:$SHELL"; umask >/dev/null; pwd`); got !=
		uid+"\n"+uid+"\nnobody\n0\n"+h.guest.Home+":nobody:nobody:/bin/sh\n"+h.work+"\n" {
		t.Errorf("a command says %q", got)
	}
	if got := s.prints("cat secret.txt; echo x >closed/x; ls " + hidden); strings.Count(got, "ermission denied") != 3 {
		t.Errorf("a command got what its user may not: %q", got)
	}
	for _, refused := range []*wire.Call{
		s.read("secret.txt"), s.write("secret.txt", "x"), s.write("closed/new.txt", "x"), s.read("closed/../secret.txt"),
	} {
		if m := refused.Answer(); m.Error == nil {
			t.Errorf("the file handler did what the agent's user may not: %s", m.Raw)
		} else if strings.Contains(string(m.Raw), "root's alone") {
			t.Errorf("a refusal tells what it refuses: %s", m.Raw)
		}
	}
	if text, err := os.ReadFile(h.path("secret.txt")); err != nil || string(text) != "root's alone\n" {
		t.Errorf("secret.txt holds %q (%v)", text, err)
	}
	if got := content(s.read("mine.txt")); got != "mine\n" {
		t.Errorf("the agent read %q of its own file", got)
	}
	s.write("new.txt", "new\n").Result(nil)
	s.prints("echo made >made.txt")
	for _, name := range []string{"new.txt", "made.txt"} {
		if got := ownerOf(t, h.path(name)); got != h.guest.UID {
			t.Errorf("%s belongs to %d, want the agent's user %d", name, got, h.guest.UID)
		}
	}
	s.finish()
}

func TestTheStateShowsWhoHandlersRunAsAndTheyStayThat(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.scene(t, h.flags)
	calls := h.dial(t, s.PID())
	want := map[string]string{"fs": "nobody (" + fmt.Sprint(h.guest.UID) + ")", "permission": "root (0)"}
	want["terminal"] = want["fs"]
	look := func() map[string]*supervisorv1.HandlerStatus {
		t.Helper()
		res, err := calls.state.ListHandlers(wire.Context(t), &supervisorv1.ListHandlersRequest{})
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]*supervisorv1.HandlerStatus{}
		for _, st := range res.GetHandlers() {
			found[st.GetName()] = st
			uid := "0"
			if st.GetName() != "permission" {
				uid = fmt.Sprint(h.guest.UID)
			}
			if st.GetUser() != want[st.GetName()] || userOf(t, st.GetPid()) != uid {
				t.Errorf("handler %s is said to run as %q, and runs as %s", st.GetName(), st.GetUser(), userOf(t, st.GetPid()))
			}
		}
		return found
	}
	before := look()
	h.acphost(t, 0, "handler", "restart", "fs")
	h.acphost(t, 0, "handler", "swap", "terminal", "--", h.install(t, program("termd")))
	after := look()
	for _, name := range []string{"fs", "terminal"} {
		if before[name].GetPid() == after[name].GetPid() {
			t.Errorf("handler %s is the same process as before", name)
		}
	}
	// One that dies comes back as the same user.
	if err := syscall.Kill(int(after["terminal"].GetPid()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !testkit.Poll(func() bool {
		res, err := calls.state.ListHandlers(wire.Context(t), &supervisorv1.ListHandlersRequest{})
		return err == nil && slices.ContainsFunc(res.GetHandlers(), func(st *supervisorv1.HandlerStatus) bool {
			return st.GetName() == "terminal" && st.GetPid() != after["terminal"].GetPid() && st.GetState() == supervisorv1.HandlerState_HANDLER_STATE_READY
		})
	}) {
		t.Fatal("the terminal handler did not come back")
	}
	look()
	if got := s.prints("id -u"); got != fmt.Sprint(h.guest.UID)+"\n" {
		t.Errorf("a command runs as %q", got)
	}
	s.finish()
}

func TestTerminalsOfAnotherUserAreKilledAndReleased(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.scene(t, h.flags)
	create := func(line string) string {
		var made struct{ TerminalID string }
		s.agent.Request("terminal/create", params("command", line), &made)
		return made.TerminalID
	}
	killed := create("trap '' TERM; sleep 1000 & setsid sleep 1000 & wait")
	s.agent.Request("terminal/kill", params("terminalId", killed), nil)
	var exit struct{ Signal *string }
	s.agent.Request("terminal/wait_for_exit", params("terminalId", killed), &exit)
	released := create("sleep 1000 & setsid sleep 1000 & wait")
	s.agent.Request("terminal/release", params("terminalId", released), nil)
	create("sleep 1000 & setsid sleep 1000 & wait") // left to the end
	family := s.family()
	if !testkit.Poll(func() bool {
		pids, err := proc.Descendants(s.PID())
		return err == nil && strings.Count(wire.Describe(pids), "sleep 1000") <= 4
	}) {
		t.Error("processes of terminals that were ended are left")
	}
	// Nor does a supervisor that is killed leave anything.
	if err := s.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.ExpectExit()
	s.expectNobody(t, family)
}

func TestWhatCannotActAsTheAgentsUserIsRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	private := filepath.Join(h.home, "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	_, socket := h.sidecar(t, "fsd") // root's
	secret := h.secret(t)
	own := h.install(t, program("termd"))
	hiddenTermd := filepath.Join(private, "termd")
	if err := os.Rename(own, hiddenTermd); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config string
		says   []string
	}{
		"an unknown user":        {"agent: {user: no-such-user}\n", []string{"agent.user", "no-such-user"}},
		"a sidecar of root's":    {fmt.Sprintf("agent: {user: nobody}\nhandlers: {fs: {address: %q, secret_file: %q, agent_may_call: true}}\n", socket, secret), []string{"handler fs", "runs as user 0", fmt.Sprint(h.guest.UID)}},
		"a sidecar named so":     {fmt.Sprintf("agent: {user: nobody}\nhandlers: {fs: {address: %q, uid: 0, secret_file: %q}}\n", socket, secret), []string{"handlers.fs.uid", "user 0", "nobody"}},
		"a program out of reach": {fmt.Sprintf("agent: {user: nobody}\nhandlers: {terminal: {command: [%q]}}\n", hiddenTermd), []string{hiddenTermd, "nobody", "may not execute"}},
		"a handler without TLS":  {fmt.Sprintf("agent: {user: nobody}\nhandlers: {terminal: {command: [%q], no_tls: true, agent_may_call: true}}\n", program("termd")), []string{"handlers.terminal", "no_tls"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			if err := os.Chmod(p.home, 0o711); err != nil {
				t.Fatal(err)
			}
			h.own(t, p.work)
			status, out, errs := p.cli(t, append([]string{"prompt"}, append(p.config(t, c.config), "repeat hello", "--", program("demoagent"))...)...)
			if status == 0 {
				t.Errorf("it was started: %s", out)
			}
			expectContains(t, "what is said", errs, c.says...)
		})
	}
}

func TestAQuestionDoesNotTellWhatItsUserMayNotSee(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.file(t, "secret.txt", "root's alone\n")
	h.own(t, h.file(t, "x.txt", "mine\n"))
	private := filepath.Join(h.home, "private")
	if err := os.MkdirAll(filepath.Join(private, "there"), 0o700); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		filepath.Join(private, "back"): h.work,
		// A way that only root can follow leads nowhere for the agent, whether it is there or not.
		h.path("there.txt"): filepath.Join(private, "back", "x.txt"),
		h.path("gone.txt"):  filepath.Join(private, "gone", "x.txt"),
	} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	s := h.scene(t, h.policy(t, `
version: 1
rules:
  - {id: writing, effect: ask, on: [fs.write]}
  - {id: reading, effect: allow, on: [fs.read], path: ["${root}/**"]}
`, "agent: {user: nobody}\n"))
	call := s.write("secret.txt", "mine now\n")
	q := s.asked()
	if strings.Contains(string(q.Raw), "root's alone") {
		t.Errorf("a question shows what the agent's user may not read: %s", q.Raw)
	}
	s.choose(q, "allow_once")
	call.Refused(-32603)
	s.status(q, "in_progress")
	s.status(q, "failed")
	told := map[string]bool{}
	for _, name := range []string{"there.txt", "gone.txt"} {
		call := s.read(name)
		q := s.asked() // since neither counts as one of the workspace's
		s.choose(q, "allow_once")
		told[strings.ReplaceAll(call.Refused(-32602).Message, name, "…")] = true
		s.status(q, "in_progress")
		s.status(q, "failed")
	}
	if len(told) != 1 {
		t.Errorf("what is told differs by what is there: %v", told)
	}
	s.finish()
}

func TestAgentsOfAServerRunAsItsOneUser(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.serve(t, h.flags)
	req := h.demo()
	req.Env["DEMOAGENT_STATE"] = value(filepath.Join(h.work, "kept"))
	res, err := s.agents.StartAgent(s.ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if got := userOf(t, res.GetAgent().GetPid()); got != fmt.Sprint(h.guest.UID) {
		t.Errorf("the agent runs as %s", got)
	}
	st, err := s.state.GetStatus(s.ctx, &supervisorv1.GetStatusRequest{})
	if err != nil || st.GetProtection().GetAgentUser() != "nobody" {
		t.Errorf("the status says %v (%v)", st.GetProtection(), err)
	}
	s.finish()
}

func TestOnATerminalTheAgentIsItsUserToo(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	command := append([]string{program("acphost"), "run"}, h.flags...)
	x := h.terminal(t, append(command, "--", "sh", "-c", `echo "I am $(id -u), at home in $HOME"; cat `+h.file(t, "secret.txt", "root's alone")))
	if got := x.exits(); got != 1 {
		t.Errorf("the exit status is %d, want the agent's 1", got)
	}
	expectContains(t, "the terminal", x.all(), fmt.Sprintf("I am %d, at home in %s", h.guest.UID, h.guest.Home), "ermission denied")
}

func TestAFileOutsideThatAPersonAllowedIsOpenedWithTheRightsOfTheAgentsUser(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	open, private := filepath.Join(filepath.Dir(h.work), "open"), filepath.Join(filepath.Dir(h.work), "private")
	for dir, mode := range map[string]os.FileMode{open: 0o777, private: 0o700} {
		if err := os.Mkdir(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := h.scene(t, h.policy(t, "version: 1\nrules:\n  - {id: all, effect: ask, on: [\"fs.*\"]}\n", "agent: {user: nobody}\n"))
	read := s.agent.Send("fs/read_text_file", params("path", filepath.Join(open, "f")))
	q := s.asked()
	s.choose(q, "allow_once")
	if got := content(read); got != "old" {
		t.Errorf("the read says %q", got)
	}
	s.status(q, "in_progress")
	s.status(q, "completed")
	read = s.agent.Send("fs/read_text_file", params("path", filepath.Join(private, "f")))
	q = s.asked()
	s.choose(q, "allow_once")
	if got := read.Answer(); got.Error == nil {
		t.Errorf("what only root may read was read: %s", got.Raw)
	}
}
