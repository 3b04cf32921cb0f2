package handlers_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// ownerOf returns the id of a file's owner.
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

func TestUser_HandlersActAsUserOfAgent(t *testing.T) {
	t.Parallel()
	h := e2e.NewUserPlace(t)
	h.File(t, "secret.txt", "root's alone\n") // 0600
	h.Own(t, h.File(t, "mine.txt", "mine\n"))
	if err := os.Mkdir(h.Path("closed"), 0o755); err != nil {
		t.Fatal(err)
	}
	hidden := filepath.Join(h.Home, "hidden")
	if err := os.Mkdir(hidden, 0o700); err != nil {
		t.Fatal(err)
	}
	s := h.Fixture(t, h.Flags)

	uid := fmt.Sprint(h.AgentUser.UID)
	if got := prints(s, `id -u; id -ru; whoami; id -G | tr ' ' '\n' | grep -cx 0; echo "$HOME:$USER:$LOGNAME:$SHELL"; umask >/dev/null; pwd`); got !=
		uid+"\n"+uid+"\nnobody\n0\n"+h.AgentUser.Home+":nobody:nobody:/bin/sh\n"+h.Work+"\n" {
		t.Errorf("a command prints %q", got)
	}
	if got := prints(s, "cat secret.txt; echo x >closed/x; ls "+hidden); strings.Count(got, "ermission denied") != 3 {
		t.Errorf("a command got what its user may not: %q", got)
	}
	for _, refused := range []*wire.Call{
		s.Read("secret.txt"), s.WriteFile("secret.txt", "x"), s.WriteFile("closed/new.txt", "x"), s.Read("closed/../secret.txt"),
	} {
		if m := refused.Answer(); m.Error == nil {
			t.Errorf("the file handler did what the agent's user may not: %s", m.Raw)
		} else if strings.Contains(string(m.Raw), "root's alone") {
			t.Errorf("a rejection contains what it rejects: %s", m.Raw)
		}
	}
	if text, err := os.ReadFile(h.Path("secret.txt")); err != nil || string(text) != "root's alone\n" {
		t.Errorf("secret.txt holds %q (%v)", text, err)
	}
	if got := e2e.Content(s.Read("mine.txt")); got != "mine\n" {
		t.Errorf("the agent read %q of its own file", got)
	}
	s.WriteFile("new.txt", "new\n").Result(nil)
	prints(s, "echo made >made.txt")
	for _, name := range []string{"new.txt", "made.txt"} {
		if got := ownerOf(t, h.Path(name)); got != h.AgentUser.UID {
			t.Errorf("%s belongs to %d, want the agent's user %d", name, got, h.AgentUser.UID)
		}
	}
	s.Finish()
}

