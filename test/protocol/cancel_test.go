package protocol_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

func TestCancel_RequestIsAnsweredWithResult(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)

	// A wait changes nothing: it is given up at once, and what it waited for lives on.
	var made struct{ TerminalID string }
	s.Agent.Request("terminal/create", e2e.Params("command", "sleep 1000"), &made)
	terminal := e2e.Params("terminalId", made.TerminalID)
	wait := s.Agent.Send("terminal/wait_for_exit", terminal)
	s.Withdraw(wait.ID())
	wait.Refused(-32800)
	var output struct{ ExitStatus any }
	s.Agent.Request("terminal/output", terminal, &output)
	if output.ExitStatus != nil {
		t.Errorf("the command ended with %v", output.ExitStatus)
	}

	// A write is done or not done; the response reports which.
	for i := range 50 {
		name := fmt.Sprintf("w%d.txt", i)
		write := s.WriteFile(name, strings.Repeat("x", 100_000))
		s.Withdraw(write.ID())
		answer := write.Answer()
		_, err := os.Stat(p.Path(name))
		if done := err == nil; done != (answer.Error == nil) {
			t.Fatalf("the file was written: %v, and the answer is %s", done, answer.Raw)
		}
	}

	// A release during a wait answers both requests.
	wait = s.Agent.Send("terminal/wait_for_exit", terminal)
	for range 20 { // requests may overtake one another; not so many
		s.Agent.Request("terminal/output", terminal, nil)
	}
	release := s.Agent.Send("terminal/release", terminal)
	var exit struct {
		ExitCode *int
		Signal   string
	}
	release.Result(nil)
	wait.Result(&exit)
	if exit.ExitCode != nil || exit.Signal != "SIGKILL" {
		t.Errorf("the wait was answered with %+v, want SIGKILL", exit)
	}
	s.Agent.Request("terminal/release", terminal, nil) // twice is fine
	s.Agent.Send("terminal/output", terminal).Refused(-32002)

	// A request that is not open cannot be withdrawn.
	s.Withdraw(`"nobody"`)
	s.Withdraw(wait.ID())
	s.ExpectQuiet()
	s.Finish()
}

func TestCancel_IsForwardedToEditor(t *testing.T) {
	t.Parallel()
	s := e2e.NewPlace(t).Fixture(t, nil)
	call := s.Agent.SendAs(`"\u0061sk"`, "_x/y", map[string]any{})
	asked := s.Expect("_x/y")
	cancel := `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"ask","_meta":` + odd + `}}`
	s.Agent.Write(cancel)
	if got := s.Expect("$/cancel_request"); string(got.Raw) != cancel {
		t.Errorf("the editor got\n%s\nwant\n%s", got.Raw, cancel)
	}
	s.Write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32800,"message":"as you wish"}}`, asked.ID))
	if e := call.Refused(-32800); e.Message != "as you wish" {
		t.Errorf("the agent received %q", e.Message)
	}
	// And the other way: an editor's cancellation is the agent's to follow.
	prompt := s.Send("session/prompt", e2e.Params("prompt", []any{}))
	prompted := s.Agent.Expect("session/prompt")
	s.Notify("$/cancel_request", map[string]any{"requestId": json.RawMessage(prompt.ID())})
	s.Agent.Expect("$/cancel_request")
	s.Agent.Reply(prompted, map[string]any{"stopReason": "cancelled"})
	prompt.Result(nil)
	s.Finish()
}

func TestCancel_AnswersQuestionThatEditorForgets(t *testing.T) {
	t.Parallel()
	s := e2e.NewPlace(t).Fixture(t, nil)
	prompt := s.Send("session/prompt", e2e.Params("prompt", []any{}))
	prompted := s.Agent.Expect("session/prompt")
	question := s.Agent.Send("session/request_permission", e2e.Params("toolCall", map[string]any{"toolCallId": "t"},
		"options", []any{map[string]any{"optionId": "yes", "name": "Yes", "kind": "allow_once"}}))
	asked := s.Expect("session/request_permission")
	s.Notify("session/cancel", e2e.Params())
	s.Agent.Expect("session/cancel")
	if got := string(question.Result(nil).Result); got != `{"outcome":{"outcome":"cancelled"}}` {
		t.Errorf("the question was answered with %s", got)
	}
	s.Reply(asked, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}}) // too late
	s.Agent.Reply(prompted, map[string]any{"stopReason": "cancelled"})
	prompt.Result(nil)
	s.ExpectQuiet()
	s.Finish()
}
