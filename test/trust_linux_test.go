package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
)

func TestTheAgentCannotReachItsSupervisorNorTheDaemons(t *testing.T) {
	t.Parallel()
	if err := proc.ConfineSupported(); err != nil {
		t.Skipf("this kernel has no Landlock that scopes signals: %v", err)
	}
	p := newPlace(t)
	p.file(t, "a", "text")
	// The agent waits for the pids, tries all that it can, and only then becomes an agent that answers.
	hostile := fmt.Sprintf(`exec 2>%[1]s
while [ ! -e %[2]s ]; do sleep 0.05; done
for pid in $(cat %[2]s); do
  kill -STOP $pid && echo "stopped $pid" >>%[3]s
  (echo forged >/proc/$pid/fd/0) && echo "wrote to $pid" >>%[3]s
  (: >>/proc/$pid/mem) && echo "opened the memory of $pid" >>%[3]s
done >/dev/null
exec %[4]s`, p.path("refusals"), p.path("pids"), p.path("done"), program("demoagent"))
	h := p.start(t, nil, []string{"sh", "-c", hostile})
	pids := []int{h.PID(), h.daemon("fsd"), h.daemon("termd"), h.daemon("permd"), h.guard()}
	p.file(t, "pids.new", strings.Trim(fmt.Sprint(pids), "[]"))
	if err := os.Rename(p.path("pids.new"), p.path("pids")); err != nil {
		t.Fatal(err)
	}
	h.initialize(`{}`).Result(nil)
	if done, err := os.ReadFile(p.path("done")); err == nil {
		t.Errorf("the agent reached out:\n%s", done)
	}
	if said, err := os.ReadFile(p.path("refusals")); err != nil || strings.Count(string(said), "\n") < 3*len(pids) {
		t.Errorf("the agent was refused this only: %s (%v)", said, err)
	}
	h.finish()
}

func TestADeadPolicyRefuses(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, p.policy(t, rules, ""))
	s.signal(s.daemon("permd"), syscall.SIGSTOP) // it answers no more, and the question has 5 s
	if got := chosen(t, s.ask(edit(p.path("a")), options)); got != "no" {
		t.Errorf("the answer is %q, want a rejection", got)
	}
	s.finish()
}

func TestAReplacedHandlerIsNotStarted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	original, err := os.ReadFile(program("fsd"))
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(p.home, "fsd")
	install := func(content []byte) {
		if err := os.WriteFile(own+".new", content, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(own+".new", own); err != nil {
			t.Fatal(err)
		}
	}
	install(original)
	s := p.scene(t, p.config(t, "handlers: {fs: {command: ["+own+"]}}"))
	fsd := s.daemon("fsd")
	install(append(original, 0))
	s.signal(fsd, syscall.SIGKILL)
	var state handlerState
	if !testkit.Poll(func() bool {
		state = s.handler("fs")
		// It may have been replaced before it was measured, and is as little trusted then.
		return state.State == "HANDLER_STATE_FAILED" && (strings.Contains(state.Error, "sha256") || strings.Contains(state.Error, "before it was measured"))
	}) {
		t.Errorf("the file daemon is %+v, want it not to be started, and why", state)
	}
	s.read("a").Refused(-32603)
	s.finish()
}

func TestASymlinkThatIsSwappedLeadsNobodyOut(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, nil)
	secret := p.file(t, "../secret", "outside")
	p.file(t, "inside", "inside")
	link := p.path("link")
	lead := func(target string) {
		if err := os.Symlink(target, link+".next"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link+".next", link); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		lead(p.path("inside"))
		read := s.read("link")
		lead(secret)
		if m := read.Answer(); strings.Contains(string(m.Raw), "outside") {
			t.Fatalf("the file outside was read: %s", m.Raw)
		}
		lead(p.path("inside"))
		write := s.write("link", "changed")
		lead(secret)
		write.Answer()
		if text, err := os.ReadFile(secret); err != nil || string(text) != "outside" {
			t.Fatalf("the file outside is %q (%v)", text, err)
		}
	}
	s.write("link", "changed").Refused(-32602)
	s.finish()
}

func TestAcphostsOwnFilesAreRefusedWhateverTheRootsAndThePolicy(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, p.policy(t, "version: 1\nrules: [{id: all, effect: allow, path: [\"/**\"]}]\n", ""))
	opened := s.Send("session/new", map[string]any{"cwd": p.home, "mcpServers": []any{}}) // everything is inside
	s.agent.Reply(s.agent.Expect("session/new"), map[string]any{"sessionId": "s1"})
	opened.Result(nil)
	policy := filepath.Join(p.home, "config", "policy.yaml")
	for _, path := range []string{policy, filepath.Join(p.home, "config", "config.yaml"), filepath.Join(p.work, "..", "config", "policy.yaml")} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if m := s.agent.Send("fs/write_text_file", params("path", path, "content", "version: 1\n")).Answer(); m.Error == nil {
			t.Errorf("%s could be written", path)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
			t.Errorf("%s is changed (%v)", path, err)
		}
	}
	if got := chosen(t, s.ask(edit(policy), options)); got != "no" {
		t.Errorf("a question about the policy was answered with %q, want the option that rejects", got)
	}
	s.finish()
}

func TestASessionCannotReachIntoAnother(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, nil)
	p.file(t, "a", "text")
	other := filepath.Dir(p.file(t, "../other/b", "text"))
	opened := s.Send("session/new", map[string]any{"cwd": other, "mcpServers": []any{}})
	s.agent.Reply(s.agent.Expect("session/new"), map[string]any{"sessionId": "s2"})
	opened.Result(nil)
	var made struct{ TerminalID string }
	s.agent.Request("terminal/create", params("command", "sleep 600"), &made)
	for _, method := range []string{"terminal/output", "terminal/kill", "terminal/wait_for_exit"} {
		s.agent.Send(method, map[string]any{"sessionId": "s2", "terminalId": made.TerminalID}).Refused(-32002)
	}
	s.agent.Send("fs/read_text_file", map[string]any{"sessionId": "s2", "path": p.path("a")}).Refused(-32602)
	s.agent.Request("terminal/release", params("terminalId", made.TerminalID), nil)
	s.finish()
}

func TestAnEscapedMethodIsNoWayAround(t *testing.T) {
	t.Parallel()
	s := newPlace(t).scene(t, nil)
	s.agent.Write(`{"jsonrpc":"2.0","id":1,"\u006dethod":"fs\/read_text_file","params":{"sessionId":"s1","path":"/etc/hosts"}}`)
	if m := s.agent.Next(); m.Error == nil || m.Error.Code != -32602 || !strings.Contains(m.Error.Message, "Path escapes workspace: /etc/hosts") {
		t.Errorf("the answer is %s, want the path refused", m.Raw)
	}
	s.finish()
}

func TestWhatIsDeniedByConfigurationIsNotThere(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, p.config(t, "routes: {terminal/*: deny, _acme.com/x: deny}"))
	s.agent.Send("terminal/create", params("command", "true")).Refused(-32601)
	s.agent.Send("_acme.com/x", params()).Refused(-32601)
	s.finish()
}
