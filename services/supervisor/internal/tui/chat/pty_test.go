//go:build linux || darwin

package chat

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
	"github.com/creack/pty"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/tui/jobcontrol"
)

// console is a chat in a real pseudo-terminal.
type console struct {
	t      *testing.T
	ours   *os.File // the end that a terminal's window has
	theirs *os.File
	before *term.State
	stop   context.CancelFunc
	result chan ended
	over   bool

	mu     sync.Mutex
	output strings.Builder
	more   chan struct{}
}

type ended struct {
	result Result
	err    error
}

func run(t *testing.T, f *fake, change ...func(*Options)) *console {
	t.Helper()
	ours, theirs, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(ours, &pty.Winsize{Rows: 30, Cols: 100}); err != nil {
		t.Fatal(err)
	}
	unblocked(t, ours)
	before, err := term.GetState(theirs.Fd())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &console{t: t, ours: ours, theirs: theirs, before: before, stop: stop, result: make(chan ended, 1), more: make(chan struct{}, 1)}
	o := Options{
		Stop: jobcontrol.Stop, Suspend: jobcontrol.Suspend, Quit: jobcontrol.Quit,
		Conn: f.serve(t), Agent: &supervisorv1.StartAgentRequest{Preset: "claude"}, Cwd: t.TempDir(),
		Input: theirs, Output: theirs, Env: []string{"TERM=xterm-256color", "TERM_PROGRAM=Apple_Terminal"}, Color: true,
	}
	o.codes.Draw = func(n int) string { return strings.Repeat("k", n) }
	for _, f := range change {
		f(&o)
	}
	var reading sync.WaitGroup
	reading.Go(c.read)
	go func() {
		r, err := Run(ctx, o)
		c.result <- ended{r, err}
	}()
	t.Cleanup(func() {
		stop()
		if !c.over {
			<-c.result
		}
		_ = theirs.Close()
		_ = ours.Close()
		reading.Wait()
	})
	return c
}

// unblocked makes a read end when the file is closed. Setting the size has made it one that waits.
func unblocked(t *testing.T, f *os.File) {
	t.Helper()
	raw, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if e := raw.Control(func(fd uintptr) { err = syscall.SetNonblock(int(fd), true) }); e != nil || err != nil {
		t.Fatal(e, err)
	}
}

