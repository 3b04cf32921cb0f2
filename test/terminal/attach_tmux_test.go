package terminal_test

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

func TestChatAttach_TwoUsersShareSession(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	first := chat(t, p)
	first.Says("repeat good morning")
	first.Shows(": good morning", "Maxi · /help")
	second := joins(t, p)
	second.Told("> repeat good morning", ": good morning", "Maxi · /help")

	// Both show the prompts of each client and the actions of the agent.
	second.Says("repeat from the second")
	for _, x := range []*e2e.Terminal{first, second} {
		x.Shows("> repeat from the second", ": from the second", "Maxi · /help")
	}

	// The first answer counts for both.
	first.Says("ask")
	for _, x := range []*e2e.Terminal{first, second} {
		x.Shows("The agent asks: Edit", "notes.md", "Reject", "tab goes to the input") // no key is too soon now
	}
	second.Keys("r")
	for _, x := range []*e2e.Terminal{first, second} {
		x.Shows("denied (Reject)", "ask ok: reject", "Maxi · /help")
	}

	// One turn at a time: what the other writes meanwhile waits.
	first.Says("/wait")
	second.Shows("> /wait", "esc cancels")
	second.Says("repeat later")
	second.Shows("queued: repeat later")
	second.Keys("Escape")
	for _, x := range []*e2e.Terminal{first, second} {
		x.Shows("> repeat later", ": later", "Maxi · /help")
	}

	// A client that leaves does not change the session.
	second.Says("/quit")
	if status := second.Exits(); status != 0 {
		t.Errorf("the exit status of the second is %d, want 0", status)
	}
	second.Shows("the session goes on; join it again: acphost chat --attach demo-")
	first.Says("repeat alone again")
	first.Shows(": alone again", "Maxi · /help")

	// A client that joins without the past receives later events.
	third := joins(t, p, "--history", "none")
	first.Says("repeat for the third")
	third.Shows("> repeat for the third", ": for the third", "Maxi · /help")
	for _, words := range []string{"good morning", "alone again"} {
		if all := third.All(); strings.Contains(all, words) {
			t.Errorf("%q, of the past, is shown:\n%s", words, all)
		}
	}
	first.Says("/quit")
	first.Exits()
	third.Shows("was stopped", "/quit leaves")
	third.Says("/quit")
	third.Exits()
	p.ExpectNobodyBut(t, "tmux")
}

// TestChatAttach_SupervisorIsKilled: an attached chat ends its turn, and does not claim that the session continues.
func TestChatAttach_SupervisorIsKilled(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	s.Open(s.Start(p.Demo()).GetId())
	x := joins(t, p)
	x.Says("hang")
	x.Shows("esc cancels")
	testkit.Eventually(t, "the turn has begun", s.InTurn) // else the words are put back into the input
	e2e.Send(t, s.Process, syscall.SIGKILL)
	x.Shows("the supervisor is gone: the supervisor does not answer any more", "/quit leaves")
	x.Says("/quit")
	x.Exits()
	if all := x.All(); strings.Contains(all, "the session goes on") || strings.Contains(all, "esc cancels") {
		t.Errorf("the screen states that it continues:\n%s", all)
	}
}

// TestChatAttach_EditorSession follows an editor's session and answers its questions. Only the editor can prompt.
func TestChatAttach_EditorSession(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	h := p.Start(t, nil, []string{e2e.Program("demoagent")})
	h.Initialize(`{}`).Result(nil)
	var opened struct{ SessionID string }
	h.Request("session/new", map[string]any{"cwd": p.Work, "mcpServers": []any{}}, &opened)
	prompts := func(text string) *wire.Call {
		return h.Send("session/prompt", map[string]any{"sessionId": opened.SessionID, "prompt": []any{map[string]any{"type": "text", "text": text}}})
	}
	prompts("repeat good morning").Result(nil)
	x := joins(t, p)
	x.Told("an editor has this session", "> repeat good morning", ": good morning")
	x.Says("repeat hello")
	x.Shows("an editor has this session and gives its prompts", "repeat hello")

	turn := prompts("ask")
	asked := h.Expect("session/request_permission")
	x.Shows("The agent asks: Edit", "Reject", "tab goes to the question") // from the input, which contains "repeat hello"
	x.Keys("Tab")
	x.Shows("tab goes to the input")
	x.Keys("r")
	turn.Result(nil)
	x.Shows("denied (Reject)", "ask ok: reject")
	var answered struct{ RequestID json.RawMessage }
	if h.Expect("$/cancel_request").Decode(t, &answered); string(answered.RequestID) != string(asked.ID) {
		t.Errorf("the editor is notified that %s is answered, want %s", answered.RequestID, asked.ID)
	}
	x.Keys("C-u")
	x.Says("/quit")
	x.Exits()
	x.End()
	prompts("repeat to the end").Result(nil)
	if status := h.Finish(); status != 0 {
		t.Errorf("the exit status is %d, want 0", status)
	}
}

// TestChatAttach_GatewaySession attaches to a session behind a gateway, with the role of a token.
func TestChatAttach_GatewaySession(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	g := e2e.ForPeople(t, p, "operator", "https://front.example")
	tokenFile := func(role string) string {
		file := p.File(t, "../"+role+".token", g.Token(role))
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	owner := g.Client(t, "owner", g.Token("operator"), "")
	owner.Opens(p.Work)
	owner.Prompts("repeat good morning").Result(nil)
	x := joins(t, p, "--connect", g.URL("ws"), "--token-file", tokenFile("operator"))
	x.Told("> repeat good morning", ": good morning")
	owner.Prompts("repeat from the first").Result(nil)
	x.Shows("> repeat from the first", ": from the first")
	x.Says("repeat from the second")
	x.Shows("> repeat from the second", ": from the second")
	owner.ExpectWhere("what the second prompted", func(m wire.Message) bool { return strings.HasSuffix(e2e.PieceOf(m), ": from the second") })
	turn := owner.Prompts("ask")
	x.Shows("The agent asks: Edit", "Reject", "tab goes to the input")
	x.Keys("r")
	turn.Result(nil)
	x.Shows("denied (Reject)", "ask ok: reject")
	x.Says("/quit")
	if status := x.Exits(); status != 0 {
		t.Errorf("the exit status is %d, want 0", status)
	}
	x.End()

	viewer := joins(t, p, "--connect", g.URL("ws"), "--token-file", tokenFile("viewer"))
	viewer.Told("cannot answer its questions: this takes the role approver")
	viewer.Says("repeat nothing")
	viewer.Shows("this takes the role operator", "repeat nothing")
	owner.Prompts("repeat for the viewer").Result(nil)
	viewer.Shows(": for the viewer")
	viewer.Keys("C-u")
	viewer.Says("/quit")
	viewer.Exits()
	viewer.End()
	owner.Close()
	g.Leave()
}

// joins joins the one open session of the demo agent, in a new terminal.
func joins(t testing.TB, p *e2e.Place, flags ...string) *e2e.Terminal {
	t.Helper()
	x := p.Terminal(t, append([]string{e2e.Program("acphost"), "chat", "--attach", "demo-"}, flags...))
	x.Told("joined the session with Demo agent", "❯")
	return x
}
