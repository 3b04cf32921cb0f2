//go:build linux || darwin

package chat

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/charmbracelet/x/term"
	"github.com/creack/pty"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// signalled sends this process a signal, which a running chat catches.
func signalled(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		t.Fatal(err)
	}
}

func TestJobControl_StopRestoresTerminalAndContinueRedraws(t *testing.T) {
	var c *console
	stopped, goOn := make(chan bool, 1), make(chan struct{})
	c = run(t, newFake(), func(o *Options) {
		o.Stop = func() bool {
			now, err := term.GetState(o.Output.Fd())
			stopped <- err == nil && *now == *c.before
			<-goOn
			signalled(t, syscall.SIGCONT)
			return true
		}
		o.Suspend = func() { signalled(t, syscall.SIGTSTP) }
	})
	c.see("new session")
	c.write("\x1b[200~half a sentence\x1b[201~") // pasted, so that it is drawn at once
	c.see("half a sentence")
	before := strings.Count(c.text(), "half a sentence")
	c.write("\x1a") // Ctrl-Z
	if restored := <-stopped; !restored {
		t.Error("it was stopped before the terminal was as it was")
	}
	close(goOn)
	c.seeTimes("half a sentence", before+1)
	c.write("\x03\x03")
	c.end()
}

func TestJobControl_TurnContinuesAfterStop(t *testing.T) {
	f := newFake()
	sent := make(chan struct{})
	f.turn = func(_ context.Context, _ *fake, _ string, say func(*supervisorv1.Event)) string {
		say(chunk("before\n\n"))
		<-sent
		say(chunk("afterwards\n\n"))
		return "end_turn"
	}
	c := run(t, f, func(o *Options) { o.Stop = func() bool { close(sent); return false } })
	c.see("new session")
	c.write("go\r")
	c.see("before")
	signalled(t, syscall.SIGTSTP)
	c.see("afterwards")
	c.see("/help")
	c.write("\x04")
	c.end()
}

func TestJobControl_RedrawsAfterSIGSTOP(t *testing.T) {
	c := run(t, newFake())
	c.see("$0.12 · /help") // the whole last line
	before := strings.Count(c.text(), "/help")
	if err := term.Restore(c.theirs.Fd(), c.before); err != nil { // as a shell does
		t.Fatal(err)
	}
	signalled(t, syscall.SIGCONT)
	c.seeTimes("/help", before+1)
	now, err := term.GetState(c.theirs.Fd())
	if err != nil || *now == *c.before {
		t.Errorf("keys are not read one by one (%v)", err)
	}
	c.write("\x04")
	c.end()
}

func TestJobControl_SignalKeysSendSignals(t *testing.T) {
	f := newFake()
	f.turn = func(ctx context.Context, f *fake, _ string, _ func(*supervisorv1.Event)) string {
		f.ask(ctx, permission("claude-1/7"))
		return "end_turn"
	}
	seen := make(chan struct{})
	c := run(t, f, func(o *Options) { o.Quit = func() { close(seen) } })
	c.see("new session")
	c.write("go\r")
	c.see("esc cancels the turn")
	c.write("\x1c") // Ctrl-\, while a question is asked
	<-seen
	c.stop()
	c.end()
}

func TestTerminal_UnknownSize(t *testing.T) {
	for name, tt := range map[string]struct {
		env  []string
		wide int
	}{
		"and no environment does": {nil, 80},
		"but its environment":     {[]string{"COLUMNS=40", "LINES=10"}, 40},
		"nor does nonsense":       {[]string{"COLUMNS=0", "LINES=wide"}, 80},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.turn = func(_ context.Context, _ *fake, _ string, say func(*supervisorv1.Event)) string {
				say(chunk(strings.Repeat("word ", 60) + "end\n\n"))
				return "end_turn"
			}
			c := run(t, f, func(o *Options) {
				o.Env = append(o.Env, tt.env...)
				if err := pty.Setsize(o.Output, &pty.Winsize{}); err != nil {
					t.Fatal(err)
				}
			})
			c.see("new session")
			c.write("go\r")
			c.see("end")
			longest := 0
			for l := range strings.Lines(c.text()) {
				if strings.HasPrefix(strings.TrimLeft(l, " \r"), "word word") {
					longest = max(longest, len(strings.TrimSpace(l)))
				}
			}
			if longest < tt.wide-5 || longest > tt.wide {
				t.Errorf("the longest line has %d columns, want nearly %d:\n%s", longest, tt.wide, c.text())
			}
			if err := pty.Setsize(c.ours, &pty.Winsize{Rows: 30, Cols: 64}); err != nil {
				t.Fatal(err)
			}
			// The signal arrives at any time: later output uses the new width.
			wide := strings.TrimSpace(strings.Repeat("word ", 12)) + "\r\n"
			for turns := 2; turns < 200 && !strings.Contains(c.text(), wide); turns++ {
				signalled(t, syscall.SIGWINCH) // as the terminal does to a separate job
				c.write("again\r")
				c.seeTimes("end", turns)
			}
			if !strings.Contains(c.text(), wide) {
				t.Errorf("it does not heed the new size:\n%s", c.text())
			}
			c.write("\x04")
			c.end()
		})
	}
}

// panicking is set where this process is to panic: Bubble Tea leaves goroutines behind then.
const panicking = "CHAT_TEST_PANICS"

