package policy_test

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

func TestPermission_PolicySelectsOptionByKind(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, p.Policy(t, e2e.Rules, ""))
	for _, c := range []struct {
		name    string
		call    map[string]any
		options []map[string]any
		want    string
	}{
		{"allowed once, never always", e2e.Edit(p.Path("a")), e2e.Options, "yes"},
		{"denied once", e2e.Edit(p.Path(".env")), e2e.Options, "no"},
		{"denied always where once is not on offer", e2e.Edit(p.Path(".env")), e2e.Options[3:], "no!"},
		{"a command that is allowed", e2e.Command("git status"), e2e.Options, "yes"},
		{"a title that lies", map[string]any{"toolCallId": "l", "title": "ls", "kind": "read", "content": e2e.Edit(p.Path(".env"))["content"]}, e2e.Options, "no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := e2e.Chosen(t, s.Ask(c.call, c.options)); got != c.want {
				t.Errorf("the answer is %q, want %q", got, c.want)
			}
		})
	}
	t.Run("denied without an option to reject", func(t *testing.T) {
		err := s.Ask(e2e.Edit(p.Path(".env")), e2e.Options[:2]).Refused(-32603)
		if !strings.Contains(err.Message, "secrets") {
			t.Errorf("the reason is missing: %s", err.Message)
		}
	})
	for _, m := range s.Waiting() {
		if m.Method == "session/request_permission" {
			t.Errorf("the editor was asked %s", m.Raw)
		}
	}
	s.Finish()
}

func TestPermission_UnansweredRequestIsForwarded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, policy string
		call         string
	}{
		{"no policy", "", `{"toolCallId":"e","kind":"edit"}`},
		{"a rule that asks", e2e.Rules, `{"toolCallId":"e","kind":"execute","rawInput":{"command":"git push"}}`},
		{"no rule", e2e.Rules, `{"toolCallId":"e","kind":"fetch","title":"https://example.org"}`},
		{"a path outside", e2e.Rules, `{"toolCallId":"e","kind":"edit","content":[{"type":"diff","path":"/etc/hosts","newText":""}]}`},
		{"a dynamic command", e2e.Rules, `{"toolCallId":"e","kind":"execute","rawInput":{"command":"ls $(git push)"}}`},
		{"two commands in one", e2e.Rules, `{"toolCallId":"e","kind":"execute","rawInput":{"command":"ls && rm -r /"}}`},
		{"only a title", e2e.Rules, `{"toolCallId":"e","title":"ls"}`},
		{"a switch of modes", e2e.Rules, `{"toolCallId":"e","kind":"switch_mode","title":"leave plan mode"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := e2e.NewPlace(t)
			var flags []string
			if c.policy != "" {
				flags = p.Policy(t, c.policy, "")
			}
			s := p.Fixture(t, flags)
			line := `{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s1","x":1.0,"toolCall":` + c.call +
				`,"options":[{"optionId":"yes","name":"Allow","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]}}`
			s.Agent.Write(line)
			if got := s.Next(); string(got.Raw) != line {
				t.Fatalf("the editor got\n%s, the agent sent\n%s", got.Raw, line)
			}
			answer := `{"jsonrpc":"2.0","id":"q","result":{"outcome":{"outcome":"selected","optionId":"no"},"_meta":{"y":1e2}}}`
			s.Write(answer)
			if got := s.Agent.Next(); string(got.Raw) != answer {
				t.Errorf("the agent got\n%s, the editor sent\n%s", got.Raw, answer)
			}
			s.Finish()
		})
	}
}

func TestPermission_JudgesToolCall(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, p.Policy(t, e2e.Rules, ""))
	call := e2e.Edit(p.Path(".env"))
	call["sessionUpdate"] = "tool_call"
	s.Agent.Notify("session/update", e2e.Params("update", call))
	asked := s.Ask(map[string]any{"toolCallId": "e"}, e2e.Options)
	if got := e2e.Chosen(t, asked); got != "no" {
		t.Errorf("the answer is %q, want the rejection that the tool call's diff asks for", got)
	}
	s.Finish()
}

func TestPermission_EditorDecides(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, append(p.Policy(t, e2e.Rules, ""), "--permission=front"))
	asked := s.Ask(e2e.Edit(p.Path("a")), e2e.Options)
	s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "no"}})
	if got := e2e.Chosen(t, asked); got != "no" {
		t.Errorf("the answer is %q, want the editor's", got)
	}
	s.Finish()
}

func TestPermission_ChangedCallEndsQuestion(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, p.Policy(t, e2e.Rules, ""))
	update := func(input map[string]any) {
		s.Agent.Notify("session/update", e2e.Params("update", map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": "x", "rawInput": input}))
		s.Expect("session/update")
	}
	asked := s.Ask(e2e.Command("git push"), e2e.Options)
	open := s.Expect("session/request_permission")
	update(map[string]any{"command": "git push", "workdir": p.Path("."), "description": "Push"}) // as OpenCode does
	update(map[string]any{"command": "git"})                                                     // a piece that is late
	s.Agent.Notify("session/update", e2e.Params("update", map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": "x",
		"rawInput": map[string]any{"command": "git push --force"}}))
	if got := e2e.Chosen(t, asked); got != "no" {
		t.Errorf("the answer is %q, want that it is rejected", got)
	}
	withdrawn := s.Expect("$/cancel_request")
	if !strings.Contains(string(withdrawn.Params), string(open.ID)) {
		t.Errorf("the cancellation is of %s, and the question was %s", withdrawn.Params, open.ID)
	}
	s.Reply(open, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}}) // too late
	const why = "the agent changed the action while the question was open"
	if d := lastDecision(t, p); d.Outcome != "denied" || d.AnsweredBy != "acphost" || !strings.Contains(d.Reason, why) {
		t.Errorf("the audit has %+v", d)
	}
	if got := e2e.Chosen(t, s.Ask(e2e.Command("git status"), e2e.Options)); got != "yes" {
		t.Errorf("the next request is answered %q", got)
	}
	s.Finish()
}
