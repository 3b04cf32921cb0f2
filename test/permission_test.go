package e2e_test

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/test/wire"
)

const rules = `
version: 1
rules:
  - {id: secrets, effect: deny, path: ["**/.env"], reason: secrets stay here}
  - {id: pushing, effect: ask, command: ["git push"]}
  - {id: edits, effect: allow, on: [tool.edit], path: ["${root}/**"]}
  - {id: looking, effect: allow, command: ["git status", "ls"]}
`

// chosen is the id of the option that a question was answered with.
func chosen(t *testing.T, asked *wire.Call) string {
	t.Helper()
	var answer struct {
		Outcome struct{ Outcome, OptionID string }
	}
	asked.Result(&answer)
	if answer.Outcome.Outcome != "selected" {
		return answer.Outcome.Outcome
	}
	return answer.Outcome.OptionID
}

// edit is a tool call that shows the new file that it would write.
func edit(path string) map[string]any {
	return map[string]any{
		"toolCallId": "e", "title": "Edit", "kind": "edit",
		"content": []any{map[string]any{"type": "diff", "path": path, "oldText": nil, "newText": "b"}},
	}
}

func command(line string) map[string]any {
	return map[string]any{"toolCallId": "x", "title": line, "kind": "execute", "rawInput": map[string]any{"command": line}}
}

// params adds the session to a request's params.
func params(pairs ...any) map[string]any {
	p := map[string]any{"sessionId": "s1"}
	for i := 0; i < len(pairs); i += 2 {
		p[pairs[i].(string)] = pairs[i+1]
	}
	return p
}

// options are the four kinds that ACP knows.
var options = []map[string]any{
	{"optionId": "yes", "name": "Allow", "kind": "allow_once"},
	{"optionId": "yes!", "name": "Always", "kind": "allow_always"},
	{"optionId": "no", "name": "Reject", "kind": "reject_once"},
	{"optionId": "no!", "name": "Never", "kind": "reject_always"},
}

// policy writes a rule file and a configuration that names it, and returns the flags.
func (p *place) policy(t testing.TB, rules, config string) []string {
	t.Helper()
	p.file(t, "../config/policy.yaml", rules)
	return p.config(t, config+"\npermission: {policy: policy.yaml}\n")
}

// ask sends a permission question of the agent's.
func (s *scene) ask(call map[string]any, options []map[string]any) *wire.Call {
	s.t.Helper()
	return s.agent.Send("session/request_permission", params("toolCall", call, "options", options))
}

func TestThePolicyAnswersWithTheOptionOfTheRightKind(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, p.policy(t, rules, ""))
	for _, c := range []struct {
		name    string
		call    map[string]any
		options []map[string]any
		want    string
	}{
		{"allowed once, never always", edit(p.path("a")), options, "yes"},
		{"denied once", edit(p.path(".env")), options, "no"},
		{"denied always where once is not on offer", edit(p.path(".env")), options[3:], "no!"},
		{"a command that is allowed", command("git status"), options, "yes"},
		{"a title that lies", map[string]any{"toolCallId": "l", "title": "ls", "kind": "read", "content": edit(p.path(".env"))["content"]}, options, "no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := chosen(t, s.ask(c.call, c.options)); got != c.want {
				t.Errorf("the answer is %q, want %q", got, c.want)
			}
		})
	}
	t.Run("denied where no option says no", func(t *testing.T) {
		err := s.ask(edit(p.path(".env")), options[:2]).Refused(-32603)
		if !strings.Contains(err.Message, "secrets") {
			t.Errorf("the reason is missing: %s", err.Message)
		}
	})
	for _, m := range s.Waiting() {
		if m.Method == "session/request_permission" {
			t.Errorf("the editor was asked %s", m.Raw)
		}
	}
	s.finish()
}

