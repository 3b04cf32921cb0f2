package e2e

import (
	"testing"

	"github.com/acphost/acphost/test/wire"
)

// Rules are a policy that denies, asks and allows.
const Rules = `
version: 1
rules:
  - {id: secrets, effect: deny, path: ["**/.env"], reason: secrets stay here}
  - {id: pushing, effect: ask, command: ["git push"]}
  - {id: edits, effect: allow, on: [tool.edit], path: ["${root}/**"]}
  - {id: looking, effect: allow, command: ["git status", "ls"]}
`

// Chosen is the id of the option that a question was answered with.
func Chosen(t *testing.T, asked *wire.Call) string {
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

// Edit is a tool call that shows the new file that it would write.
func Edit(path string) map[string]any {
	return map[string]any{
		"toolCallId": "e", "title": "Edit", "kind": "edit",
		"content": []any{map[string]any{"type": "diff", "path": path, "oldText": nil, "newText": "b"}},
	}
}

// Command is a tool call that runs a command.
func Command(line string) map[string]any {
	return map[string]any{"toolCallId": "x", "title": line, "kind": "execute", "rawInput": map[string]any{"command": line}}
}

// Params adds the session to a request's params.
func Params(pairs ...any) map[string]any {
	p := map[string]any{"sessionId": "s1"}
	for i := 0; i < len(pairs); i += 2 {
		p[pairs[i].(string)] = pairs[i+1]
	}
	return p
}

// Options are the four kinds that ACP knows.
var Options = []map[string]any{
	{"optionId": "yes", "name": "Allow", "kind": "allow_once"},
	{"optionId": "yes!", "name": "Always", "kind": "allow_always"},
	{"optionId": "no", "name": "Reject", "kind": "reject_once"},
	{"optionId": "no!", "name": "Never", "kind": "reject_always"},
}

// Policy writes a rule file and a configuration that names it, and returns the flags.
func (p *Place) Policy(t testing.TB, rules, config string) []string {
	t.Helper()
	p.File(t, "../config/policy.yaml", rules)
	return p.Config(t, config+"\npermission: {policy: policy.yaml}\n")
}

// Ask sends a permission question of the agent.
func (s *Fixture) Ask(call map[string]any, options []map[string]any) *wire.Call {
	s.T.Helper()
	return s.Agent.Send("session/request_permission", Params("toolCall", call, "options", options))
}
