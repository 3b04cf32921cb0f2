package policy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
)

func TestTrust_AgentCannotReachSockets(t *testing.T) {
	t.Parallel()
	if err := proc.ConfineSupported(); err != nil {
		t.Skipf("this kernel has no Landlock that scopes signals: %v", err)
	}
	p := e2e.NewPlace(t)
	p.File(t, "a", "text")
	// The agent waits for the pids, tries all that it can, and only then becomes an agent that answers.
	hostile := fmt.Sprintf(`exec 2>%[1]s
while [ ! -e %[2]s ]; do sleep 0.05; done
for pid in $(cat %[2]s); do
  kill -STOP $pid && echo "stopped $pid" >>%[3]s
  (echo forged >/proc/$pid/fd/0) && echo "wrote to $pid" >>%[3]s
  (: >>/proc/$pid/mem) && echo "opened the memory of $pid" >>%[3]s
done >/dev/null
exec %[4]s`, p.Path("refusals"), p.Path("pids"), p.Path("done"), e2e.Program("demoagent"))
	h := p.Start(t, nil, []string{"sh", "-c", hostile})
	pids := []int{h.PID(), h.Daemon("fsd"), h.Daemon("termd"), h.Daemon("permd"), h.Guard()}
	p.File(t, "pids.new", strings.Trim(fmt.Sprint(pids), "[]"))
	if err := os.Rename(p.Path("pids.new"), p.Path("pids")); err != nil {
		t.Fatal(err)
	}
	h.Initialize(`{}`).Result(nil)
	if done, err := os.ReadFile(p.Path("done")); err == nil {
		t.Errorf("the agent reached out:\n%s", done)
	}
	if content, err := os.ReadFile(p.Path("refusals")); err != nil || strings.Count(string(content), "\n") < 3*len(pids) {
		t.Errorf("the agent was refused this only: %s (%v)", content, err)
	}
	h.Finish()
}

func TestTrust_DeadPolicyDenies(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, p.Policy(t, e2e.Rules, ""))
	s.Signal(s.Daemon("permd"), syscall.SIGSTOP) // it answers no more, and the question has 5 s
	if got := e2e.Chosen(t, s.Ask(e2e.Edit(p.Path("a")), e2e.Options)); got != "no" {
		t.Errorf("the answer is %q, want a rejection", got)
	}
	s.Finish()
}

func TestTrust_ReplacedHandlerIsNotStarted(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	original, err := os.ReadFile(e2e.Program("fsd"))
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(p.Home, "fsd")
	install := func(content []byte) {
		if err := os.WriteFile(own+".new", content, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(own+".new", own); err != nil {
			t.Fatal(err)
		}
	}
	install(original)
	s := p.Fixture(t, p.Config(t, "handlers: {fs: {command: ["+own+"]}}"))
	fsd := s.Daemon("fsd")
	install(append(original, 0))
	s.Signal(fsd, syscall.SIGKILL)
	var state e2e.HandlerState
	if !testkit.Poll(func() bool {
		state = s.Handler("fs")
		// It may have been replaced before it was measured, and is as little trusted then.
		return state.State == "HANDLER_STATE_FAILED" && (strings.Contains(state.Error, "sha256") || strings.Contains(state.Error, "before it was measured"))
	}) {
		t.Errorf("the file daemon is %+v, want it not to be started, and why", state)
	}
	s.Read("a").Refused(-32603)
	s.Finish()
}

func TestTrust_SwappedSymlink(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)
	secret := p.File(t, "../secret", "outside")
	p.File(t, "inside", "inside")
	link := p.Path("link")
	lead := func(target string) {
		if err := os.Symlink(target, link+".next"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link+".next", link); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		lead(p.Path("inside"))
		read := s.Read("link")
		lead(secret)
		if m := read.Answer(); strings.Contains(string(m.Raw), "outside") {
			t.Fatalf("the file outside was read: %s", m.Raw)
		}
		lead(p.Path("inside"))
		write := s.WriteFile("link", "changed")
		lead(secret)
		write.Answer()
		if text, err := os.ReadFile(secret); err != nil || string(text) != "outside" {
			t.Fatalf("the file outside is %q (%v)", text, err)
		}
	}
	s.WriteFile("link", "changed").Refused(-32602)
	s.Finish()
}

func TestTrust_OwnFilesAreDenied(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, p.Policy(t, "version: 1\nrules: [{id: all, effect: allow, path: [\"/**\"]}]\n", ""))
	opened := s.Send("session/new", map[string]any{"cwd": p.Home, "mcpServers": []any{}}) // everything is inside
	s.Agent.Reply(s.Agent.Expect("session/new"), map[string]any{"sessionId": "s1"})
	opened.Result(nil)
	policy := filepath.Join(p.Home, "config", "policy.yaml")
	for _, path := range []string{policy, filepath.Join(p.Home, "config", "config.yaml"), filepath.Join(p.Work, "..", "config", "policy.yaml")} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if m := s.Agent.Send("fs/write_text_file", e2e.Params("path", path, "content", "version: 1\n")).Answer(); m.Error == nil {
			t.Errorf("%s could be written", path)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
			t.Errorf("%s is changed (%v)", path, err)
		}
	}
	if got := e2e.Chosen(t, s.Ask(e2e.Edit(policy), e2e.Options)); got != "no" {
		t.Errorf("a question about the policy was answered with %q, want the option that rejects", got)
	}
	s.Finish()
}

func TestTrust_SessionsAreSeparate(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)
	p.File(t, "a", "text")
	other := filepath.Dir(p.File(t, "../other/b", "text"))
	opened := s.Send("session/new", map[string]any{"cwd": other, "mcpServers": []any{}})
	s.Agent.Reply(s.Agent.Expect("session/new"), map[string]any{"sessionId": "s2"})
	opened.Result(nil)
	var made struct{ TerminalID string }
	s.Agent.Request("terminal/create", e2e.Params("command", "sleep 600"), &made)
	for _, method := range []string{"terminal/output", "terminal/kill", "terminal/wait_for_exit"} {
		s.Agent.Send(method, map[string]any{"sessionId": "s2", "terminalId": made.TerminalID}).Refused(-32002)
	}
	s.Agent.Send("fs/read_text_file", map[string]any{"sessionId": "s2", "path": p.Path("a")}).Refused(-32602)
	s.Agent.Request("terminal/release", e2e.Params("terminalId", made.TerminalID), nil)
	s.Finish()
}

func TestTrust_EscapedMethodName(t *testing.T) {
	t.Parallel()
	s := e2e.NewPlace(t).Fixture(t, nil)
	s.Agent.Write(`{"jsonrpc":"2.0","id":1,"\u006dethod":"fs\/read_text_file","params":{"sessionId":"s1","path":"/etc/hosts"}}`)
	if m := s.Agent.Next(); m.Error == nil || m.Error.Code != -32602 || !strings.Contains(m.Error.Message, "Path escapes workspace: /etc/hosts") {
		t.Errorf("the answer is %s, want the path refused", m.Raw)
	}
	s.Finish()
}

func TestRoutes_DeniedMethodIsNotFound(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, p.Config(t, "routes: {terminal/*: deny, _acme.com/x: deny}"))
	s.Agent.Send("terminal/create", e2e.Params("command", "true")).Refused(-32601)
	s.Agent.Send("_acme.com/x", e2e.Params()).Refused(-32601)
	s.Finish()
}