func TestUser_StateShowsUserOfHandlers(t *testing.T) {
	t.Parallel()
	h := e2e.NewUserPlace(t)
	s := h.Fixture(t, h.Flags)
	calls := h.Dial(t, s.PID())
	want := map[string]string{"fs": "nobody (" + fmt.Sprint(h.AgentUser.UID) + ")", "permission": "root (0)"}
	want["terminal"] = want["fs"]
	look := func() map[string]*supervisorv1.HandlerStatus {
		t.Helper()
		res, err := calls.State.ListHandlers(wire.Context(t), &supervisorv1.ListHandlersRequest{})
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]*supervisorv1.HandlerStatus{}
		for _, st := range res.GetHandlers() {
			found[st.GetName()] = st
			uid := "0"
			if st.GetName() != "permission" {
				uid = fmt.Sprint(h.AgentUser.UID)
			}
			if st.GetUser() != want[st.GetName()] || userOf(t, st.GetPid()) != uid {
				t.Errorf("handler %s is reported to run as %q, and runs as %s", st.GetName(), st.GetUser(), userOf(t, st.GetPid()))
			}
		}
		return found
	}
	before := look()
	h.Acphost(t, 0, "handler", "restart", "fs")
	h.Acphost(t, 0, "handler", "swap", "terminal", "--", h.Install(t, e2e.Program("termd")))
	after := look()
	for _, name := range []string{"fs", "terminal"} {
		if before[name].GetPid() == after[name].GetPid() {
			t.Errorf("handler %s is the same process as before", name)
		}
	}
	// A handler that dies is restarted as the same user.
	if err := syscall.Kill(int(after["terminal"].GetPid()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !testkit.Poll(func() bool {
		res, err := calls.State.ListHandlers(wire.Context(t), &supervisorv1.ListHandlersRequest{})
		return err == nil && slices.ContainsFunc(res.GetHandlers(), func(st *supervisorv1.HandlerStatus) bool {
			return st.GetName() == "terminal" && st.GetPid() != after["terminal"].GetPid() && st.GetState() == supervisorv1.HandlerState_HANDLER_STATE_READY
		})
	}) {
		t.Fatal("the terminal handler did not come back")
	}
	look()
	if got := prints(s, "id -u"); got != fmt.Sprint(h.AgentUser.UID)+"\n" {
		t.Errorf("a command runs as %q", got)
	}
	s.Finish()
}

func TestUser_TerminalsAreKilledAndReleased(t *testing.T) {
	t.Parallel()
	h := e2e.NewUserPlace(t)
	s := h.Fixture(t, h.Flags)
	create := func(line string) string {
		var made struct{ TerminalID string }
		s.Agent.Request("terminal/create", e2e.Params("command", line), &made)
		return made.TerminalID
	}
	killed := create("trap '' TERM; sleep 1000 & setsid sleep 1000 & wait")
	s.Agent.Request("terminal/kill", e2e.Params("terminalId", killed), nil)
	var exit struct{ Signal *string }
	s.Agent.Request("terminal/wait_for_exit", e2e.Params("terminalId", killed), &exit)
	released := create("sleep 1000 & setsid sleep 1000 & wait")
	s.Agent.Request("terminal/release", e2e.Params("terminalId", released), nil)
	create("sleep 1000 & setsid sleep 1000 & wait") // left to the end
	family := s.Family()
	if !testkit.Poll(func() bool {
		pids, err := proc.Descendants(s.PID())
		return err == nil && strings.Count(wire.Describe(pids), "sleep 1000") <= 4
	}) {
		t.Error("processes of terminals that were ended are left")
	}
	// A killed supervisor leaves no files, either.
	if err := s.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.ExpectExit()
	s.ExpectNobody(t, family)
}

func TestUser_RejectsHandlersOfOtherUser(t *testing.T) {
	t.Parallel()
	h := e2e.NewUserPlace(t)
	private := filepath.Join(h.Home, "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	_, socket := h.Sidecar(t, "fsd") // root's
	secret := h.Secret(t)
	own := h.Install(t, e2e.Program("termd"))
	hiddenTermd := filepath.Join(private, "termd")
	if err := os.Rename(own, hiddenTermd); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config string
		says   []string
	}{
		"an unknown user":        {"agent: {user: no-such-user}\n", []string{"agent.user", "no-such-user"}},
		"a sidecar of root's":    {fmt.Sprintf("agent: {user: nobody}\nhandlers: {fs: {address: %q, secret_file: %q, agent_may_call: true}}\n", socket, secret), []string{"handler fs", "runs as user 0", fmt.Sprint(h.AgentUser.UID)}},
		"a sidecar named so":     {fmt.Sprintf("agent: {user: nobody}\nhandlers: {fs: {address: %q, uid: 0, secret_file: %q}}\n", socket, secret), []string{"handlers.fs.uid", "user 0", "nobody"}},
		"a program out of reach": {fmt.Sprintf("agent: {user: nobody}\nhandlers: {terminal: {command: [%q]}}\n", hiddenTermd), []string{hiddenTermd, "nobody", "may not execute"}},
		"a handler without TLS":  {fmt.Sprintf("agent: {user: nobody}\nhandlers: {terminal: {command: [%q], no_tls: true, agent_may_call: true}}\n", e2e.Program("termd")), []string{"handlers.terminal", "no_tls"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := e2e.NewPlace(t)
			if err := os.Chmod(p.Home, 0o711); err != nil {
				t.Fatal(err)
			}
			h.Own(t, p.Work)
			status, out, errs := p.Cli(t, append([]string{"prompt"}, append(p.Config(t, c.config), "repeat hello", "--", e2e.Program("demoagent"))...)...)
			if status == 0 {
				t.Errorf("it was started: %s", out)
			}
			e2e.ExpectContains(t, "the output", errs, c.says...)
		})
	}
}

func TestUser_QuestionOmitsInaccessiblePaths(t *testing.T) {
	t.Parallel()
	h := e2e.NewUserPlace(t)
	h.File(t, "secret.txt", "root's alone\n")
	h.Own(t, h.File(t, "x.txt", "mine\n"))
	private := filepath.Join(h.Home, "private")
	if err := os.MkdirAll(filepath.Join(private, "there"), 0o700); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		filepath.Join(private, "back"): h.Work,
		// A path that only root can follow is not accessible for the agent, whether its target exists or not.
		h.Path("there.txt"): filepath.Join(private, "back", "x.txt"),
		h.Path("gone.txt"):  filepath.Join(private, "gone", "x.txt"),
	} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	s := h.Fixture(t, h.Policy(t, `
version: 1
rules:
  - {id: writing, effect: ask, on: [fs.write]}
  - {id: reading, effect: allow, on: [fs.read], path: ["${root}/**"]}
`, "agent: {user: nobody}\n"))
	call := s.WriteFile("secret.txt", "mine now\n")
	q := s.Asked()
	if strings.Contains(string(q.Raw), "root's alone") {
		t.Errorf("a question shows what the agent's user may not read: %s", q.Raw)
	}
	s.Choose(q, "allow_once")
	call.Refused(-32603)
	s.Status(q, "in_progress")
	s.Status(q, "failed")
	errors := map[string]bool{}
	for _, name := range []string{"there.txt", "gone.txt"} {
		call := s.Read(name)
		q := s.Asked() // since neither counts as one of the workspace's
		s.Choose(q, "allow_once")
		errors[strings.ReplaceAll(call.Refused(-32602).Message, name, "…")] = true
		s.Status(q, "in_progress")
		s.Status(q, "failed")
	}
	if len(errors) != 1 {
		t.Errorf("the errors depend on what exists: %v", errors)
	}
	s.Finish()
}

