package protocol_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// feedReader is a program that reads file activity, and ends as soon as a line is not as the protocol is described.
type feedReader struct {
	t     testing.TB
	in    io.WriteCloser
	lines chan string // closed when there are no more
	token string
	asked int
	// finish ends the reader, which has found nothing wrong.
	finish func()
}

// feedLine has the members of a line that tests check. Each line was validated.
type feedLine struct {
	Type, Path, Action string
	SessionID          string `json:"session_id"`
	ID                 any
	Nodes              map[string]feedNode
	Updates            []feedNode
	Used, Size         int
	Cost               struct {
		Amount   float64
		Currency string
	}
	Error  struct{ Code int }
	Result json.RawMessage
}

type feedNode struct {
	Path       string
	LastAction string `json:"last_action"`
	InContext  bool   `json:"in_context"`
}

// readFeed starts a reader of the feed whose address a supervisor prints on its standard error.
func readFeed(t testing.TB, p *e2e.Place, supervisor *wire.Process) *feedReader {
	t.Helper()
	pattern := regexp.MustCompile(`(?m)^eisen-core tcp port: (\d+)\nacphost: file activity token: (\S+)$`)
	testkit.Eventually(t, "port and token are printed", func() bool { return pattern.MatchString(supervisor.Stderr()) })
	found := pattern.FindStringSubmatch(supervisor.Stderr())
	cmd := wire.Command(t, "node", e2e.Peer(t, "feed-reader.mjs"), found[1])
	cmd.Env = p.Env()
	r := &feedReader{t: t, lines: make(chan string, 1<<16), token: found[2]}
	var wrong strings.Builder
	cmd.Stderr = &wrong
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.lines)
		for s := bufio.NewReader(out); ; {
			line, err := s.ReadString('\n')
			if err != nil {
				return
			}
			r.lines <- line
		}
	}()
	r.in = in
	r.finish = sync.OnceFunc(func() {
		_ = in.Close()
		for range r.lines { // up to the end
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the reader: %v\n%s", err, wrong.String())
		}
	})
	t.Cleanup(r.finish)
	return r
}

// until returns the next line for which found holds.
func (r *feedReader) until(what string, found func(*feedLine) bool) *feedLine {
	r.t.Helper()
	deadline := time.NewTimer(testkit.Timeout())
	defer deadline.Stop()
	for {
		select {
		case line, more := <-r.lines:
			var l feedLine
			if !more {
				r.t.Fatalf("the reader ended before %s", what)
			} else if err := json.Unmarshal([]byte(line), &l); err != nil {
				r.t.Fatal(err)
			}
			if found(&l) {
				return &l
			}
		case <-deadline.C:
			r.t.Fatalf("%s did not come within %v", what, testkit.Timeout())
		}
	}
}

// file waits until a file was used last in a way.
func (r *feedReader) file(path, action string, inContext bool) {
	r.t.Helper()
	want := feedNode{path, action, inContext}
	r.until(fmt.Sprint("the file ", want), func(l *feedLine) bool {
		for _, n := range l.Updates {
			if n == want {
				return true
			}
		}
		return l.Nodes[path] == want
	})
}

func (r *feedReader) say(line string) {
	r.t.Helper()
	if _, err := io.WriteString(r.in, line+"\n"); err != nil {
		r.t.Fatal(err)
	}
}

// call makes an rpc and returns its answer.
func (r *feedReader) call(method, params, token string) *feedLine {
	r.t.Helper()
	r.asked++
	id := fmt.Sprint(method, r.asked)
	r.say(fmt.Sprintf(`{"type":"rpc","id":%q,"method":%q,"params":%s,"token":%q}`, id, method, params, token))
	return r.until("the answer to "+method, func(l *feedLine) bool { return l.ID == id })
}

