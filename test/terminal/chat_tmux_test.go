package terminal_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

func TestChat_WholeConversation(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "what is in the file\n")
	x := chat(t, p)
	x.Says("repeat good morning")
	x.Shows("> repeat good morning", ": good morning", "Ask · Maxi · /help")

	// A question, with what would be changed.
	x.Says("ask")
	x.Shows("The agent asks: Edit", "notes.md", "-old", "+new", "Allow", "Always allow", "Reject", "tab goes to the input")
	x.Keys("r")
	x.Shows("denied (Reject)", "ask ok: reject", "Maxi · /help")

	// Commands: those of the agent, and the chat's own.
	x.Types("/rea")
	x.Shows("/read", "read a file")
	x.Types("d " + p.Path("a.txt"))
	x.Keys("Enter")
	x.Shows("read ok: what is in the file", "Maxi · /help")
	x.Says("/mode code")
	x.Shows("Code · Maxi · /help")
	x.Says("/model mini")
	x.Shows("Code · Mini · /help")

	// A turn that is cancelled, and what was written meanwhile.
	x.Says("/wait")
	x.Shows("esc cancels")
	x.Says("repeat afterwards")
	x.Shows("queued: repeat afterwards")
	x.Keys("Escape")
	x.Shows("Mini · /help")
	if !strings.Contains(x.All(), ": afterwards") { // it is sent, or it is in the input again
		x.Shows("repeat afterwards")
		x.Keys("Enter")
		x.Shows(": afterwards")
	}

	x.Says("/quit")
	if status := x.Exits(); status != 0 {
		t.Errorf("the exit status is %d, want 0", status)
	}
	p.ExpectNobodyBut(t, "tmux")
	_, rest, found := strings.Cut(x.All(), "acphost chat --session ")
	if !found {
		t.Fatalf("it is not reported how the session continues:\n%s", x.All())
	}
	session, _, _ := strings.Cut(rest, " ")
	kept, err := os.ReadFile(filepath.Join(p.Home, "kept", session+".json"))
	if err != nil || !strings.Contains(string(kept), `"mode":"code","model":"mini"`) {
		t.Errorf("the agent keeps %s (%v)", kept, err)
	}
}

func TestChat_FollowsCommandOutput(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	x := chat(t, p)
	x.Resize(80, 24)
	x.Says("/run seq 300; until test -e go; do sleep 0.1; done; seq 301 10000")
	x.Shows("│ 300", "lines · ctrl+o shows more", "esc cancels")
	x.Keys("C-o")
	x.Shows("│ 292", "│ 300", "ctrl+o shows less")
	x.Resize(40, 12)
	x.Shows("│ 300", "ctrl+o shows less", "esc cancels")
	x.Resize(80, 24)
	p.File(t, "go", "on\n")
	x.Shows("ctrl+o shows 980 more lines") // the agent sends all of it again, too
	if all := x.All(); !strings.Contains(all, "9,960 lines left out") && !strings.Contains(all, "10000\n") {
		t.Error("the end is not shown")
	}
	x.Keys("C-o")
	x.Shows("│ 9980", "Maxi · /help")
	x.Says("/quit")
	x.Exits()
	p.ExpectNobodyBut(t, "tmux")
}

func TestChat_RunsShellCommand(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "what is in the file\n")
	x := chat(t, p)
	x.Says("!cat a.txt; sleep 600")
	code := regexp.MustCompile(`type ([a-z]+) to run this`).FindStringSubmatch(x.Shows("to run this in your shell, outside of the policy"))[1]
	x.Types(code)
	x.Shows("│ what is in the file", "ctrl+c ends your command")
	x.Keys("C-c")
	x.Shows("ended by SIGTERM")
	x.Says("repeat it goes on")
	x.Shows(": it goes on", "Maxi · /help")
	x.Keys("C-r")
	x.Types("cat")
	x.Shows("search: cat", "▸ !cat a.txt")
	x.Keys("Enter")
	x.Shows("❯ !cat a.txt; sleep 600")
	x.Keys("C-u")
	x.Says("/quit")
	x.Exits()
	p.ExpectNobodyBut(t, "tmux")
}

func TestChat_TypedTextDoesNotAnswerQuestion(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "notes.md", e2e.Misspelt)
	x := chat(t, p)
	x.Says("ask")
	x.Shows("The agent asks: Edit", "tab goes to the input")
	x.Types("rather not")
	x.Shows("❯ rather not", "tab goes to the question")
	x.Keys("Tab", "Down", "Down", "Down")
	x.Shows("▸ r 3 Reject", "enter takes it")
	x.Keys("Enter")
	x.Shows("denied (Reject)", "ask ok: reject", "❯ rather not")
	x.Keys("C-c", "C-c")
	x.Exits()
}

func TestChat_ResumesSession(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	x := chat(t, p)
	x.Says("repeat the first thing")
	x.Shows(": the first thing", "/help")
	x.Keys("C-c", "C-c")
	if status := x.Exits(); status != 0 {
		t.Errorf("left with Ctrl-C, the exit status is %d, want 0", status)
	}
	_, rest, _ := strings.Cut(x.All(), "--session ")
	session, _, _ := strings.Cut(rest, " ")
	x.End()
	x = chat(t, p, "--session", session)
	x.Says("repeat the second thing")
	x.Shows(session + ": the second thing")
	x.Keys("C-d")
	x.Exits()
	p.ExpectNobodyBut(t, "tmux")
}

