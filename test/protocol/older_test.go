package protocol_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

func TestOlderProtocol_AgentWithAndWithoutPolicy(t *testing.T) {
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
			p := e2e.NewPlace(t)
			steps := fmt.Sprintf("write %s\nwrite %s\nrun echo hello", p.Path("notes.txt"), p.Path(".env"))
			status, out, errs := p.Cli(t, append(append([]string{"prompt", "--json"}, want.flags...), append([]string{steps, "--"}, e2e.Role("older")...)...)...)
			if status != 0 {
				t.Errorf("the exit status is %d: %s", status, errs)
			}
			var message, thought string
			for line := range strings.Lines(out) {
				var e struct {
					AgentMessage, AgentThought struct {
						Content struct{ Text struct{ Text string } }
					}
				}
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				message += e.AgentMessage.Content.Text.Text
				thought += e.AgentThought.Content.Text.Text
			}
			if thought != "Hm." {
				t.Errorf("the agent thought %q\n%s", thought, out)
			}
			e2e.ExpectContains(t, "the agent", message, want.says...)
			if b, err := os.ReadFile(p.Path("notes.txt")); err != nil || string(b) != "written\n" {
				t.Errorf("notes.txt is %q (%v)", b, err)
			}
			if _, err := os.Stat(p.Path(".env")); (err == nil) != want.secret {
				t.Errorf(".env: %v", err)
			}
			status, out, errs = p.Cli(t, "sessions", "show", "the-one")
			if status != 0 {
				t.Errorf("sessions show: %d, %s", status, errs)
			}
			e2e.ExpectContains(t, "the record", out, "Hm.", "notes.txt", "hello", "turn")
		})
	}
}

func TestOlderProtocol_ServeSendsSeveralPrompts(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, []string{"--policy", "workspace"})
	agent := s.Start(&supervisorv1.StartAgentRequest{Command: e2e.Role("older"), Cwd: p.Work})
	opened, err := s.Sessions.NewSession(s.Ctx, &supervisorv1.NewSessionRequest{AgentId: agent.GetId(), Cwd: p.Work})
	if err != nil {
		t.Fatal(e2e.Explain(err))
	}
	session := opened.GetSession().GetSessionId()
	for range 2 {
		events, err := s.Sessions.Prompt(s.Ctx, &supervisorv1.PromptRequest{AgentId: agent.GetId(), SessionId: session,
			Prompt: []*supervisorv1.ContentBlock{e2e.Text("write " + p.Path("notes.txt") + "\nread " + p.Path(".env"))}})
		if err != nil {
			t.Fatal(e2e.Explain(err))
		}
		message := ""
		for {
			m, err := events.Recv()
			if err != nil {
				t.Fatal(e2e.Explain(err))
			}
			message += m.GetEvent().GetAgentMessage().GetContent().GetText().GetText()
			if end := m.GetEvent().GetTurnEnded(); end != nil {
				if end.GetStopReason() != "end_turn" {
					t.Errorf("the turn ended with %v", end)
				}
				break
			}
		}
		e2e.ExpectContains(t, "the agent", message, "notes.txt: map[]]", "fs/read_text_file: denied")
	}
	s.Finish()
}

func TestOlderProtocol_EditorAndAgentUnderPolicy(t *testing.T) {
	t.Parallel()
	for _, policy := range []bool{true, false} {
		p := e2e.NewPlace(t)
		var flags []string
		if policy {
			flags = []string{"--policy", "workspace"}
		}
		h := p.Start(t, flags, e2e.Role("older"))
		asked := make(chan wire.Message, 1)
		h.Handle("requestPermission", func(m wire.Message) (any, error) {
			asked <- m
			return map[string]any{"optionId": "deny"}, nil
		})
		h.Initialize(`{}`).Result(nil)
		h.Request("newSession", map[string]any{"cwd": p.Work}, nil)
		h.Send("prompt", map[string]any{"sessionId": "the-one", "prompt": []any{map[string]any{"type": "text",
			"text": "write " + p.Path("notes.txt") + "\nwrite " + p.Path(".env") + "\nask Execute: make"}}})
		h.Expect("session/end_turn")
		if m := <-asked; !strings.Contains(string(m.Raw), `"description":"Execute: make"`) {
			t.Errorf("the editor is asked %s", m.Raw)
		}
		_, err := os.Stat(p.Path(".env"))
		if (err == nil) == policy {
			t.Errorf("with a policy: %v; .env: %v", policy, err)
		}
		if b, err := os.ReadFile(p.Path("notes.txt")); err != nil || string(b) != "written\n" {
			t.Errorf("notes.txt is %q (%v)", b, err)
		}
		var messages []string
		for _, m := range h.Waiting() {
			if m.Method == "sessionUpdate" {
				messages = append(messages, string(m.Raw))
			}
		}
		e2e.ExpectContains(t, "the agent", strings.Join(messages, "\n"), `[ask Execute: make: map[optionId:deny]]`)
		h.Finish()
	}
}
