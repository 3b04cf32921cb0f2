package policy_test

import (
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

// other is a question about a tool whose input alone is known.
func other(title string, input any) map[string]any {
	return map[string]any{"toolCallId": "o-" + title, "title": title, "kind": "other", "rawInput": input}
}

func TestDialect_UnknownToolInput(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	flags := append(p.Policy(t, e2e.Rules, ""), "--agent-name", "unheard-of")
	own := p.File(t, "../config/policy.yaml", e2e.Rules)
	s := p.Fixture(t, flags)
	for name, input := range map[string]any{
		"a patch of a denied file":       map[string]any{"input": "*** Begin Patch\n*** Update File: sub/.env\n@@\n-a\n+b\n*** End Patch"},
		"a denied file in a list":        map[string]any{"work": []any{map[string]any{"filePath": ".env"}}},
		"a diff of acphost's own file":   map[string]any{"diffs": []any{"--- " + own + "\n+++ " + own + "\n@@ -1 +1 @@\n"}},
		"acphost's own file in a member": map[string]any{"target": own},
	} {
		if got := e2e.Chosen(t, s.Ask(other(name, input), e2e.Options)); got != "no" {
			t.Errorf("%s: %s", name, got)
		}
	}
	// An unclear action requires a person, who may allow it. This includes a command that is only in the title.
	for _, call := range []map[string]any{
		other("frobnicate", map[string]any{"object": "a.txt"}),
		{"toolCallId": "t", "title": "ls", "kind": "execute"},
	} {
		asked := s.Ask(call, e2e.Options)
		s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
		if got := e2e.Chosen(t, asked); got != "yes" {
			t.Errorf("%s: what a person allowed once was answered with %s", call["title"], got)
		}
	}
	s.Finish()
}

func TestDialect_AgentsJSON(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "../.config/acphost/agents.json", `{"agents": [
		{"id": "frobber", "acphost": {"dialect": {
			"tool_in_title": true, "title_is_command": true,
			"tools": {"frobnicate": {"kind": "edit", "members": {"object": "path", "frob": "text"}}}
		}}}
	]}`)
	s := p.Fixture(t, append(p.Policy(t, e2e.Rules, ""), "--agent-name", "frobber"))
	frob := func(file string) map[string]any {
		return other("frobnicate: "+file, map[string]any{"object": file, "frob": "x"})
	}
	titled := func(line string) map[string]any {
		return map[string]any{"toolCallId": "t-" + line, "title": line, "kind": "execute"}
	}
	for _, c := range []struct {
		name string
		call map[string]any
		want string
	}{
		{"an edit in the workspace", frob("a.txt"), "yes"},
		{"an edit of a denied file", frob("sub/.env"), "no"},
		{"a command in the title", titled("ls"), "yes"},
	} {
		if got := e2e.Chosen(t, s.Ask(c.call, e2e.Options)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	for _, call := range []map[string]any{frob("../b"), titled("rm a"), other("defrobnicate", map[string]any{"object": "a.txt"})} {
		asked := s.Ask(call, e2e.Options)
		s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "no"}})
		if got := e2e.Chosen(t, asked); got != "no" {
			t.Errorf("%s: %s", call["title"], got)
		}
	}
	s.Finish()
}
