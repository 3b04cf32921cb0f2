package e2e_test

import (
	"testing"
)

// other is a question about a tool of which nothing is known but its input.
func other(title string, input any) map[string]any {
	return map[string]any{"toolCallId": "o-" + title, "title": title, "kind": "other", "rawInput": input}
}

func TestAnUnknownToolsInputIsSearchedForWhatItTouches(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	flags := append(p.policy(t, rules, ""), "--agent-name", "unheard-of")
	own := p.file(t, "../config/policy.yaml", rules)
	s := p.scene(t, flags)
	for name, input := range map[string]any{
		"a patch of a denied file":       map[string]any{"input": "*** Begin Patch\n*** Update File: sub/.env\n@@\n-a\n+b\n*** End Patch"},
		"a denied file in a list":        map[string]any{"work": []any{map[string]any{"filePath": ".env"}}},
		"a diff of acphost's own file":   map[string]any{"diffs": []any{"--- " + own + "\n+++ " + own + "\n@@ -1 +1 @@\n"}},
		"acphost's own file in a member": map[string]any{"target": own},
	} {
		if got := chosen(t, s.ask(other(name, input), options)); got != "no" {
			t.Errorf("%s: %s", name, got)
		}
	}
	// What is not clear is for a person, who may allow it: a command that is in the title alone, too.
	for _, call := range []map[string]any{
		other("frobnicate", map[string]any{"object": "a.txt"}),
		{"toolCallId": "t", "title": "ls", "kind": "execute"},
	} {
		asked := s.ask(call, options)
		s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
		if got := chosen(t, asked); got != "yes" {
			t.Errorf("%s: what a person allowed once was answered with %s", call["title"], got)
		}
	}
	s.finish()
}

func TestHowANewAgentDescribesItsToolsIsWrittenInAgentsJSON(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "../.config/acphost/agents.json", `{"agents": [
		{"id": "frobber", "acphost": {"dialect": {
			"tool_in_title": true, "title_is_command": true,
			"tools": {"frobnicate": {"kind": "edit", "members": {"object": "path", "frob": "text"}}}
		}}}
	]}`)
	s := p.scene(t, append(p.policy(t, rules, ""), "--agent-name", "frobber"))
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
		if got := chosen(t, s.ask(c.call, options)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	for _, call := range []map[string]any{frob("../b"), titled("rm a"), other("defrobnicate", map[string]any{"object": "a.txt"})} {
		asked := s.ask(call, options)
		s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "no"}})
		if got := chosen(t, asked); got != "no" {
			t.Errorf("%s: %s", call["title"], got)
		}
	}
	s.finish()
}
