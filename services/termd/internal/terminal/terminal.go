// Package terminal runs commands on pseudo-terminals and keeps their output.
//
// It knows processes, pseudo-terminals, output, and which session owns which terminal. It does not know how a command line
// becomes a program (package command), and it does not know gRPC or ACP.
package terminal

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/sdk/plaintext"
	"github.com/acphost/acphost/services/termd/internal/command"
	"github.com/acphost/acphost/services/termd/internal/ring"
)

// rawMin is how much raw output is kept for watchers at least, however little plain text is asked for: it is also how far
// a watcher may fall behind.
const rawMin = 256 << 10

// drainMax is how much is read after a command's end before its output counts as complete, if others go on writing. It is
// more than the kernel can hold of what the command wrote: 64 KiB in the tty's buffer, 4 KiB in the line discipline.
const drainMax = 256 << 10

// watchPiece is the largest piece of output that a watcher gets at once.
const watchPiece = 64 << 10

// Terminal is a command on a pseudo-terminal, from its start until after its release. All methods are safe for concurrent
// use.
type Terminal struct {
	id, scope, mark string
	plan            command.Plan
	limit           int
	started         time.Time
	owner           *Terminals
	group           *scope

	master  *os.File
	leader  *leader
	tree    *tree
	wall    *time.Timer   // nil: no limit
	dead    chan struct{} // closed when the command has ended; status is set
	status  proc.ExitStatus
	drained chan struct{} // closed when nothing more can be read
	exited  chan struct{} // closed when the end is known and the output complete

	released chan struct{} // closed, under the owner's lock, at release

	mu     sync.Mutex
	raw    *ring.Ring
	back   *ring.Ring
	screen *plaintext.Screen
	news   chan struct{} // closed at the next output, or at the end; nil: nobody waits
	ended  time.Time     // zero until exited
	ending *ending       // the latest one; nil: none
}

// ending is one attempt to end the whole tree.
type ending struct {
	done chan struct{}
	err  error
}

// Info is what is known of a terminal.
type Info struct {
	ID, Scope   string
	Args        []string
	Cwd         string
	PID         int
	Start, End  time.Time        // End is zero while it runs
	Exit        *proc.ExitStatus // nil while it runs
	OutputBytes uint64           // raw, dropped ones included
	Released    bool
}

// Output is a terminal's text.
type Output struct {
	// Text is plain UTF-8, the newest part.
	Text string
	// Truncated says that older text was dropped.
	Truncated bool
	// Exit is how the command ended; nil while it runs. The text is complete then.
	Exit *proc.ExitStatus
}

// Event is what a watcher gets: exactly one of the three.
type Event struct {
	Data    []byte // valid until the function that got it returns
	Dropped uint64
	Exit    *proc.ExitStatus
}

// ID is the terminal's id.
func (t *Terminal) ID() string { return t.id }

// Info says what is known now.
func (t *Terminal) Info() Info {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Info{
		ID: t.id, Scope: t.scope, Args: t.plan.Args, Cwd: t.plan.Cwd, PID: t.leader.pid,
		Start: t.started, End: t.ended, Exit: t.exit(), OutputBytes: t.raw.Total(), Released: closed(t.released),
	}
}

// Output is the text so far, no more than was asked for at Create, cut at the start of a character.
func (t *Terminal) Output() Output { return t.output(t.limit) }

func (t *Terminal) output(limit int) Output {
	out, text := t.outputNow() // the command must not wait for the rest
	if len(text) > limit {
		text, out.Truncated = text[len(text)-max(limit, 0):], true
	}
	if out.Truncated {
		for len(text) > 0 && !utf8.RuneStart(text[0]) {
			text = text[1:]
		}
	}
	out.Text = string(text)
	return out
}

// Wait waits for the command's end and says how it ended; its output is complete then. A release meanwhile counts as
// SIGKILL, at once. Ending ctx ends the wait and nothing else.
func (t *Terminal) Wait(ctx context.Context) (proc.ExitStatus, error) {
	select {
	case <-t.exited:
		return t.status, nil
	default:
	}
	select {
	case <-t.exited:
		return t.status, nil
	case <-t.released:
		return proc.ExitStatus{Code: -1, Signal: "SIGKILL", Number: int(unix.SIGKILL)}, nil
	case <-ctx.Done():
		return proc.ExitStatus{}, context.Cause(ctx)
	}
}

