// Package terminal runs commands on pseudo-terminals and keeps their output.
//
// It knows processes, pseudo-terminals, output, and which session owns which terminal. It must not know how a command
// line becomes a program (package command), gRPC or ACP.
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

// minRaw is the minimum of raw output that is kept for watchers, even if less plain text is requested. It is also how
// far a watcher may lag behind.
const minRaw = 256 << 10

// maxDrain limits the bytes read after a command's end before its output counts as complete, if other processes keep
// writing. It is more than the kernel buffers of the command's output: 64 KiB in the tty's buffer, 4 KiB in the line
// discipline.
const maxDrain = 256 << 10

// maxEventData is the largest piece of output that a watcher gets at once.
const maxEventData = 64 << 10

// Terminal is a command on a pseudo-terminal, from its start until after its release. All methods are safe for
// concurrent use.
type Terminal struct {
	id, scope, mark string
	plan            command.Plan
	limit           int
	started         time.Time
	owner           *Terminals
	group           *scope

	master   *os.File
	leader   *leader
	tree     *tree
	runTimer *time.Timer   // nil: no limit
	dead     chan struct{} // closed when the command has ended; status is set
	status   proc.ExitStatus
	drained  chan struct{} // closed when nothing more can be read
	exited   chan struct{} // closed when the end is known and the output complete

	released chan struct{} // closed, under the owner's lock, at release

	mu      sync.Mutex
	raw     *ring.Ring
	back    *ring.Ring
	screen  *plaintext.Screen
	updated chan struct{} // closed at the next output, or at the end; nil: no watcher waits
	ended   time.Time     // zero until exited
	ending  *ending       // the latest one; nil: none
}

// ending is one attempt to end the whole tree.
type ending struct {
	done chan struct{}
	err  error
}

// Info describes a terminal.
type Info struct {
	ID, Scope   string
	Args        []string
	Cwd         string
	PID         int
	Start, End  time.Time        // End is zero while it runs
	Exit        *proc.ExitStatus // nil while it runs
	OutputBytes uint64           // raw, including dropped bytes
	Released    bool
}

// Output is a terminal's text.
type Output struct {
	// Text is plain UTF-8, the newest part.
	Text string
	// Truncated means that older text was dropped.
	Truncated bool
	// Exit is how the command ended; nil while it runs. The text is complete then.
	Exit *proc.ExitStatus
}

// Event is sent to a watcher. Exactly one field is set.
type Event struct {
	Data    []byte // valid until the function that received it returns
	Dropped uint64
	Exit    *proc.ExitStatus
}

// ID returns the terminal's id.
func (t *Terminal) ID() string { return t.id }

// Info returns the terminal's current state.
func (t *Terminal) Info() Info {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Info{
		ID: t.id, Scope: t.scope, Args: t.plan.Args, Cwd: t.plan.Cwd, PID: t.leader.pid,
		Start: t.started, End: t.ended, Exit: t.exit(), OutputBytes: t.raw.Total(), Released: closed(t.released),
	}
}

// Output returns the text so far, at most the limit requested at Create, cut at the start of a character.
func (t *Terminal) Output() Output { return t.output(t.limit) }

func (t *Terminal) output(limit int) Output {
	out, text := t.outputNow() // copied, so that the command is not blocked by the rest
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

// Wait waits for the command's end and returns its exit status; its output is complete then. If the terminal is
// released meanwhile, Wait returns SIGKILL at once. If ctx ends, only the wait ends.
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

// Kill ends the command and all processes that it started, and returns when all are dead and the output is complete. If
// ctx ends first, the killing continues in the background.
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

// Watch sends the raw output from the oldest byte kept on, then new output, and the end; then it returns. It reads the
// terminal's own buffer at its own pace: a watcher that is too slow misses bytes and gets their number. Watch also
// returns when send fails or ctx ends.
func (t *Terminal) Watch(ctx context.Context, send func(Event) error) error {
	piece := make([]byte, maxEventData)
	var at, last uint64
	finished := false
	for {
		t.mu.Lock()
		var missed uint64
		if oldest := t.raw.Dropped(); at < oldest {
			missed, at = oldest-at, oldest
		}
		if !finished && closed(t.exited) {
			// Other processes may write forever. The output ends here.
			finished, last = true, t.raw.Total()
		}
		room := piece
		if finished && at+uint64(len(piece)) > last {
			room = piece[:max(int64(last)-int64(at), 0)]
		}
		n := t.raw.CopyAt(room, at)
		at += uint64(n)
		var updated chan struct{}
		if n == 0 && !finished {
			if t.updated == nil {
				t.updated = make(chan struct{})
			}
			updated = t.updated
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
		case finished:
			status := t.status
			return send(Event{Exit: &status})
		default:
			select {
			case <-updated:
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

// exit returns the status if the end is known. The caller holds mu, so that output and status agree.
func (t *Terminal) exit() *proc.ExitStatus {
	if !closed(t.exited) {
		return nil
	}
	status := t.status
	return &status
}

// await waits for the command's end and makes the reader finish.
func (t *Terminal) await() {
	t.status = t.leader.wait()
	close(t.dead)
	// The reader may be waiting for output that only other processes could still write. Wake it.
	if err := t.master.SetReadDeadline(time.Unix(1, 0)); err != nil && !errors.Is(err, os.ErrClosed) {
		// This system cannot wait for a pty with a deadline: the reader reads pending output at once.
		select {
		case <-t.drained:
		case <-time.After(200 * time.Millisecond):
		}
		t.report()
	}
}

// read reads all output until no process can write any more, and reports the end when the output is complete.
func (t *Terminal) read() {
	piece := make([]byte, 16<<10)
	for {
		n, err := t.master.Read(piece)
		if n > 0 {
			t.append(piece[:n])
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			_ = t.master.SetReadDeadline(time.Time{}) // fails if it was closed: the next read returns that
			t.drain(piece)
			<-t.dead
			t.report()
			continue
		}
		if err != nil { // EIO: the last process that had it open is gone; EOF on other systems; or it was closed
			break
		}
	}
	close(t.drained)
	<-t.dead
	t.report()
}

// readFailed ends the command after a panic of read: its output can no longer be read.
func (t *Terminal) readFailed(error) {
	t.end()
	if !closed(t.drained) {
		close(t.drained)
	}
	<-t.dead
	t.report()
}

// awaitFailed ends the command after a panic of await. Only await learns the status, which then stays zero.
func (t *Terminal) awaitFailed(error) {
	t.end()
	if !closed(t.dead) {
		close(t.dead)
	}
	_ = t.master.SetReadDeadline(time.Unix(1, 0))
}

// drain reads pending output and does not wait for more. The kernel moves written data to the readable buffer before it
// reports an empty buffer, so drain reads everything that an ended process wrote.
func (t *Terminal) drain(piece []byte) {
	conn, err := t.master.SyscallConn()
	if err != nil {
		return
	}
	for left := maxDrain; left > 0; {
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
		t.append(piece[:n])
		left -= n
	}
}

func (t *Terminal) append(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.raw.Write(p)
	t.screen.Write(p)
	if t.updated != nil {
		close(t.updated)
		t.updated = nil
	}
}

// report publishes the end. It may be called again.
func (t *Terminal) report() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if closed(t.exited) {
		return
	}
	t.screen.Finish()
	t.ended = time.Now()
	close(t.exited)
	if t.updated != nil {
		close(t.updated)
		t.updated = nil
	}
}

// end ends the whole tree, or joins an ending in progress.
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

// free releases the output's memory.
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
