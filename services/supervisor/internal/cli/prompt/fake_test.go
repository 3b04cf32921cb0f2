package prompt

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/hosting"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

func turnEnded(reason string) *supervisorv1.Event {
	return &supervisorv1.Event{Event: &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{StopReason: reason}}}
}

func turnFailed(kind supervisorv1.ErrorKind, message string) *supervisorv1.Event {
	return &supervisorv1.Event{Event: &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{
		Error: &supervisorv1.AgentError{Kind: kind, Message: message, StderrTail: []string{"last words\x1b[2J"}},
	}}}
}

func agentMessage(text string) *supervisorv1.Event {
	return &supervisorv1.Event{Event: &supervisorv1.Event_AgentMessage{AgentMessage: &supervisorv1.MessageChunk{
		Content: &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: text}}},
	}}}
}

func questionAnswered(id, outcome string) *supervisorv1.Event {
	return &supervisorv1.Event{Event: &supervisorv1.Event_QuestionAnswered{QuestionAnswered: &supervisorv1.ApprovalAnswer{Id: id, Outcome: outcome, AnsweredBy: "nobody"}}}
}

// calls is a report of a tool call that is new.
func calls(id, title, status string) *supervisorv1.Event {
	return &supervisorv1.Event{Event: &supervisorv1.Event_ToolCall{ToolCall: &supervisorv1.ToolCallReport{ToolCallId: id, Title: &title, Status: &status}}}
}

// reports is an update of a tool call.
func reports(id, status string) *supervisorv1.Event {
	return &supervisorv1.Event{Event: &supervisorv1.Event_ToolCallUpdate{ToolCallUpdate: &supervisorv1.ToolCallReport{ToolCallId: id, Status: &status}}}
}

// fakeKeyboard is a keyboard that a test presses keys of.
type fakeKeyboard struct {
	keys   chan key
	closed chan struct{}
	once   sync.Once
}

func (k *fakeKeyboard) Keys() <-chan key { return k.keys }
func (k *fakeKeyboard) Close()           { k.once.Do(func() { close(k.closed) }) }

// press presses keys; "\n" is Enter. It returns once all were taken, or the keyboard was closed.
func (k *fakeKeyboard) press(text string) {
	for _, r := range text {
		pressed := key{name: keyRune, r: r}
		switch r {
		case '\n':
			pressed = key{name: keyEnter}
		case '\x1b':
			pressed = key{name: keyEscape}
		case '\x7f':
			pressed = key{name: keyBackspace}
		case '\x15':
			pressed = key{name: keyKill}
		case '\x03':
			pressed = key{name: keyInterrupt}
		}
		select {
		case k.keys <- pressed:
		case <-k.closed:
			return
		}
	}
}

// aRun is an active prompt with a fake supervisor.
type aRun struct {
	*promptRun
	fake   *commandtest.Hosted
	signal chan os.Signal
	boards chan *fakeKeyboard // each keyboard that is opened
	out    *safeBuffer
	errs   *safeBuffer
	status chan int
}

// newRun prepares a prompt; attended: with a person at a terminal.
func newRun(t *testing.T, attended bool) *aRun {
	f := commandtest.NewHosted(t)
	r := &aRun{
		fake: f, signal: make(chan os.Signal, 4), boards: make(chan *fakeKeyboard, 16),
		out: &safeBuffer{}, errs: &safeBuffer{}, status: make(chan int, 1),
	}
	r.promptRun = &promptRun{
		text: "Hello.", attended: attended, prints: printText, agent: &supervisorv1.StartAgentRequest{Cwd: "/work", Command: []string{"demo"}},
		start:   func(context.Context) (hosting.Supervisor, error) { return f, nil },
		signals: r.signal, stderr: r.errs, turnTimeout: time.Minute, grace: time.Minute, kill: func() {}, stuckTimeout: time.Minute,
		stop: func() bool { return false }, foreground: func() bool { return true },
		screen: &screen{out: r.out},
		look:   render.Options{Asking: attended, NoUsage: !attended},
	}
	r.asker.codes.Draw = func(n int) string { return strings.Repeat("k", n) }
	if attended {
		r.keyboard = func() (keyboard, error) {
			k := &fakeKeyboard{keys: make(chan key), closed: make(chan struct{})}
			r.boards <- k
			return k, nil
		}
	}
	t.Cleanup(func() {
		if r.sup != nil && !f.Closed() {
			t.Error("the supervisor was not closed")
		}
	})
	return r
}

// begin runs it in the background.
func (r *aRun) begin(t *testing.T) {
	go func() { r.status <- r.run(t.Context()) }()
}

// wait returns the exit status.
func (r *aRun) wait(t *testing.T) int {
	t.Helper()
	select {
	case s := <-r.status:
		return s
	case <-testkit.After():
		t.Fatalf("it does not end; it printed %q and %q", r.out.String(), r.errs.String())
		return 0
	}
}

// board is the keyboard that is opened next.
func (r *aRun) board(t *testing.T) *fakeKeyboard {
	t.Helper()
	select {
	case k := <-r.boards:
		return k
	case <-testkit.After():
		t.Fatalf("nothing is asked; it printed %q and %q", r.out.String(), r.errs.String())
		return nil
	}
}

// safeBuffer is a buffer that can be read while it is written to.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// visible is text as a terminal shows it at last: what was erased is not there.
func visible(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if at := strings.LastIndex(l, "\r\x1b[K"); at >= 0 {
			lines[i] = l[at+len("\r\x1b[K"):]
		}
	}
	return strings.Join(lines, "\n")
}
