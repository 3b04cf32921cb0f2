package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// chat holds a chat with the demo agent, in a terminal.
func (p *place) chat(t testing.TB, flags ...string) *terminal {
	t.Helper()
	command := append([]string{program("acphost"), "chat"}, flags...)
	x := p.terminal(t, append(command, "--", program("demoagent")), "DEMOAGENT_STATE="+filepath.Join(p.home, "kept"))
	x.shows("Demo agent 1.0.0", "❯", "Ask · Maxi")
	return x
}

// says types a line and sends it.
func (x *terminal) says(text string) {
	x.t.Helper()
	x.types(text)
	x.shows("❯ " + text)
	x.keys("Enter")
}

func TestAPersonHoldsAChat(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "a.txt", "what is in the file\n")
	x := p.chat(t)
	x.says("repeat good morning")
	x.shows("> repeat good morning", ": good morning", "Ask · Maxi · /help")

	// A question, with what would be changed.
	x.says("ask")
	x.shows("The agent asks: Edit", "notes.md", "-old", "+new", "Allow", "Always allow", "Reject", "tab goes to the input")
	x.keys("r")
	x.shows("denied (Reject)", "ask ok: reject", "Maxi · /help")

	// Commands: those of the agent, and the chat's own.
	x.types("/rea")
	x.shows("/read", "read a file")
	x.types("d " + p.path("a.txt"))
	x.keys("Enter")
	x.shows("read ok: what is in the file", "Maxi · /help")
	x.says("/mode code")
	x.shows("Code · Maxi · /help")
	x.says("/model mini")
	x.shows("Code · Mini · /help")

	// A turn that is cancelled, and what was written meanwhile.
	x.says("/wait")
	x.shows("esc cancels")
	x.says("repeat afterwards")
	x.shows("queued: repeat afterwards")
	x.keys("Escape")
	x.shows("Mini · /help")
	if !strings.Contains(x.all(), ": afterwards") { // it is sent, or it stands in the input again
		x.shows("repeat afterwards")
		x.keys("Enter")
		x.shows(": afterwards")
	}

	x.says("/quit")
	if status := x.exits(); status != 0 {
		t.Errorf("the exit status is %d, want 0", status)
	}
	p.expectNobodyBut(t, "tmux")
	_, rest, found := strings.Cut(x.all(), "acphost chat --session ")
	if !found {
		t.Fatalf("it is not said how the session goes on:\n%s", x.all())
	}
	session, _, _ := strings.Cut(rest, " ")
	kept, err := os.ReadFile(filepath.Join(p.home, "kept", session+".json"))
	if err != nil || !strings.Contains(string(kept), `"mode":"code","model":"mini"`) {
		t.Errorf("the agent keeps %s (%v)", kept, err)
	}
}

func TestAPersonGoesOnWithAChat(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	x := p.chat(t)
	x.says("repeat the first thing")
	x.shows(": the first thing", "/help")
	x.keys("C-c", "C-c")
	if status := x.exits(); status != 0 {
		t.Errorf("left with Ctrl-C, the exit status is %d, want 0", status)
	}
	_, rest, _ := strings.Cut(x.all(), "--session ")
	session, _, _ := strings.Cut(rest, " ")
	x.end()
	x = p.chat(t, "--session", session)
	x.says("repeat the second thing")
	x.shows(session + ": the second thing")
	x.keys("C-d")
	x.exits()
	p.expectNobodyBut(t, "tmux")
}

func TestAChatThatLosesItsTerminalLeavesNobody(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	x := p.chat(t)
	x.says("/run sleep 600")
	x.shows("sleep 600", "esc cancels")
	x.end()
	p.expectNobody(t, nil)
}

func TestAChatSaysThatItsAgentEnded(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	x := p.chat(t)
	x.says("crash")
	x.shows("status 3", "these are the last words")
	x.shows("the agent runs again", "/help")
	x.says("repeat after the crash")
	x.shows(": after the crash")
	x.says("/quit")
	x.exits()
	p.expectNobodyBut(t, "tmux")
}
