package chat

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

var shellEnv = []string{"SHELL=/bin/sh", "PATH=" + os.Getenv("PATH")}

// ranHere runs a line to its end.
func ranHere(ctx context.Context, t *testing.T, line string) (text string, end *supervisorv1.WatchOutputResponse) {
	t.Helper()
	var b strings.Builder
	for out, err := range shellOutput(ctx, shellEnv, t.TempDir(), line) {
		if err != nil {
			t.Fatal(err)
		}
		b.Write(out.GetData())
		if out.GetEnded() {
			end = out
		}
	}
	return b.String(), end
}

func TestShellCommand_RunsInUsersShell(t *testing.T) {
	ctx := context.Background()
	if text, end := ranHere(ctx, t, "echo out; echo err >&2; cat; exit 3"); text != "out\nerr\n" || end.GetExitCode() != 3 {
		t.Errorf("got %q and ends with %v", text, end)
	}
	if text, end := ranHere(ctx, t, "kill -9 $$"); text != "" || end.GetSignal() != "SIGKILL" {
		t.Errorf("got %q and ends with %v", text, end)
	}
	if text, _ := ranHere(ctx, t, "(: </dev/tty) 2>/dev/null || echo none"); text != "none\n" {
		t.Errorf("it has a terminal: %q", text)
	}
}

func TestShellCommand_CancelEndsDescendants(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	file := filepath.Join(t.TempDir(), "pid")
	go func() {
		testkit.Poll(func() bool { _, err := os.Stat(file); return err == nil })
		stop()
	}()
	_, end := ranHere(ctx, t, `trap "" TERM; sleep 600 & echo $! > `+file+`.new; mv `+file+`.new `+file+`; wait`)
	pid, err := os.ReadFile(file)
	if err != nil || end.GetSignal() != "SIGKILL" {
		t.Fatalf("it ends with %v (%v)", end, err)
	}
	if !testkit.Poll(func() bool {
		state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		return err != nil || strings.Contains(string(state), ") Z ")
	}) {
		t.Errorf("process %s is left behind", pid)
	}
}

// runsOwn is the beginning of a command of the person's that was confirmed.
func (s *screen) runsOwn(line string) tea.Cmd {
	s.write("!" + line)
	s.press("enter", "k")
	return s.press("k")
}

// plays runs commands of the user, and sends their results, until they end.
func (s *screen) plays(cmd tea.Cmd) {
	for s.m.own != nil && cmd != nil {
		msg, ok := cmd().(ownOutputMsg)
		if !ok {
			return
		}
		cmd = s.send(msg)
	}
}

func TestShellCommand_IsConfirmedAndNotSent(t *testing.T) {
	s := newScreen(t, 80, 24, func(o *Options) { o.Cwd = t.TempDir(); o.Env = shellEnv }).ready()
	s.write("!echo done")
	s.press("enter")
	if v := s.view(); s.m.own != nil || !strings.Contains(v, "type kk to run this in your shell, outside of the policy") || !strings.Contains(v, "❯ !echo done") {
		t.Fatalf("it is not confirmed:\n%s", v)
	}
	s.press("k", "x") // a wrong one
	if s.m.own != nil || s.m.confirming != nil || s.m.edit.Text() != "!echo done" {
		t.Fatal("a wrong key does not go back")
	}
	s.press("enter")
	s.send(tea.TerminalVersionMsg{})
	if s.press("k", "k", "k"); s.m.own != nil {
		t.Fatal("keys that arrive with a report of the terminal confirm it")
	}
	s.press("ctrl+u")
	s.write("!echo done")
	s.press("enter")
	s.plays(s.press("k", "k", "k"))
	if p := s.printed(); !strings.Contains(p, "! echo done\n    │ done\n    │ exit code 0") {
		t.Errorf("it prints\n%s", p)
	}
	if s.m.turn != nil || len(s.m.queue) > 0 || !s.m.edit.Empty() || s.m.past.entries[len(s.m.past.entries)-1] != "!echo done" {
		t.Errorf("the turn is %v, the queue %q, the input %q", s.m.turn, s.m.queue, s.m.edit.Text())
	}
	s.write(" !echo done")
	if s.press("enter"); s.m.turn == nil || s.m.confirming != nil {
		t.Error("with a space in front it is not for the agent")
	}
}

func TestShellCommand_OutputHasNoEscapes(t *testing.T) {
	s := newScreen(t, 80, 24, func(o *Options) { o.Cwd = t.TempDir(); o.Env = shellEnv }).ready()
	s.plays(s.runsOwn(`printf '\033]0;x\a\033[2J\342\200\256'; seq 10000`))
	p := s.printed()
	if harm(strings.Join(strings.Split(p, "\n"), "")) != "" || !strings.Contains(p, "lines left out") || !strings.Contains(p, "│ 10000\n") {
		t.Errorf("it prints %q", p)
	}
	if v := s.view(); !strings.Contains(v, "ctrl+o shows 980 more lines") {
		t.Errorf("the view is\n%s", v)
	}
}

func TestShellCommand_CtrlCEndsItBeforeTurn(t *testing.T) {
	s := newScreen(t, 80, 24, func(o *Options) { o.Cwd = t.TempDir(); o.Env = shellEnv }).ready()
	s.write("go")
	s.press("enter")
	cmd := s.runsOwn("sleep 600")
	if v := s.view(); !strings.Contains(v, "! sleep 600") || !strings.Contains(v, "ctrl+c ends your command") {
		t.Errorf("the view is\n%s", v)
	}
	s.press("ctrl+c")
	s.plays(cmd)
	if p := s.printed(); s.m.own != nil || s.m.turn.cancelled || !strings.Contains(p, "ended by SIGTERM") {
		t.Errorf("the turn is %+v, it prints\n%s", s.m.turn, p)
	}
}

func TestShellCommand_QuestionWaitsForConfirmation(t *testing.T) {
	s := newScreen(t, 80, 24, func(o *Options) { o.Cwd = t.TempDir(); o.Env = shellEnv }).ready()
	s.write("go")
	s.press("enter")
	s.write("!true")
	s.press("enter")
	s.asked(permission("claude-1/7"))
	s.wait(time.Minute)
	s.plays(s.press("k", "k"))
	if q := s.m.question(); q.sent || q.code != nil || q.delayed != nil {
		t.Errorf("the code answers the question: %+v", q)
	}
}

func TestHistory_Search(t *testing.T) {
	s := newScreen(t, 80, 24).ready()
	for _, text := range []string{"fix the parser", "run the tests", "fix the lexer"} {
		s.m.past.Add(text)
	}
	s.write("half")
	s.press("ctrl+r")
	s.write("FIX the")
	if v := s.view(); !strings.Contains(v, "search: FIX the") || !strings.Contains(v, "▸ fix the lexer") || strings.Contains(v, "run the tests") {
		t.Fatalf("the view is\n%s", v)
	}
	if s.press("esc"); s.m.edit.Text() != "half" {
		t.Fatalf("the input is %q", s.m.edit.Text())
	}
	s.press("ctrl+r", "f", "i", "x", "ctrl+r", "enter")
	if s.m.edit.Text() != "fix the parser" || s.m.turn != nil {
		t.Errorf("the input is %q", s.m.edit.Text())
	}
	s.press("ctrl+r")
	s.send(pasted("no such\nthing"))
	if v := s.view(); !strings.Contains(v, "nothing that was typed before") {
		t.Errorf("the view is\n%s", v)
	}
	s.press("enter")
	if s.m.edit.Text() != "fix the parser" {
		t.Errorf("the input is %q", s.m.edit.Text())
	}
}
