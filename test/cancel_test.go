package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// withdraw is the agent's $/cancel_request.
func (s *scene) withdraw(id string) {
	s.t.Helper()
	s.agent.Notify("$/cancel_request", map[string]any{"requestId": json.RawMessage(id)})
}

func TestACancelledRequestIsAnsweredWithWhatHappened(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, nil)

	// A wait changes nothing: it is given up at once, and what it waited for lives on.
	var made struct{ TerminalID string }
	s.agent.Request("terminal/create", params("command", "sleep 1000"), &made)
	terminal := params("terminalId", made.TerminalID)
	wait := s.agent.Send("terminal/wait_for_exit", terminal)
	s.withdraw(wait.ID())
	wait.Refused(-32800)
	var output struct{ ExitStatus any }
	s.agent.Request("terminal/output", terminal, &output)
	if output.ExitStatus != nil {
		t.Errorf("the command ended with %v", output.ExitStatus)
	}

	// A write is done or not; the answer says so.
	for i := range 50 {
		name := fmt.Sprintf("w%d.txt", i)
		write := s.write(name, strings.Repeat("x", 100_000))
		s.withdraw(write.ID())
		answer := write.Answer()
		_, err := os.Stat(p.path(name))
		if done := err == nil; done != (answer.Error == nil) {
			t.Fatalf("the file was written: %v, and the answer is %s", done, answer.Raw)
		}
	}

	// A release while somebody waits answers both.
	wait = s.agent.Send("terminal/wait_for_exit", terminal)
	for range 20 { // requests may overtake one another; not so many
		s.agent.Request("terminal/output", terminal, nil)
	}
	release := s.agent.Send("terminal/release", terminal)
	var exit struct {
		ExitCode *int
		Signal   string
	}
	release.Result(nil)
	wait.Result(&exit)
	if exit.ExitCode != nil || exit.Signal != "SIGKILL" {
		t.Errorf("the wait was answered with %+v, want SIGKILL", exit)
	}
	s.agent.Request("terminal/release", terminal, nil) // twice is fine
	s.agent.Send("terminal/output", terminal).Refused(-32002)

	// What is not open cannot be withdrawn.
	s.withdraw(`"nobody"`)
	s.withdraw(wait.ID())
	s.expectQuiet()
	s.finish()
}

func TestACancellationFollowsARequestToTheEditor(t *testing.T) {
	t.Parallel()
	s := newPlace(t).scene(t, nil)
	call := s.agent.SendAs(`"\u0061sk"`, "_x/y", map[string]any{})
	asked := s.Expect("_x/y")
	cancel := `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"ask","_meta":` + odd + `}}`
	s.agent.Write(cancel)
	if got := s.Expect("$/cancel_request"); string(got.Raw) != cancel {
		t.Errorf("the editor got\n%s\nwant\n%s", got.Raw, cancel)
	}
	s.Write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32800,"message":"as you wish"}}`, asked.ID))
	if e := call.Refused(-32800); e.Message != "as you wish" {
		t.Errorf("the agent was told %q", e.Message)
	}
	// And the other way: an editor's cancellation is the agent's to follow.
	prompt := s.Send("session/prompt", params("prompt", []any{}))
	prompted := s.agent.Expect("session/prompt")
	s.Notify("$/cancel_request", map[string]any{"requestId": json.RawMessage(prompt.ID())})
	s.agent.Expect("$/cancel_request")
	s.agent.Reply(prompted, map[string]any{"stopReason": "cancelled"})
	prompt.Result(nil)
	s.finish()
}

func TestACancelledTurnsQuestionIsAnsweredEvenIfTheEditorForgetsIt(t *testing.T) {
	t.Parallel()
	s := newPlace(t).scene(t, nil)
	prompt := s.Send("session/prompt", params("prompt", []any{}))
	prompted := s.agent.Expect("session/prompt")
	question := s.agent.Send("session/request_permission", params("toolCall", map[string]any{"toolCallId": "t"},
		"options", []any{map[string]any{"optionId": "yes", "name": "Yes", "kind": "allow_once"}}))
	asked := s.Expect("session/request_permission")
	s.Notify("session/cancel", params())
	s.agent.Expect("session/cancel")
	if got := string(question.Result(nil).Result); got != `{"outcome":{"outcome":"cancelled"}}` {
		t.Errorf("the question was answered with %s", got)
	}
	s.Reply(asked, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}}) // too late
	s.agent.Reply(prompted, map[string]any{"stopReason": "cancelled"})
	prompt.Result(nil)
	s.expectQuiet()
	s.finish()
}