func TestChat_TerminalLossLeavesNoProcess(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	x := chat(t, p)
	x.Says("/run sleep 600")
	x.Shows("sleep 600", "esc cancels")
	x.End()
	p.ExpectNobody(t, nil)
}

func TestChat_ReportsAgentExit(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	x := chat(t, p)
	x.Says("crash")
	x.Shows("status 3", "these are the last words")
	x.Shows("the agent runs again", "/help")
	x.Says("repeat after the crash")
	x.Shows(": after the crash")
	x.Says("/quit")
	x.Exits()
	p.ExpectNobodyBut(t, "tmux")
}

func TestPrompt_SuspendsAndContinues(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "notes.md", e2e.Misspelt)
	x := jobShell(t, p)
	x.Runs(`"$ACPHOST" prompt ask -- "$AGENT"; echo status $?`)
	x.Shows("Press a A r")
	x.Keys("C-z")
	x.Shows("Stopped")
	x.Sane()
	x.Runs("fg")
	x.Shows("Press a A r")
	x.Allows("a")
	x.Shows("ask ok: allow")

	// In the background it reads no keys.
	x.Runs("clear")
	x.Runs(`"$ACPHOST" prompt ask -- "$AGENT" &`)
	x.Shows("runs in the background")
	x.Sane()
	x.Runs("fg; echo status $?")
	x.Shows("Press a A r")

	x.Keys(`C-\`)
	x.Shows("status 131")
	x.Sane()
	x.End()
	p.ExpectNobody(t, nil)
}

func TestChat_SuspendsAndContinues(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	x := jobShell(t, p)
	x.Runs(`"$ACPHOST" chat -- "$AGENT"; echo status $?`)
	x.Shows("Demo agent 1.0.0", "/help")
	x.Says("slow 1000 50")
	x.Shows("piece 3", "esc cancels")
	x.Keys("C-z")
	x.Shows("Stopped")
	x.Sane()
	x.Runs("bg") // where it stops again, since it wants the terminal
	x.Runs("jobs")
	x.Runs("fg; echo status $?")
	x.Shows("esc cancels", "working")
	x.Keys("Escape")
	x.Shows("cancelled", "/help")

	x.Keys(`C-\`)
	x.Shows("status 131")
	x.Sane()
	x.Runs(`"$ACPHOST" chat -- "$AGENT" &`) // it starts nothing before it has the terminal
	x.Shows("[1]")
	x.Sane()
	x.Runs("fg")
	x.Shows("Demo agent 1.0.0", "/help")
	x.Keys("C-z")
	x.Shows("Stopped")
	x.Runs("kill %1; wait; clear; jobs; echo over")
	x.Shows("over")
	x.Sane()
	x.End()
	p.ExpectNobody(t, nil)
}

func TestChat_OpensEditor(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	editor := filepath.Join(p.Home, "my-editor")
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
	x := jobShell(t, p)
	x.Runs(`export EDITOR="` + editor + `"; clear; "$ACPHOST" chat -- "$AGENT"; echo status $?`)
	x.Shows("Demo agent 1.0.0", "/help")
	x.Types("half a text")
	x.Shows("❯ half a text")
	x.Keys("C-x", "C-e")
	x.CodeFor("open this in my-editor, outside of the policy")
	x.Shows("the editor has half a text and icanon")
	x.Keys("C-c")
	x.Shows("interrupted")
	x.Keys("C-z")
	x.Shows("Stopped")
	x.Sane()
	x.Runs("clear; fg; echo status $?")
	x.Shows("continued")
	x.Keys("C-c")
	x.Shows("interrupted")
	p.File(t, "written", "repeat a whole text\n")
	x.Shows("❯ repeat a whole text", "/help")
	x.Keys("Enter")
	x.Shows(": a whole text")

	// A killed editor returns the terminal to the chat.
	if err := os.Remove(p.Path("written")); err != nil {
		t.Fatal(err)
	}
	x.Types("another")
	x.Keys("C-x", "C-e")
	x.CodeFor("open this in my-editor, outside of the policy")
	x.Shows("the editor has another")
	x.Keys(`C-\`)
	x.Shows("the editor was ended by SIGQUIT; the input is as it was", "❯ another")
	x.Keys("C-c", "C-c")
	x.Shows("status 0")
	x.Sane()
	x.End()
	p.ExpectNobody(t, nil)
}

// chat holds a chat with the demo agent, in a terminal.
func chat(t testing.TB, p *e2e.Place, flags ...string) *e2e.Terminal {
	t.Helper()
	command := append([]string{e2e.Program("acphost"), "chat"}, flags...)
	x := p.Terminal(t, append(command, "--", e2e.Program("demoagent")), "DEMOAGENT_STATE="+filepath.Join(p.Home, "kept"))
	x.Shows("Demo agent 1.0.0", "❯", "Ask · Maxi")
	return x
}

// jobShell is a shell with job control, in a terminal.
func jobShell(t testing.TB, p *e2e.Place) *e2e.Terminal {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skipf("there is no shell with job control: %v", err)
	}
	x := p.Terminal(t, []string{"bash", "--noprofile", "--norc", "-i"},
		"PS1=ready> ", "HISTFILE=", "DEMOAGENT_STATE="+filepath.Join(p.Home, "kept"), "ACPHOST="+e2e.Program("acphost"), "AGENT="+e2e.Program("demoagent"))
	x.Shows("ready>")
	return x
}