// methods calls every method there is, about a session that is known.
func (r *feedReader) methods(session string) {
	r.t.Helper()
	params := fmt.Sprintf(`{"session_id":%q}`, session)
	for _, method := range []string{"list_sessions", "get_session_state"} {
		if got := r.call(method, params, ""); got.Type != "rpc_result" || !strings.Contains(string(got.Result), session) {
			r.t.Errorf("%s: %+v", method, got)
		}
	}
	for _, method := range []string{"create_session", "close_session", "set_active_session", "add_context_items", "set_orchestrator_providers"} {
		for _, token := range []string{"", "guessed"} {
			if got := r.call(method, params, token); got.Type != "rpc_error" || got.Error.Code != 400 {
				r.t.Errorf("%s with the token %q: %+v", method, token, got)
			}
		}
	}
	if got := r.call("set_active_session", params, r.token); got.Type != "rpc_result" {
		r.t.Errorf("set_active_session: %+v", got)
	}
	for method, params := range map[string]string{"nobody_knows": `{}`, "get_session_state": `{"session_id":"other"}`} {
		if got := r.call(method, params, r.token); got.Type != "rpc_error" || got.Error.Code != 404 {
			r.t.Errorf("%s: %+v", method, got)
		}
	}
	snapshot := func(l *feedLine) bool { return l.Type == "snapshot" && l.SessionID == session }
	for _, line := range []string{
		`{"type":"request_snapshot"}`, `{"type":"request_snapshot","session_id":"` + session + `"}`,
		`{"type":"set_stream_filter","session_mode":"single_agent","session_id":"` + session + `"}`, `{"type":"set_stream_filter"}`,
	} {
		r.say(line)
		r.until("the snapshot for "+line, snapshot)
	}
	r.say(`{"type":"set_stream_filter","session_mode":"orchestrator"}`)
	r.until("an empty snapshot", func(l *feedLine) bool { return l.Type == "snapshot" && len(l.Nodes) == 0 && l.SessionID == "" })
	r.say(`{"type":"set_stream_filter"}`)
	r.until("all again", snapshot)
}

func TestActivityFeed_ObserveMode(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, []string{"--observe", "--activity", "127.0.0.1:0"})
	r := readFeed(t, p, s.Process)
	r.until("the session", func(l *feedLine) bool { return l.Type == "snapshot" && l.SessionID == "s1" })
	turn := s.Send("session/prompt", e2e.Params("prompt", []any{
		map[string]any{"type": "text", "text": "look at @docs/a.md"},
		map[string]any{"type": "resource", "resource": map[string]any{"uri": "file://" + p.Path("b.md"), "text": "b"}},
		map[string]any{"type": "resource_link", "name": "c", "uri": "file://" + p.Path("c.md")},
		// Names that are not UTF-8: the events are UTF-8.
		map[string]any{"type": "resource_link", "name": "d", "uri": "file://" + p.Path("%ff.md")},
		map[string]any{"type": "resource_link", "name": "e", "uri": "file://" + p.Path("%fe.md")},
	}))
	prompt := s.Agent.Expect("session/prompt")
	r.file("docs/a.md", "user_referenced", true)
	r.say(`{"type":"request_snapshot"}`)
	r.file("\ufffd.md", "user_referenced", true)
	update := func(call map[string]any) {
		s.Agent.Notify("session/update", e2e.Params("update", call))
		s.Expect("session/update")
	}
	tool := func(id, kind, path, status string) {
		update(map[string]any{
			"sessionUpdate": "tool_call", "toolCallId": id, "title": id, "kind": kind, "status": status,
			"locations": []any{map[string]any{"path": path}},
		})
	}
	tool("t1", "read", p.Path("src/a.go"), "completed")
	r.file("src/a.go", "read", true)
	tool("t2", "edit", p.Path("src/a.go"), "in_progress")
	r.file("src/a.go", "write", true)
	tool("t3", "search", p.Work, "completed")
	r.file(".", "search", true)
	tool("t4", "read", "/etc/hosts", "completed")
	r.file("/etc/hosts", "read", true)
	tool("t5", "edit", p.Path(".env"), "pending")
	asked := s.Ask(map[string]any{"toolCallId": "t5"}, e2e.Options)
	s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "no"}})
	asked.Result(nil)
	update(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": "t5", "status": "failed"})
	r.file(".env", "blocked", false)
	if got := r.until("what was blocked", func(l *feedLine) bool { return l.Type == "blocked" }); got.Path != ".env" || got.Action != "write" {
		t.Errorf("blocked: %+v", got)
	}
	update(map[string]any{"sessionUpdate": "usage_update", "used": 900, "size": 1000, "cost": map[string]any{"amount": 0.5, "currency": "USD"}})
	if got := r.until("the usage", func(l *feedLine) bool { return l.Type == "usage" }); got.Used != 900 || got.Size != 1000 || got.Cost.Amount != 0.5 || got.Cost.Currency != "USD" {
		t.Errorf("usage: %+v", got)
	}
	tool("t6", "read", p.Path("\x1b[2J \u202e"), "completed")
	r.file("\x1b[2J \u202e", "read", true)
	update(map[string]any{"sessionUpdate": "usage_update", "used": 100, "size": 1000})
	r.until("what has cooled down", func(l *feedLine) bool { // the context is half as full as it was
		for _, n := range l.Updates {
			if n.Path == "b.md" && n.LastAction == "user_provided" && !n.InContext {
				return true
			}
		}
		return false
	})
	r.methods("s1")
	s.Agent.Reply(prompt, map[string]any{"stopReason": "end_turn"})
	turn.Result(nil)
	r.finish()
	s.Finish()
}

