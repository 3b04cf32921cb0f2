package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

func TestAPersonFollowsTheOutputOfACommand(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	x := p.chat(t)
	x.resize(80, 24)
	x.says("/run seq 300; until test -e go; do sleep 0.1; done; seq 301 10000")
	x.shows("│ 300", "lines · ctrl+o shows more", "esc cancels")
	x.keys("C-o")
	x.shows("│ 292", "│ 300", "ctrl+o shows less")
	x.resize(40, 12)
	x.shows("│ 300", "ctrl+o shows less", "esc cancels")
	x.resize(80, 24)
	p.file(t, "go", "on\n")
	x.shows("ctrl+o shows 980 more lines") // the agent says all of it again, too
	if all := x.all(); !strings.Contains(all, "9,960 lines left out") && !strings.Contains(all, "10000\n") {
		t.Error("the end is not shown")
	}
	x.keys("C-o")
	x.shows("│ 9980", "Maxi · /help")
	x.says("/quit")
	x.exits()
	p.expectNobodyBut(t, "tmux")
}

func TestAPersonRunsACommandOfTheirOwnInAChat(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "a.txt", "what is in the file\n")
	x := p.chat(t)
	x.says("!cat a.txt; sleep 600")
	code := regexp.MustCompile(`type ([a-z]+) to run this`).FindStringSubmatch(x.shows("to run this in your shell, outside of the policy"))[1]
	x.types(code)
	x.shows("│ what is in the file", "ctrl+c ends your command")
	x.keys("C-c")
	x.shows("ended by SIGTERM")
	x.says("repeat it goes on")
	x.shows(": it goes on", "Maxi · /help")
	x.keys("C-r")
	x.types("cat")
	x.shows("search: cat", "▸ !cat a.txt")
	x.keys("Enter")
	x.shows("❯ !cat a.txt; sleep 600")
	x.keys("C-u")
	x.says("/quit")
	x.exits()
	p.expectNobodyBut(t, "tmux")
}

func TestWhatAPersonWritesDoesNotAnswerAQuestion(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "notes.md", misspelt)
	x := p.chat(t)
	x.says("ask")
	x.shows("The agent asks: Edit", "tab goes to the input")
	x.types("rather not")
	x.shows("❯ rather not", "tab goes to the question")
	x.keys("Tab", "Down", "Down", "Down")
	x.shows("▸ r 3 Reject", "enter takes it")
	x.keys("Enter")
	x.shows("denied (Reject)", "ask ok: reject", "❯ rather not")
	x.keys("C-c", "C-c")
	x.exits()
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

// jobShell is a shell with job control, in a terminal.
func (p *place) jobShell(t testing.TB) *terminal {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skipf("there is no shell with job control: %v", err)
	}
	x := p.terminal(t, []string{"bash", "--noprofile", "--norc", "-i"},
		"PS1=ready> ", "HISTFILE=", "DEMOAGENT_STATE="+filepath.Join(p.home, "kept"), "ACPHOST="+program("acphost"), "AGENT="+program("demoagent"))
	x.shows("ready>")
	return x
}

// runs has a shell run a line.
func (x *terminal) runs(line string) {
	x.t.Helper()
	x.types(line)
	x.keys("Enter")
}

// sane expects a terminal as a shell wants it: the shell itself sees to that while it reads a line, and no longer when it
// runs a command.
func (x *terminal) sane() {
	x.t.Helper()
	x.runs(`clear; stty -a | tr ' ;' '\n\n' | grep -x -e '-*icanon' -e '-*isig' -e '-*echo' | tr '\n' ' '; echo :`)
	x.shows("isig icanon echo :")
}