func TestUser_ServeRunsAgentsAsOneUser(t *testing.T) {
	t.Parallel()
	h := e2e.NewUserPlace(t)
	s := h.Serve(t, h.Flags)
	req := h.Demo()
	req.Env["DEMOAGENT_STATE"] = e2e.Value(filepath.Join(h.Work, "kept"))
	res, err := s.Agents.StartAgent(s.Ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if got := userOf(t, res.GetAgent().GetPid()); got != fmt.Sprint(h.AgentUser.UID) {
		t.Errorf("the agent runs as %s", got)
	}
	st, err := s.State.GetStatus(s.Ctx, &supervisorv1.GetStatusRequest{})
	if err != nil || st.GetProtection().GetAgentUser() != "nobody" {
		t.Errorf("the status is %v (%v)", st.GetProtection(), err)
	}
	s.Finish()
}

func TestUser_RunOnTerminal(t *testing.T) {
	t.Parallel()
	h := e2e.NewUserPlace(t)
	command := append([]string{e2e.Program("acphost"), "run"}, h.Flags...)
	x := h.Terminal(t, append(command, "--", "sh", "-c", `echo "I am $(id -u), at home in $HOME"; cat `+h.File(t, "secret.txt", "root's alone")))
	if got := x.Exits(); got != 1 {
		t.Errorf("the exit status is %d, want the agent's 1", got)
	}
	e2e.ExpectContains(t, "the terminal", x.All(), fmt.Sprintf("I am %d, at home in %s", h.AgentUser.UID, h.AgentUser.Home), "ermission denied")
}

func TestUser_AllowedOutsideFileUsesRightsOfUser(t *testing.T) {
	t.Parallel()
	h := e2e.NewUserPlace(t)
	open, private := filepath.Join(filepath.Dir(h.Work), "open"), filepath.Join(filepath.Dir(h.Work), "private")
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
	s := h.Fixture(t, h.Policy(t, "version: 1\nrules:\n  - {id: all, effect: ask, on: [\"fs.*\"]}\n", "agent: {user: nobody}\n"))
	read := s.Agent.Send("fs/read_text_file", e2e.Params("path", filepath.Join(open, "f")))
	q := s.Asked()
	s.Choose(q, "allow_once")
	if got := e2e.Content(read); got != "old" {
		t.Errorf("the read returned %q", got)
	}
	s.Status(q, "in_progress")
	s.Status(q, "completed")
	read = s.Agent.Send("fs/read_text_file", e2e.Params("path", filepath.Join(private, "f")))
	q = s.Asked()
	s.Choose(q, "allow_once")
	if got := read.Answer(); got.Error == nil {
		t.Errorf("a file that only root may read was read: %s", got.Raw)
	}
}

// prints returns the output of a command line.
func prints(s *e2e.Fixture, line string) string {
	s.T.Helper()
	var ran struct{ Output string }
	s.Agent.Request("terminal/run", e2e.Params("command", line), &ran)
	return strings.ReplaceAll(ran.Output, "\r\n", "\n")
}