func TestActivityFeed_Serve(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "a\n")
	p.File(t, ".env", "SECRET=1\n")
	s := p.Serve(t, append(p.Policy(t, `
version: 1
rules:
  - {id: secrets, effect: deny, path: ["**/.env"]}
  - {id: all, effect: allow, on: [fs.read, fs.write, terminal.create]}
`, ""), "--activity", "127.0.0.1:0"))
	r := readFeed(t, p, s.Process)
	agent := s.Start(p.Demo()).GetId()
	session := s.Open(agent).GetSessionId()
	for _, c := range []struct{ prompt, path, action string }{
		{"/read " + p.Path("a.txt"), "a.txt", "read"},
		{"/write " + p.Path("new/b.txt") + " b", "new/b.txt", "write"},
		{"/run grep -r a sub", "sub", "search"},
		{"/read " + p.Path(".env"), ".env", "blocked"},
	} {
		s.Prompt(session, c.prompt).End()
		r.file(c.path, c.action, true) // the prompt names the files, and they are in the context for that
	}
	r.until("what was blocked", func(l *feedLine) bool { return l.Type == "blocked" && l.Path == ".env" && l.Action == "read" })
	r.methods(session)
	if _, err := s.Agents.StopAgent(s.Ctx, &supervisorv1.StopAgentRequest{AgentId: agent}); err != nil {
		t.Fatal(err)
	}
	r.finish()
	s.Finish()
}

func TestActivityFeed_SlowReaderGetsSnapshot(t *testing.T) {
	t.Parallel()
	const files, aCall, rounds = 3000, 60, 6 // of 1 KiB a name: more than a connection and its queue hold
	p := e2e.NewPlace(t)
	s := p.Fixture(t, []string{"--observe", "--activity", "127.0.0.1:0"})
	fast, slow := readFeed(t, p, s.Process), readFeed(t, p, s.Process)
	opened := func(l *feedLine) bool { return l.Type == "snapshot" && l.SessionID == "s1" }
	fast.until("the session", opened)
	slow.until("the session", opened)
	slow.say("pause")
	name := func(i int) string { return fmt.Sprintf("%s%04d", strings.Repeat("0123456789", 100), i) }
	for round := range rounds {
		kind := []string{"read", "edit"}[round%2]
		for i := 0; i < files; i += aCall {
			var at []any
			for j := range aCall {
				at = append(at, map[string]any{"path": p.Path(name(i + j))})
			}
			s.Agent.Notify("session/update", e2e.Params("update", map[string]any{
				"sessionUpdate": "tool_call", "toolCallId": fmt.Sprintf("%d-%d", round, i), "title": "x", "kind": kind, "status": "completed", "locations": at,
			}))
			s.Expect("session/update")
		}
		fast.file(name(files-1), []string{"read", "write"}[round%2], true)
	}
	slow.say("resume")
	got := slow.until("a snapshot in place of what it has missed", opened)
	if len(got.Nodes) != files || got.Nodes[name(0)].LastAction != "write" {
		t.Errorf("the snapshot has %d files", len(got.Nodes))
	}
	s.Agent.Notify("session/update", e2e.Params("update", map[string]any{
		"sessionUpdate": "tool_call", "toolCallId": "last", "title": "x", "kind": "read", "status": "completed", "locations": []any{map[string]any{"path": p.Path("last")}},
	}))
	s.Expect("session/update")
	slow.file("last", "read", true)
	fast.finish()
	slow.finish()
	s.Finish()
}