// Kill ends the command and everything that it started, and returns when all of it is dead and the output complete. When
// ctx ends first the killing goes on without the caller.
func (t *Terminal) Kill(ctx context.Context) error {
	e := t.end()
	select {
	case <-e.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if e.err != nil {
		return e.err
	}
	select {
	case <-t.exited:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Watch hands over the raw output from the oldest byte kept on, what comes while it watches, and the end; then it returns.
// It reads the terminal's own buffer at its own pace: whoever is too slow misses bytes and is told how many. It also
// returns when send fails or ctx ends.
func (t *Terminal) Watch(ctx context.Context, send func(Event) error) error {
	piece := make([]byte, watchPiece)
	var at, last uint64
	over := false
	for {
		t.mu.Lock()
		var missed uint64
		if oldest := t.raw.Dropped(); at < oldest {
			missed, at = oldest-at, oldest
		}
		if !over && closed(t.exited) {
			// Others may go on writing for ever. The end is here.
			over, last = true, t.raw.Total()
		}
		room := piece
		if over && at+uint64(len(piece)) > last {
			room = piece[:max(int64(last)-int64(at), 0)]
		}
		n := t.raw.CopyAt(room, at)
		at += uint64(n)
		var news chan struct{}
		if n == 0 && !over {
			if t.news == nil {
				t.news = make(chan struct{})
			}
			news = t.news
		}
		t.mu.Unlock()

		if missed > 0 {
			if err := send(Event{Dropped: missed}); err != nil {
				return err
			}
		}
		switch {
		case n > 0:
			if err := send(Event{Data: piece[:n]}); err != nil {
				return err
			}
		case over:
			status := t.status
			return send(Event{Exit: &status})
		default:
			select {
			case <-news:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
}

func (t *Terminal) outputNow() (out Output, text []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	out = Output{Exit: t.exit(), Truncated: t.back.Dropped() > 0}
	text = make([]byte, 0, t.back.Len()+t.screen.Len())
	return out, t.screen.AppendTo(t.back.AppendTo(text))
}

// exit is the status if the end is known. Call it with mu held, so that output and status agree.
func (t *Terminal) exit() *proc.ExitStatus {
	if !closed(t.exited) {
		return nil
	}
	status := t.status
	return &status
}

// await waits for the command's end and has the reader finish.
func (t *Terminal) await() {
	t.status = t.leader.wait()
	close(t.dead)
	// The reader may be waiting for output that only others still could write. Wake it.
	if err := t.master.SetReadDeadline(time.Unix(1, 0)); err != nil && !errors.Is(err, os.ErrClosed) {
		// A system that cannot wait for a pty with a deadline: what is there is read at once.
		select {
		case <-t.drained:
		case <-time.After(200 * time.Millisecond):
		}
		t.report()
	}
}

// read takes all output until nobody can write any more, and reports the end when it is complete.
func (t *Terminal) read() {
	piece := make([]byte, 16<<10)
	for {
		n, err := t.master.Read(piece)
		if n > 0 {
			t.take(piece[:n])
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			_ = t.master.SetReadDeadline(time.Time{}) // or it was closed: the next read says so
			t.drain(piece)
			<-t.dead
			t.report()
			continue
		}
		if err != nil { // EIO: the last process that had it open is gone. EOF elsewhere. Or it was closed.
			break
		}
	}
	close(t.drained)
	<-t.dead
	t.report()
}

// readFailed ends the command after a panic of read: its output cannot be followed any more.
func (t *Terminal) readFailed(error) {
	t.end()
	if !closed(t.drained) {
		close(t.drained)
	}
	<-t.dead
	t.report()
}

// awaitFailed ends the command after a panic of await, which alone learns the status: it stays the zero one.
func (t *Terminal) awaitFailed(error) {
	t.end()
	if !closed(t.dead) {
		close(t.dead)
	}
	_ = t.master.SetReadDeadline(time.Unix(1, 0))
}

// drain reads what is there and does not wait for more. The kernel moves what was written to where it can be read before
// it says that there is nothing, so that all of what an ended process wrote is seen.
func (t *Terminal) drain(piece []byte) {
	conn, err := t.master.SyscallConn()
	if err != nil {
		return
	}
	for left := drainMax; left > 0; {
		n := 0
		err := conn.Read(func(fd uintptr) bool {
			for {
				var err error
				if n, err = unix.Read(int(fd), piece); !errors.Is(err, unix.EINTR) {
					return true
				}
			}
		})
		if err != nil || n <= 0 {
			return
		}
		t.take(piece[:n])
		left -= n
	}
}

func (t *Terminal) take(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.raw.Write(p)
	t.screen.Write(p)
	if t.news != nil {
		close(t.news)
		t.news = nil
	}
}

// report makes the end known. It may be called again.
func (t *Terminal) report() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if closed(t.exited) {
		return
	}
	t.screen.Finish()
	t.ended = time.Now()
	close(t.exited)
	if t.news != nil {
		close(t.news)
		t.news = nil
	}
}

// end ends the whole tree, or joins who is at it.
func (t *Terminal) end() *ending {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.ending; e != nil && !closed(e.done) {
		return e
	}
	e := &ending{done: make(chan struct{})}
	if t.tree.isRetired() {
		close(e.done)
		return e
	}
	t.ending = e
	t.owner.busy.Go(func() {
		defer close(e.done)
		e.err = panics.Catch(t.owner.log, "ending the processes of a terminal", func() error { return t.owner.endTree(t) })
	})
	return e
}

// free gives the output's memory back.
func (t *Terminal) free() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.raw.Free()
	t.back.Free()
	t.screen = plaintext.New(t.back)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
