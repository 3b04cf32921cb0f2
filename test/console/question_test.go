package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

// A permission request is in the agent's words, but for its input. An answer on the page allows the input, so all of it
// is shown.
func TestQuestion_ShowsAllOfTheInput(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := e2e.NewPlace(t)
	g := e2e.NewConsole(t, p, "--policy", "ask")
	agent, actor := g.Plays("liar")
	if err := g.Opens(agent, actor, "s1"); err != nil {
		t.Fatal(e2e.Explain(err))
	}
	tab := openAsOperator(g, b, "#/inbox")
	text := map[string]any{"type": "text", "text": "Reading a.txt"}
	words := []any{map[string]any{"type": "content", "content": text}}
	long := map[string]any{"type": "text", "text": "```sh\n" + strings.Repeat("echo hello\n", 3000) + "rm -rf end\n```"}
	longWords := []any{map[string]any{"type": "content", "content": long}}
	for i, c := range []struct {
		name    string
		input   map[string]any
		content []any
		want    string // in the question's visible text
		open    bool   // all of the input is shown
	}{
		{"command", map[string]any{"command": "rm -rf b", "description": "Read a.txt"}, nil, "rm -rf b", false},
		{"arguments", map[string]any{"command": "bash", "args": []string{"-c", "rm -rf b"}}, nil, `"-c" "rm -rf b"`, false},
		{"member beside a command", map[string]any{"command": "cat a.txt", "env": "LD_PRELOAD=b.so"}, nil, "b.so", true},
		{"long words", map[string]any{"command": "ls"}, longWords, "rm -rf end", false},
		{"member beside words", map[string]any{"script": "rm -rf b"}, words, "rm -rf b", true},
	} {
		id := fmt.Sprintf("t%d", i)
		asked := actor.Send("session/request_permission", e2e.Params("options", e2e.Options, "toolCall", map[string]any{
			"toolCallId": id, "title": "Read a.txt", "kind": "execute", "rawInput": c.input, "content": c.content,
		}))
		const card = `document.querySelector("article.question:not(.over)")`
		const reject = `document.querySelector("article.question:not(.over) button.reject:enabled")`
		tab.until(c.name+": the question is there", "!!"+reject)
		shown := eval[string](tab, card+`.innerText`)
		if !strings.HasPrefix(shown, "The agent asks: Read a.txt\n") || !strings.Contains(shown, c.want) {
			t.Errorf("%s: the question shows %q, want the title as the agent's and %q", c.name, shown, c.want)
		}
		if open := eval[bool](tab, card+`.querySelector("details").open`); open != c.open {
			t.Errorf("%s: all of the input is shown: %v, want %v", c.name, open, c.open)
		}
		tab.until(c.name+": it is answered", "("+reject+`?.click(), !!document.querySelector("article.question.over"))`)
		if got := e2e.Chosen(t, asked); got != "no" {
			t.Errorf("%s: the agent got %q", c.name, got)
		}
		tab.until(c.name+": it is gone", `!document.querySelector("article.question")`)
	}
	leaveWith(g, tab)
}