func (c *console) read() {
	buf := make([]byte, 4096)
	for {
		n, err := c.ours.Read(buf)
		c.mu.Lock()
		c.output.Write(buf[:n])
		c.mu.Unlock()
		select {
		case c.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

var moves = regexp.MustCompile(`\x1b\[\d*[CG]`)

// text returns the output so far, without cursor movements and colors.
func (c *console) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ansi.Strip(moves.ReplaceAllString(c.output.String(), " "))
}

// see waits for a text.
func (c *console) see(want string) {
	c.t.Helper()
	c.seeTimes(want, 1)
}

// seeTimes waits until a text was written the given number of times.
func (c *console) seeTimes(want string, times int) {
	c.t.Helper()
	deadline := testkit.After()
	for strings.Count(c.text(), want) < times {
		select {
		case <-c.more:
		case <-deadline:
			c.t.Fatalf("%q is not on the screen:\n%s", want, c.text())
		}
	}
}

func (c *console) write(text string) {
	c.t.Helper()
	if _, err := c.ours.WriteString(text); err != nil {
		c.t.Fatal(err)
	}
}

// end waits for the chat's end, and checks that the terminal is as it was.
func (c *console) end() ended {
	c.t.Helper()
	var e ended
	select {
	case e = <-c.result:
		c.over = true
	case <-testkit.After():
		c.t.Fatalf("the chat does not end; the screen:\n%s", c.text())
	}
	after, err := term.GetState(c.theirs.Fd())
	if err != nil {
		c.t.Fatal(err)
	}
	if *after != *c.before {
		c.t.Errorf("the terminal is not as it was: %+v, was %+v", after, c.before)
	}
	return e
}

func TestTerminal_WholeChat(t *testing.T) {
	f := newFake()
	asked := make(chan *supervisorv1.AnswerApprovalRequest, 1)
	f.turn = func(ctx context.Context, f *fake, text string, say func(*supervisorv1.Event)) string {
		say(chunk("You said: " + text + "\n\n"))
		say(toolCall("t1", "Run the tests", "execute", "in_progress"))
		asked <- f.ask(ctx, permission("claude-1/7"))
		say(toolCall("t1", "Run the tests", "execute", "completed"))
		return "end_turn"
	}
	c := run(t, f)
	c.see("new session with Claude Code")
	c.write("hello there\r")
	c.see("You said: hello there")
	c.see("esc cancels the turn")
	c.write("a")
	c.see("another key goes back")
	c.write("kk")
	if r := <-asked; r.GetOptionId() != "once" || r.GetAnsweredBy() != "cli" {
		t.Errorf("the answer is %v", r)
	}
	c.see("✓ allowed (Allow) by cli")
	c.write("\x04")
	e := c.end()
	if e.err != nil || e.result.Session != "s1" || !e.result.Reopens {
		t.Errorf("it ended as %+v", e)
	}
}

func TestTerminal_IsRestoredAtEnd(t *testing.T) {
	for name, leave := range map[string]func(*console){
		"when the person leaves":             func(c *console) { c.write("/quit\r") },
		"when ctrl+c is pressed twice":       func(c *console) { c.write("\x03\x03") },
		"when the process receives a signal": func(c *console) { c.stop() },
		"when it ends in the midst of text":  func(c *console) { c.write("half a sen"); c.see("half a sen"); c.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			c := run(t, newFake())
			c.see("new session")
			leave(c)
			if e := c.end(); e.err != nil {
				t.Error(e.err)
			}
		})
	}
}

func TestTerminal_HangupEndsChat(t *testing.T) {
	c := run(t, newFake())
	c.see("new session")
	_ = c.ours.Close()
	select {
	case e := <-c.result:
		c.over = true
		if e.err == nil {
			t.Error("no error states that the terminal is gone")
		}
	case <-testkit.After():
		t.Fatal("the chat does not end")
	}
}

func TestTurn_EndsWithChat(t *testing.T) {
	f := newFake()
	over := make(chan error, 1)
	f.turn = func(ctx context.Context, _ *fake, _ string, say func(*supervisorv1.Event)) string {
		say(chunk("working\n\n"))
		<-ctx.Done()
		over <- ctx.Err()
		return "cancelled"
	}
	c := run(t, f)
	c.see("new session")
	c.write("go\r")
	c.see("working")
	c.stop()
	if e := c.end(); e.err != nil {
		t.Error(e.err)
	}
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("the turn ended with %v", err)
	}
}

func TestTurn_EscapeCancelsAndSendsQueued(t *testing.T) {
	f := newFake()
	f.turn = func(ctx context.Context, _ *fake, text string, say func(*supervisorv1.Event)) string {
		say(chunk("got " + text + " now"))
		if text == "second" {
			return "end_turn"
		}
		<-ctx.Done()
		return "cancelled"
	}
	c := run(t, f)
	c.see("new session")
	c.write("first\r")
	c.see("got first")
	c.write("second\r")
	c.see("queued: second")
	c.write("\x1b")
	c.see("cancelled")
	c.see("got second")
	c.write("\x04")
	c.end()
}

func TestSession_LoadShowsHistory(t *testing.T) {
	f := newFake()
	f.history = []*supervisorv1.Event{
		{Event: &supervisorv1.Event_UserMessage{UserMessage: &supervisorv1.MessageChunk{Content: textBlock("what was I asking?")}}},
		chunk("You asked about parsers."),
	}
	c := run(t, f, func(o *Options) { o.Session = "old-1" })
	c.see("what was I asking?")
	c.see("You asked about parsers.")
	c.see("session loaded")
	c.write("/sessions\r")
	c.see("The lexer")
	c.write("\x1b[B\r") // down, enter
	c.seeTimes("session loaded", 2)
	c.write("/quit\r")
	if e := c.end(); e.result.Session != "old-2" {
		t.Errorf("the session is %q, want the one that was chosen", e.result.Session)
	}
}

// Lines that are printed before the first frame would overwrite what is at the top of the terminal.
func TestRun_PrintsNothingBeforeFirstFrame(t *testing.T) {
	notes := make(chan string, 1)
	notes <- "early words"
	c := run(t, newFake(), func(o *Options) { o.Notes = notes })
	c.see("early words")
	c.mu.Lock()
	output := c.output.String()
	c.mu.Unlock()
	if frame, words := strings.Index(output, firstFrame), strings.Index(output, "early words"); frame < 0 || words < frame {
		t.Errorf("the first frame is at %d of the output, and the words are at %d:\n%q", frame, words, output)
	}
}
