package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/wire"
)

// older is an agent that knows ACP's methods by the names of its first drafts alone, and says nothing in the shape of today.
// Each line of a prompt is a step: "write FILE", "run COMMAND", "ask". It tells the end of a turn by session/end_turn, and
// never answers a prompt.
type older struct {
	in      *bufio.Scanner
	out     io.Writer
	session string
	id      int
}

func playOlder() int {
	o := &older{in: bufio.NewScanner(os.Stdin), out: os.Stdout}
	for {
		m, ok := o.read()
		if !ok {
			return 0
		}
		o.take(m)
	}
}

// message is what the agent reads of a message.
type message struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Prompt []struct{ Text string }
	}
	Result map[string]any
	Error  *struct{ Message string }
}

func (o *older) read() (m message, ok bool) {
	if !o.in.Scan() {
		return m, false
	}
	return m, json.Unmarshal(o.in.Bytes(), &m) == nil
}

func (o *older) say(v map[string]any) {
	v["jsonrpc"] = "2.0"
	b, _ := json.Marshal(v)
	_, _ = o.out.Write(append(b, '\n'))
}

// call makes a request of a session that it does not name: it knows one alone.
func (o *older) call(method string, params map[string]any) message {
	o.id++
	o.say(map[string]any{"id": o.id, "method": method, "params": params})
	for {
		m, ok := o.read()
		if !ok {
			os.Exit(0)
		}
		if m.Method == "" && string(m.ID) == fmt.Sprint(o.id) {
			return m
		}
		o.take(m)
	}
}

func (o *older) update(kind string, content any) {
	o.say(map[string]any{"method": "sessionUpdate", "params": map[string]any{"sessionId": o.session, "type": kind, "content": content}})
}

func (o *older) take(m message) {
	switch m.Method {
	case "initialize":
		o.say(map[string]any{"id": m.ID, "result": map[string]any{"protocolVersion": 1}})
	case "newSession":
		o.session = "the-one"
		o.say(map[string]any{"id": m.ID, "result": map[string]any{"sessionId": o.session}})
	case "prompt":
		o.update("thinking", "Hm.")
		for step := range strings.Lines(m.Params.Prompt[0].Text) {
			verb, what, _ := strings.Cut(strings.TrimSpace(step), " ")
			o.step(verb, what)
		}
		o.say(map[string]any{"method": "session/end_turn", "params": map[string]any{"sessionId": o.session, "reason": "complete"}})
	case "cancel", "":
	default:
		if m.ID != nil {
			o.say(map[string]any{"id": m.ID, "error": map[string]any{"code": -32601, "message": "what is " + m.Method + "?"}})
		}
	}
}

func (o *older) step(verb, what string) {
	var m message
	switch verb {
	case "write":
		m = o.call("writeTextFile", map[string]any{"path": what, "content": "written\n"})
	case "read":
		m = o.call("readTextFile", map[string]any{"path": what})
	case "run":
		m = o.call("createTerminal", map[string]any{"command": what})
		if id := m.Result["terminalId"]; id != nil {
			o.call("waitForTerminalExit", map[string]any{"terminalId": id})
			m = o.call("terminalOutput", map[string]any{"terminalId": id})
			o.call("releaseTerminal", map[string]any{"terminalId": id})
		}
	case "ask":
		m = o.call("requestPermission", map[string]any{"id": "perm_1", "tool": "bash", "description": what,
			"options": []map[string]any{{"id": "once", "label": "Allow Once"}, {"id": "deny", "label": "Deny"}}})
	}
	said := fmt.Sprintf("[%s %s: %v]", verb, what, m.Result)
	if m.Error != nil {
		said = fmt.Sprintf("[%s %s: %s]", verb, what, m.Error.Message)
	}
	o.update("text", said)
}

