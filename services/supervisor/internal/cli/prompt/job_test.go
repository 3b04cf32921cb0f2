//go:build linux || darwin

package prompt

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/hosting"
)

// asksUntilCancelled has the turn ask a question and wait until it is cancelled.
func (r *aRun) asksUntilCancelled() {
	r.fake.Turn = func(ctx context.Context, send func(*supervisorv1.Event)) error {
		r.ask(send, mayI("demo-1/7"))
		select {
		case <-r.fake.Cancelled:
			send(turnEnded("cancelled"))
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// await waits until a text was printed the given number of times.
func (r *aRun) await(t *testing.T, printed func() string, text string, times int) {
	t.Helper()
	if !testkit.Poll(func() bool { return strings.Count(printed(), text) >= times }) {
		t.Fatalf("%q was not printed %d times: %q", text, times, printed())
	}
}

func TestJobControl_StopRestoresTerminalAndAsksAgain(t *testing.T) {
	r := newRun(t, true)
	r.asksUntilCancelled()
	var first *fakeKeyboard
	r.stop = func() bool {
		select {
		case <-first.closed:
		default:
			t.Error("it was stopped before the terminal was as it was")
		}
		return true
	}
	r.begin(t)
	first = r.board(t)
	r.await(t, r.out.String, "Press a", 1)
	r.signal <- syscall.SIGTSTP
	second := r.board(t)
	r.signal <- syscall.SIGCONT // that of the stop: the question is shown already
	r.await(t, r.out.String, "[a] Yes", 2)
	r.signal <- syscall.SIGCONT // of a stop that could not be caught
	<-second.closed
	third := r.board(t)
	r.await(t, r.out.String, "Press a", 3)
	if n := strings.Count(visible(r.out.String()), "Press a"); n != 1 {
		t.Errorf("the line below is there %d times: %q", n, r.out.String())
	}
	third.press("akk")
	if a := <-r.fake.Answered; a.GetOptionId() == "" {
		t.Errorf("the answer is %v", a)
	}
	r.signal <- syscall.SIGINT
	r.wait(t)
}

func TestJobControl_BackgroundReadsNoKeys(t *testing.T) {
	r := newRun(t, true)
	r.asksUntilCancelled()
	var foreground atomic.Bool
	r.foreground = foreground.Load
	r.begin(t)
	r.await(t, r.errs.String, "runs in the background", 1)
	if len(r.boards) > 0 || strings.Contains(r.out.String(), "Press a") {
		t.Errorf("it wants keys: %q", r.out.String())
	}
	foreground.Store(true)
	r.board(t)
	r.await(t, r.out.String, "Press a", 1)
	foreground.Store(false) // it was stopped, and continued there
	r.signal <- syscall.SIGTSTP
	r.await(t, r.errs.String, "runs in the background", 2)
	r.signal <- syscall.SIGINT
	if s := r.wait(t); s != command.TurnStatus("cancelled") {
		t.Errorf("status %d", s)
	}
}

func TestSIGQUIT_EndsPromptAtOnce(t *testing.T) {
	r := newRun(t, true)
	r.fake.Turn = func(ctx context.Context, send func(*supervisorv1.Event)) error {
		r.ask(send, mayI("demo-1/7"))
		<-ctx.Done()
		return ctx.Err()
	}
	r.begin(t)
	k := r.board(t)
	r.signal <- syscall.SIGQUIT
	if s := r.wait(t); s != 131 {
		t.Errorf("status %d", s)
	}
	<-k.closed
	if output := r.errs.String(); strings.Contains(output, "goroutine") {
		t.Errorf("unexpected output: %s", output)
	}
}

func TestGoroutines_DumpedByGOTRACEBACK(t *testing.T) {
	for level, want := range map[string]bool{"": false, "none": false, "0": false, "all": true, "single": true} {
		dump := string(command.Goroutines(func(name string) string { return map[string]string{"GOTRACEBACK": level}[name] }))
		if got := strings.Contains(dump, "TestGoroutines_Dumped"); got != want {
			t.Errorf("GOTRACEBACK=%s: %q", level, dump)
		}
	}
}

// stuckWriter is a pipe without a reader.
type stuckWriter struct {
	full    chan struct{} // closed by the first write
	once    sync.Once
	release chan struct{}
}

func (w *stuckWriter) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.full) })
	<-w.release
	return len(p), nil
}

func TestSignal_EndsPromptWithBlockedOutput(t *testing.T) {
	r := newRun(t, true)
	r.fake.Turn = func(ctx context.Context, send func(*supervisorv1.Event)) error {
		send(agentMessage("This is more than there is room for.\n\n"))
		<-ctx.Done()
		return ctx.Err()
	}
	out := &stuckWriter{full: make(chan struct{}), release: make(chan struct{})}
	r.screen, r.promptRun.stuckTimeout = &screen{out: out}, time.Millisecond
	r.begin(t)
	<-out.full
	r.signal <- syscall.SIGTERM
	if s := r.wait(t); s != 143 || !r.fake.Closed() {
		t.Errorf("status %d; the supervisor is closed: %t", s, r.fake.Closed())
	}
	close(out.release)
	r.wg.Wait()
}

// slowSupervisor does not end.
type slowSupervisor struct {
	*commandtest.Hosted
	socket  string
	closing chan struct{}
	release chan struct{}
}

func (s *slowSupervisor) Addresses() []string {
	return []string{"unix://" + s.socket, "localhost:1 (mutual TLS)"}
}

func (s *slowSupervisor) Close() {
	close(s.closing)
	<-s.release
	s.Hosted.Close()
}

func TestPrompt_QuickExitRemovesSocket(t *testing.T) {
	r := newRun(t, false)
	s := &slowSupervisor{Hosted: r.fake, closing: make(chan struct{}), release: make(chan struct{}), socket: filepath.Join(t.TempDir(), "s")}
	if err := os.WriteFile(s.socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.start = func(context.Context) (hosting.Supervisor, error) { return s, nil }
	r.begin(t)
	<-s.closing
	r.signal <- syscall.SIGCONT // which is no hurry
	r.signal <- syscall.SIGTERM
	r.wait(t)
	if _, err := os.Lstat(s.socket); err == nil {
		t.Error("the socket is still there")
	}
	close(s.release)
	testkit.Eventually(t, "the connection is closed", r.fake.Closed)
}

func TestPrompt_PanicRestoresTerminal(t *testing.T) {
	r := newRun(t, true)
	k := &fakeKeyboard{closed: make(chan struct{})}
	r.promptRun.board = k
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is lost")
			}
		}()
		defer r.restoreOnPanic()
		panic("something impossible")
	}()
	select {
	case <-k.closed:
	default:
		t.Error("the terminal is not as it was")
	}
}