func TestAPersonStopsAPromptAndGoesOn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "notes.md", misspelt)
	x := p.jobShell(t)
	x.runs(`"$ACPHOST" prompt ask -- "$AGENT"; echo status $?`)
	x.shows("Press a A r")
	x.keys("C-z")
	x.shows("Stopped")
	x.sane()
	x.runs("fg")
	x.shows("Press a A r")
	x.allows("a")
	x.shows("ask ok: allow")

	// In the background it takes no keys.
	x.runs("clear")
	x.runs(`"$ACPHOST" prompt ask -- "$AGENT" &`)
	x.shows("runs in the background")
	x.sane()
	x.runs("fg; echo status $?")
	x.shows("Press a A r")

	x.keys(`C-\`)
	x.shows("status 131")
	x.sane()
	x.end()
	p.expectNobody(t, nil)
}

func TestAPersonStopsAChatAndGoesOn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	x := p.jobShell(t)
	x.runs(`"$ACPHOST" chat -- "$AGENT"; echo status $?`)
	x.shows("Demo agent 1.0.0", "/help")
	x.says("slow 1000 50")
	x.shows("piece 3", "esc cancels")
	x.keys("C-z")
	x.shows("Stopped")
	x.sane()
	x.runs("bg") // where it stops again, since it wants the terminal
	x.runs("jobs")
	x.runs("fg; echo status $?")
	x.shows("esc cancels", "working")
	x.keys("Escape")
	x.shows("cancelled", "/help")

	x.keys(`C-\`)
	x.shows("status 131")
	x.sane()
	x.runs(`"$ACPHOST" chat -- "$AGENT" &`) // it starts nothing before it has the terminal
	x.shows("[1]")
	x.sane()
	x.runs("fg")
	x.shows("Demo agent 1.0.0", "/help")
	x.keys("C-z")
	x.shows("Stopped")
	x.runs("kill %1; wait; clear; jobs; echo over")
	x.shows("over")
	x.sane()
	x.end()
	p.expectNobody(t, nil)
}

// codeFor waits until a chat asks for a code for something, and types it.
func (x *terminal) codeFor(what string) {
	x.t.Helper()
	x.types(regexp.MustCompile(`type ([a-z]+) to ` + regexp.QuoteMeta(what)).FindStringSubmatch(x.shows(" to " + what))[1])
}

func TestAPersonWritesInTheirEditor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	editor := filepath.Join(p.home, "my-editor")
	if err := os.WriteFile(editor, []byte(`#!/bin/sh
trap 'echo interrupted' INT
trap 'echo continued' CONT
clear
echo "the editor has $(cat "$1") and $(stty -a | grep -o -e '-*icanon')"
until test -e written; do sleep 0.1; done
cp written "$1"
`), 0o700); err != nil {
		t.Fatal(err)
	}
	x := p.jobShell(t)
	x.runs(`export EDITOR="` + editor + `"; clear; "$ACPHOST" chat -- "$AGENT"; echo status $?`)
	x.shows("Demo agent 1.0.0", "/help")
	x.types("half a text")
	x.shows("❯ half a text")
	x.keys("C-x", "C-e")
	x.codeFor("open this in my-editor, outside of the policy")
	x.shows("the editor has half a text and icanon")
	x.keys("C-c")
	x.shows("interrupted")
	x.keys("C-z")
	x.shows("Stopped")
	x.sane()
	x.runs("clear; fg; echo status $?")
	x.shows("continued")
	x.keys("C-c")
	x.shows("interrupted")
	p.file(t, "written", "repeat a whole text\n")
	x.shows("❯ repeat a whole text", "/help")
	x.keys("Enter")
	x.shows(": a whole text")

	// One that is killed leaves the terminal to the chat.
	if err := os.Remove(p.path("written")); err != nil {
		t.Fatal(err)
	}
	x.types("another")
	x.keys("C-x", "C-e")
	x.codeFor("open this in my-editor, outside of the policy")
	x.shows("the editor has another")
	x.keys(`C-\`)
	x.shows("the editor was ended by SIGQUIT; the input is as it was", "❯ another")
	x.keys("C-c", "C-c")
	x.shows("status 0")
	x.sane()
	x.end()
	p.expectNobody(t, nil)
}
