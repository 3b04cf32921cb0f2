package protocol_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// shown is the part of an update that a terminal's display is made of.
type shown struct {
	Kind    string `json:"sessionUpdate"`
	ID      string `json:"toolCallId"`
	Title   string
	Status  string
	Content []struct {
		Type, TerminalID string
		Content          struct{ Text string }
	}
	Meta struct {
		Output *struct{ Data string } `json:"terminal_output"`
		Exit   *struct {
			ExitCode *int    `json:"exit_code"`
			Signal   *string `json:"signal"`
		} `json:"terminal_exit"`
		Intro *struct {
			TerminalID string `json:"terminal_id"`
			CWD        string `json:"cwd"`
		} `json:"terminal_info"`
	} `json:"_meta"`
}

func update(t *testing.T, m wire.Message) shown {
	t.Helper()
	var p struct{ Update shown }
	if m.Method != "session/update" {
		t.Fatalf("expected an update, got %s", m.Raw)
	}
	m.Decode(t, &p)
	return p.Update
}

func TestDisplay_TerminalIsIntroducedAndEndIsShownFirst(t *testing.T) {
	t.Parallel()
	s := e2e.NewPlace(t).FixtureWith(t, e2e.ShowsTerminals, nil, nil)
	id, mention := s.Terminal("printf 'first\\n'; printf '\\033[1mäö\\033[0m\\n'; exit 3")
	s.Agent.Write(mention)

	intro := update(t, s.Next())
	if intro.Kind != "tool_call" || intro.ID != "c" || intro.Title != "Run it" || intro.Meta.Intro == nil ||
		intro.Meta.Intro.TerminalID != id || intro.Meta.Intro.CWD != s.Work {
		t.Fatalf("the introduction is %+v", intro)
	}
	if got := s.ExpectWhere("the agent's own update", func(wire.Message) bool { return true }); string(got.Raw) != mention {
		t.Fatalf("the agent's line became\n%s, it was\n%s", got.Raw, mention)
	}
	s.Agent.Request("terminal/wait_for_exit", e2e.Params("terminalId", id), nil)
	// The agent knows the result, so the editor must have received it already.
	var output strings.Builder
	var exit *int
	for _, m := range s.Settled(func(m wire.Message) bool { return strings.Contains(string(m.Raw), "terminal_exit") }) {
		u := update(t, m)
		if u.Meta.Output != nil {
			if exit != nil {
				t.Error("output arrived after the exit")
			}
			output.WriteString(u.Meta.Output.Data)
		}
		if u.Meta.Exit != nil {
			exit = u.Meta.Exit.ExitCode
		}
	}
	if want := "first\r\n\x1b[1mäö\x1b[0m\r\n"; output.String() != want {
		t.Errorf("the editor received %q, want %q", output.String(), want)
	}
	if exit == nil || *exit != 3 {
		t.Errorf("the editor received the exit code %v, want 3", exit)
	}
	s.Agent.Request("terminal/release", e2e.Params("terminalId", id), nil)
	s.Finish()
}

func TestDisplay_EditorWithoutTerminalsGetsText(t *testing.T) {
	t.Parallel()
	s := e2e.NewPlace(t).Fixture(t, nil)
	id, mention := s.Terminal("printf '\\033[1mone\\033[0m\\ntwo\\n'")
	s.Agent.Write(mention)
	s.Agent.Request("terminal/wait_for_exit", e2e.Params("terminalId", id), nil)
	var last string
	for _, m := range s.Settled(func(m wire.Message) bool { return strings.Contains(string(m.Raw), "two") }) {
		if strings.Contains(string(m.Raw), id) {
			t.Errorf("the editor was notified of a terminal that it does not know: %s", m.Raw)
		}
		for _, c := range update(t, m).Content {
			if c.Type == "content" {
				last = c.Content.Text
			}
		}
	}
	if !strings.Contains(last, "one\ntwo") || !strings.HasPrefix(last, "```") {
		t.Errorf("the text in the terminal's place is %q, want a fenced block with the plain output", last)
	}
	s.Agent.Request("terminal/release", e2e.Params("terminalId", id), nil)
	s.Finish()
}

func TestDisplay_TerminalInQuestionIsIntroducedFirst(t *testing.T) {
	t.Parallel()
	s := e2e.NewPlace(t).FixtureWith(t, e2e.ShowsTerminals, nil, nil)
	id, _ := s.Terminal("sleep 600")
	line := `{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c","content":[{"type":"terminal","terminalId":"` + id +
		`"}]},"options":[{"optionId":"yes","name":"Go on","kind":"allow_once"}]}}`
	s.Agent.Write(line)
	if intro := update(t, s.Next()); intro.Meta.Intro == nil || intro.Meta.Intro.TerminalID != id {
		t.Fatalf("the introduction is %+v", intro)
	}
	question := s.Expect("session/request_permission")
	if string(question.Raw) != line {
		t.Errorf("the question became\n%s, it was\n%s", question.Raw, line)
	}
	s.Reply(question, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
	s.Agent.ExpectWhere("the answer", func(m wire.Message) bool { return string(m.ID) == `"q"` })
	s.Agent.Request("terminal/release", e2e.Params("terminalId", id), nil)
	s.Finish()
}

func TestDisplay_TerminalOfAgentPassesUnchanged(t *testing.T) {
	t.Parallel()
	s := e2e.NewPlace(t).FixtureWith(t, e2e.ShowsTerminals, nil, nil)
	line := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call","toolCallId":"o","title":"mine","content":[{"type":"terminal","terminalId":"their-own"}],"_meta":{"terminal_info":{"terminal_id":"their-own"}}}}}`
	s.Agent.Write(line)
	if got := s.Next(); string(got.Raw) != line {
		t.Errorf("the editor got\n%s, the agent sent\n%s", got.Raw, line)
	}
	s.Finish()
}

func TestDisplay_TerminalOfOldSessionBecomesText(t *testing.T) {
	t.Parallel()
	s := e2e.NewPlace(t).FixtureWith(t, e2e.ShowsTerminals, nil, nil)
	stale := "acphost-" + strings.Repeat("0", 32)
	s.Agent.Write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call","toolCallId":"o","title":"old","content":[{"type":"terminal","terminalId":%q}]}}}`, stale))
	if got := s.Next(); strings.Contains(string(got.Raw), `"terminal"`) || !strings.Contains(string(got.Raw), `"text"`) {
		t.Errorf("the editor got %s, want text in the terminal's place", got.Raw)
	}
	s.Finish()
}

func TestDisplay_OutputStreamsToEditor(t *testing.T) {
	t.Parallel()
	s := e2e.NewPlace(t).FixtureWith(t, e2e.ShowsTerminals, nil, nil)
	gate := s.File(t, "go", "")
	id, mention := s.Terminal("echo running; while [ -e go ]; do sleep 0.05; done; echo ending")
	s.Agent.Write(mention)
	s.ExpectWhere("the first output, live", func(m wire.Message) bool {
		u := update(t, m)
		return u.Meta.Output != nil && strings.Contains(u.Meta.Output.Data, "running")
	})
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	s.Agent.Request("terminal/wait_for_exit", e2e.Params("terminalId", id), nil)
	s.ExpectWhere("the last output", func(m wire.Message) bool {
		u := update(t, m)
		return u.Meta.Output != nil && strings.Contains(u.Meta.Output.Data, "ending")
	})
	s.Agent.Request("terminal/release", e2e.Params("terminalId", id), nil)
	s.Finish()
}
