package e2e_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// joins joins the one session of the demo agent that is open, in a terminal of its own.
func (p *place) joins(t testing.TB, flags ...string) *terminal {
	t.Helper()
	x := p.terminal(t, append([]string{program("acphost"), "chat", "--attach", "demo-"}, flags...))
	x.told("joined the session with Demo agent", "❯")
	return x
}

// told waits until these words are on the screen, or have scrolled away.
func (x *terminal) told(words ...string) {
	x.t.Helper()
	var all string
	if !testkit.Poll(func() bool {
		all = x.all()
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(all, w) })
	}) {
		x.t.Fatalf("the terminal was not told %q:\n%s", words, all)
	}
}

func TestTwoPeopleShareASession(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	first := p.chat(t)
	first.says("repeat good morning")
	first.shows(": good morning", "Maxi · /help")
	second := p.joins(t)
	second.told("> repeat good morning", ": good morning", "Maxi · /help")

	// What one says, and what the agent does, both see.
	second.says("repeat from the second")
	for _, x := range []*terminal{first, second} {
		x.shows("> repeat from the second", ": from the second", "Maxi · /help")
	}

	// Who answers first has answered for both.
	first.says("ask")
	for _, x := range []*terminal{first, second} {
		x.shows("The agent asks: Edit", "notes.md", "Reject", "tab goes to the input") // no key is too soon now
	}
	second.keys("r")
	for _, x := range []*terminal{first, second} {
		x.shows("denied (Reject)", "ask ok: reject", "Maxi · /help")
	}

	// One turn at a time: what the other writes meanwhile waits.
	first.says("/wait")
	second.shows("> /wait", "esc cancels")
	second.says("repeat later")
	second.shows("queued: repeat later")
	second.keys("Escape")
	for _, x := range []*terminal{first, second} {
		x.shows("> repeat later", ": later", "Maxi · /help")
	}

	// Who leaves leaves the session as it is.
	second.says("/quit")
	if status := second.exits(); status != 0 {
		t.Errorf("the exit status of the second is %d, want 0", status)
	}
	second.shows("the session goes on; join it again: acphost chat --attach demo-")
	first.says("repeat alone again")
	first.shows(": alone again", "Maxi · /help")

	// Who joins without the past sees what comes.
	third := p.joins(t, "--history", "none")
	first.says("repeat for the third")
	third.shows("> repeat for the third", ": for the third", "Maxi · /help")
	for _, words := range []string{"good morning", "alone again"} {
		if all := third.all(); strings.Contains(all, words) {
			t.Errorf("%q, of the past, is shown:\n%s", words, all)
		}
	}
	first.says("/quit")
	first.exits()
	third.shows("was stopped", "/quit leaves")
	third.says("/quit")
	third.exits()
	p.expectNobodyBut(t, "tmux")
}

// A chat that joined a session ends its turn when the supervisor is killed, and does not say that the session goes on.
func TestChatAttach_SupervisorIsKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	s.open(s.start(p.demo()).GetId())
	x := p.joins(t)
	x.says("hang")
	x.shows("esc cancels")
	testkit.Eventually(t, "the turn has begun", s.inTurn) // else the words are put back into the input
	send(t, s.Process, syscall.SIGKILL)
	x.shows("the supervisor is gone: the supervisor does not answer any more", "/quit leaves")
	x.says("/quit")
	x.exits()
	if all := x.all(); strings.Contains(all, "the session goes on") || strings.Contains(all, "esc cancels") {
		t.Errorf("the screen says that it goes on:\n%s", all)
	}
}

// An editor's session can be followed, and its questions answered. Its prompts are the editor's own.
func TestAnEditorsSessionIsJoined(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h := p.start(t, nil, []string{program("demoagent")})
	h.initialize(`{}`).Result(nil)
	var opened struct{ SessionID string }
	h.Request("session/new", map[string]any{"cwd": p.work, "mcpServers": []any{}}, &opened)
	prompts := func(text string) *wire.Call {
		return h.Send("session/prompt", map[string]any{"sessionId": opened.SessionID, "prompt": []any{map[string]any{"type": "text", "text": text}}})
	}
	prompts("repeat good morning").Result(nil)
	x := p.joins(t)
	x.told("an editor has this session", "> repeat good morning", ": good morning")
	x.says("repeat hello")
	x.shows("an editor has this session and gives its prompts", "repeat hello")

	turn := prompts("ask")
	asked := h.Expect("session/request_permission")
	x.shows("The agent asks: Edit", "Reject", "tab goes to the question") // from the input, in which "repeat hello" stands
	x.keys("Tab")
	x.shows("tab goes to the input")
	x.keys("r")
	turn.Result(nil)
	x.shows("denied (Reject)", "ask ok: reject")
	var answered struct{ RequestID json.RawMessage }
	if h.Expect("$/cancel_request").Decode(t, &answered); string(answered.RequestID) != string(asked.ID) {
		t.Errorf("the editor is told that %s is answered, want %s", answered.RequestID, asked.ID)
	}
	x.keys("C-u")
	x.says("/quit")
	x.exits()
	x.end()
	prompts("repeat to the end").Result(nil)
	if status := h.finish(); status != 0 {
		t.Errorf("the exit status is %d, want 0", status)
	}
}

// A session behind a gateway is joined on a terminal, as whom the token is.
func TestASessionBehindAGatewayIsJoined(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	g := forPeople(t, p, "operator", "https://front.example")
	tokenFile := func(role string) string {
		file := p.file(t, "../"+role+".token", g.token(role))
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	owner := g.client(t, "owner", g.token("operator"), "")
	owner.opens(p.work)
	owner.prompts("repeat good morning").Result(nil)
	x := p.joins(t, "--connect", g.url("ws"), "--token-file", tokenFile("operator"))
	x.told("> repeat good morning", ": good morning")
	owner.prompts("repeat from the first").Result(nil)
	x.shows("> repeat from the first", ": from the first")
	x.says("repeat from the second")
	x.shows("> repeat from the second", ": from the second")
	owner.ExpectWhere("what the second prompted", func(m wire.Message) bool { return strings.HasSuffix(pieceOf(m), ": from the second") })
	turn := owner.prompts("ask")
	x.shows("The agent asks: Edit", "Reject", "tab goes to the input")
	x.keys("r")
	turn.Result(nil)
	x.shows("denied (Reject)", "ask ok: reject")
	x.says("/quit")
	if status := x.exits(); status != 0 {
		t.Errorf("the exit status is %d, want 0", status)
	}
	x.end()

	viewer := p.joins(t, "--connect", g.url("ws"), "--token-file", tokenFile("viewer"))
	viewer.told("cannot answer its questions: this takes the role approver")
	viewer.says("repeat nothing")
	viewer.shows("this takes the role operator", "repeat nothing")
	owner.prompts("repeat for the viewer").Result(nil)
	viewer.shows(": for the viewer")
	viewer.keys("C-u")
	viewer.says("/quit")
	viewer.exits()
	viewer.end()
	owner.Close()
	g.leave()
}