func TestAnAgentOfAnOlderProtocolWorksUnderAPolicyAndWithout(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		flags  []string
		secret bool
		says   []string
	}{
		"workspace": {[]string{"--policy", "workspace"}, false, []string{"notes.txt: map[]]", ".env: fs/write_text_file: denied", "output:hello"}},
		"none":      {nil, true, []string{"notes.txt: map[]]", ".env: map[]]", "output:hello"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			steps := fmt.Sprintf("write %s\nwrite %s\nrun echo hello", p.path("notes.txt"), p.path(".env"))
			status, out, errs := p.cli(t, append(append([]string{"prompt", "--json"}, want.flags...), append([]string{steps, "--"}, role("older")...)...)...)
			if status != 0 {
				t.Errorf("the exit status is %d: %s", status, errs)
			}
			var said, thought string
			for line := range strings.Lines(out) {
				var e struct {
					AgentMessage, AgentThought struct {
						Content struct{ Text struct{ Text string } }
					}
				}
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				said += e.AgentMessage.Content.Text.Text
				thought += e.AgentThought.Content.Text.Text
			}
			if thought != "Hm." {
				t.Errorf("the agent thought %q\n%s", thought, out)
			}
			expectContains(t, "the agent", said, want.says...)
			if b, err := os.ReadFile(p.path("notes.txt")); err != nil || string(b) != "written\n" {
				t.Errorf("notes.txt is %q (%v)", b, err)
			}
			if _, err := os.Stat(p.path(".env")); (err == nil) != want.secret {
				t.Errorf(".env: %v", err)
			}
			status, out, errs = p.cli(t, "sessions", "show", "the-one")
			if status != 0 {
				t.Errorf("sessions show: %d, %s", status, errs)
			}
			expectContains(t, "the record", out, "Hm.", "notes.txt", "hello", "turn")
		})
	}
}

func TestAnAgentOfAnOlderProtocolTakesPromptAfterPromptInServe(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, []string{"--policy", "workspace"})
	agent := s.start(&supervisorv1.StartAgentRequest{Command: role("older"), Cwd: p.work})
	opened, err := s.sessions.NewSession(s.ctx, &supervisorv1.NewSessionRequest{AgentId: agent.GetId(), Cwd: p.work})
	if err != nil {
		t.Fatal(explain(err))
	}
	session := opened.GetSession().GetSessionId()
	for range 2 {
		events, err := s.sessions.Prompt(s.ctx, &supervisorv1.PromptRequest{AgentId: agent.GetId(), SessionId: session,
			Prompt: []*supervisorv1.ContentBlock{text("write " + p.path("notes.txt") + "\nread " + p.path(".env"))}})
		if err != nil {
			t.Fatal(explain(err))
		}
		said := ""
		for {
			m, err := events.Recv()
			if err != nil {
				t.Fatal(explain(err))
			}
			said += m.GetEvent().GetAgentMessage().GetContent().GetText().GetText()
			if end := m.GetEvent().GetTurnEnded(); end != nil {
				if end.GetStopReason() != "end_turn" {
					t.Errorf("the turn ended with %v", end)
				}
				break
			}
		}
		expectContains(t, "the agent", said, "notes.txt: map[]]", "fs/read_text_file: denied")
	}
	s.finish()
}

func TestAnEditorAndAnAgentOfAnOlderProtocolAreHeardUnderAPolicy(t *testing.T) {
	t.Parallel()
	for _, policy := range []bool{true, false} {
		p := newPlace(t)
		var flags []string
		if policy {
			flags = []string{"--policy", "workspace"}
		}
		h := p.start(t, flags, role("older"))
		asked := make(chan wire.Message, 1)
		h.Handle("requestPermission", func(m wire.Message) (any, error) {
			asked <- m
			return map[string]any{"optionId": "deny"}, nil
		})
		h.initialize(`{}`).Result(nil)
		h.Request("newSession", map[string]any{"cwd": p.work}, nil)
		h.Send("prompt", map[string]any{"sessionId": "the-one", "prompt": []any{map[string]any{"type": "text",
			"text": "write " + p.path("notes.txt") + "\nwrite " + p.path(".env") + "\nask Execute: make"}}})
		h.Expect("session/end_turn")
		if m := <-asked; !strings.Contains(string(m.Raw), `"description":"Execute: make"`) {
			t.Errorf("the editor is asked %s", m.Raw)
		}
		_, err := os.Stat(p.path(".env"))
		if (err == nil) == policy {
			t.Errorf("with a policy: %v; .env: %v", policy, err)
		}
		if b, err := os.ReadFile(p.path("notes.txt")); err != nil || string(b) != "written\n" {
			t.Errorf("notes.txt is %q (%v)", b, err)
		}
		var said []string
		for _, m := range h.Waiting() {
			if m.Method == "sessionUpdate" {
				said = append(said, string(m.Raw))
			}
		}
		expectContains(t, "the agent", strings.Join(said, "\n"), `[ask Execute: make: map[optionId:deny]]`)
		h.finish()
	}
}