func TestWhatThePolicyCannotAnswerGoesToTheEditorUntouched(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, policy string
		call         string
	}{
		{"no policy", "", `{"toolCallId":"e","kind":"edit"}`},
		{"a rule that asks", rules, `{"toolCallId":"e","kind":"execute","rawInput":{"command":"git push"}}`},
		{"no rule", rules, `{"toolCallId":"e","kind":"fetch","title":"https://example.org"}`},
		{"a path outside", rules, `{"toolCallId":"e","kind":"edit","content":[{"type":"diff","path":"/etc/hosts","newText":""}]}`},
		{"a dynamic command", rules, `{"toolCallId":"e","kind":"execute","rawInput":{"command":"ls $(git push)"}}`},
		{"two commands in one", rules, `{"toolCallId":"e","kind":"execute","rawInput":{"command":"ls && rm -r /"}}`},
		{"only a title", rules, `{"toolCallId":"e","title":"ls"}`},
		{"a switch of modes", rules, `{"toolCallId":"e","kind":"switch_mode","title":"leave plan mode"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			var flags []string
			if c.policy != "" {
				flags = p.policy(t, c.policy, "")
			}
			s := p.scene(t, flags)
			line := `{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s1","x":1.0,"toolCall":` + c.call +
				`,"options":[{"optionId":"yes","name":"Allow","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]}}`
			s.agent.Write(line)
			if got := s.Next(); string(got.Raw) != line {
				t.Fatalf("the editor got\n%s, the agent sent\n%s", got.Raw, line)
			}
			answer := `{"jsonrpc":"2.0","id":"q","result":{"outcome":{"outcome":"selected","optionId":"no"},"_meta":{"y":1e2}}}`
			s.Write(answer)
			if got := s.agent.Next(); string(got.Raw) != answer {
				t.Errorf("the agent got\n%s, the editor sent\n%s", got.Raw, answer)
			}
			s.finish()
		})
	}
}

func TestAQuestionIsJudgedByItsToolCall(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, p.policy(t, rules, ""))
	call := edit(p.path(".env"))
	call["sessionUpdate"] = "tool_call"
	s.agent.Notify("session/update", params("update", call))
	asked := s.ask(map[string]any{"toolCallId": "e"}, options)
	if got := chosen(t, asked); got != "no" {
		t.Errorf("the answer is %q, want the rejection that the tool call's diff asks for", got)
	}
	s.finish()
}

func TestTheEditorDecidesWhereItIsToldTo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, append(p.policy(t, rules, ""), "--permission=front"))
	asked := s.ask(edit(p.path("a")), options)
	s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "no"}})
	if got := chosen(t, asked); got != "no" {
		t.Errorf("the answer is %q, want the editor's", got)
	}
	s.finish()
}

func TestAQuestionEndsWhenTheAgentChangesItsCall(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, p.policy(t, rules, ""))
	update := func(input map[string]any) {
		s.agent.Notify("session/update", params("update", map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": "x", "rawInput": input}))
		s.Expect("session/update")
	}
	asked := s.ask(command("git push"), options)
	open := s.Expect("session/request_permission")
	update(map[string]any{"command": "git push", "workdir": p.path("."), "description": "Push"}) // as OpenCode does
	update(map[string]any{"command": "git"})                                                     // a piece that is late
	s.agent.Notify("session/update", params("update", map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": "x",
		"rawInput": map[string]any{"command": "git push --force"}}))
	if got := chosen(t, asked); got != "no" {
		t.Errorf("the answer is %q, want that it is rejected", got)
	}
	withdrawn := s.Expect("$/cancel_request")
	if !strings.Contains(string(withdrawn.Params), string(open.ID)) {
		t.Errorf("the editor is told to forget %s, and was asked %s", withdrawn.Params, open.ID)
	}
	s.Reply(open, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}}) // too late
	const why = "the agent changed the call while the question was open"
	if d := p.lastDecision(t); d.Outcome != "denied" || d.AnsweredBy != "acphost" || !strings.Contains(d.Reason, why) {
		t.Errorf("the audit says %+v", d)
	}
	if got := chosen(t, s.ask(command("git status"), options)); got != "yes" {
		t.Errorf("the next request is answered %q", got)
	}
	s.finish()
}