func TestTerminal_IsRestoredAfterPanic(t *testing.T) {
	if os.Getenv(panicking) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTerminal_IsRestoredAfterPanic$")
		// After a panic Bubble Tea closes its reader during a read: a data race of that library. The process ends
		// anyway.
		cmd.Env = append(os.Environ(), panicking+"=1", "GORACE=report_bugs=0", "TMPDIR="+t.TempDir()) // it removes nothing
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "something impossible") {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	c := run(t, newFake(), func(o *Options) {
		o.Export = func(context.Context, string, string) error { panic("something impossible") }
	})
	c.see("new session")
	c.write("/export x.md\r")
	if e := c.end(); e.err == nil {
		t.Error("the user is not notified")
	}
	if t.Failed() {
		os.Exit(1)
	}
	os.Exit(0)
}

// editorScript writes a program that plays an editor; the file is its last argument.
func editorScript(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

// terminalModes are those that a chat sets and an editor must not find set.
var terminalModes = regexp.MustCompile(`\x1b\[\?(1004|2004)([hl])`)

func TestExternalEditor_HasWholeTerminal(t *testing.T) {
	f := newFake()
	sent := make(chan struct{})
	f.turn = func(_ context.Context, _ *fake, _ string, say func(*supervisorv1.Event)) string {
		say(chunk("before\n\n"))
		<-sent
		for i := range 500 { // more than waits anywhere
			say(chunk(fmt.Sprintf("meanwhile %d\n\n", i)))
		}
		return "end_turn"
	}
	dir := t.TempDir()
	goOn := filepath.Join(dir, "go")
	editor := editorScript(t, `f=$1
echo "editing $(cat "$f") in $(stat -c %a "$f")"
stty -g >"`+dir+`/stty"
until test -e "`+goOn+`"; do sleep 0.02; done
echo "editor's end"
printf 'from the\neditor\n' >"$f"
`)
	c := run(t, f, func(o *Options) {
		o.StateDir, o.Notify = dir, NotifyBell
		o.Env = append(o.Env, "VISUAL="+editor, "PATH="+os.Getenv("PATH"))
	})
	c.see("new session")
	c.write("go\r")
	c.see("before")
	c.write("half\x18\x05") // Ctrl-X Ctrl-E
	c.see("type kk to open this in editor")
	c.write("kk")
	c.see("editing half in 600")
	close(sent)
	if !testkit.Poll(func() bool { _, err := os.Stat(filepath.Join(dir, "stty")); return err == nil }) {
		t.Fatal("the editor does not run")
	}
	c.mu.Lock()
	all := terminalModes.FindAllStringSubmatch(c.output.String(), -1)
	c.mu.Unlock()
	set := map[string]string{}
	for _, m := range all {
		set[m[1]] = m[2]
	}
	if set["1004"] != "l" || set["2004"] != "l" {
		t.Errorf("modes of the terminal while the editor has it: %v", set)
	}
	state, err := term.GetState(c.theirs.Fd())
	if err != nil || *state != *c.before {
		t.Errorf("the terminal's settings are the chat's (%v)", err)
	}
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.see("meanwhile 499")
	_, during, _ := strings.Cut(c.text(), "editing half")
	during, after, _ := strings.Cut(during, "editor's end")
	if strings.Contains(during, "meanwhile") || strings.Contains(during, "❯") {
		t.Errorf("the chat paints over the editor:\n%s", during)
	}
	for i := range 500 {
		if !strings.Contains(after, fmt.Sprintf("meanwhile %d ", i)) && !strings.Contains(after, fmt.Sprintf("meanwhile %d\r", i)) {
			t.Fatalf("piece %d is lost:\n%s", i, after)
		}
	}
	c.see("from the")
	if left, err := filepath.Glob(filepath.Join(dir, "chat-input-*")); len(left) != 0 || err != nil {
		t.Errorf("there is still %q (%v)", left, err)
	}
	c.write("\r")
	c.see("> from the")
	c.write("\x03\x03")
	c.end()
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := f.prompts[len(f.prompts)-1].GetPrompt()[0].GetText().GetText(); got != "from the\neditor" {
		t.Errorf("the agent gets %q", got)
	}
}

func TestExternalEditor_ReportsStartError(t *testing.T) {
	c := run(t, newFake(), func(o *Options) {
		o.StateDir = t.TempDir()
		o.Env = append(o.Env, "EDITOR=no-such-editor", "PATH=/bin")
	})
	c.see("new session")
	c.write("half\x18\x05")
	c.see("type kk to open this in no-such-editor")
	c.write("kk")
	c.see("start the editor no-such-editor")
	c.write(" a text\r")
	c.see("> half a text")
	c.write("\x04")
	c.end()
}

func TestExternalEditor_EndsWithChat(t *testing.T) {
	dir := t.TempDir()
	c := run(t, newFake(), func(o *Options) {
		o.StateDir = dir
		o.Env = append(o.Env, "PATH="+os.Getenv("PATH"), "EDITOR="+editorScript(t, `trap "" TERM; echo "editing $$"; while :; do sleep 600; done`))
	})
	c.see("new session")
	c.write("\x18\x05")
	c.see("type kk")
	c.write("kk")
	c.see("editing")
	c.stop()
	c.end()
	if left, err := filepath.Glob(filepath.Join(dir, "chat-input-*")); len(left) != 0 || err != nil {
		t.Errorf("there is still %q (%v)", left, err)
	}
}
