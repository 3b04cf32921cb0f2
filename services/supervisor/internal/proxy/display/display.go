// Package display shows a handler's terminals to a client.
//
// A client did not make these terminals. It cannot show an id that it does not know, and may refuse an update that contains
// one. So the package introduces a terminal to the client before the first line that mentions it. From then on the client gets
// the output: as terminal metadata if it advertised terminal_output, else as text in the terminal's place.
//
// These frames are extra. They are made from the output that has gathered when nobody else writes to the client, and are never
// queued. Only the end of a terminal is waited for.
//
// The package knows the shape of tool calls, and how a terminal is watched. It must not know routes or decisions.
package display

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/panics"
)

// idPrefix begins the terminal ids that acphost's terminal handlers mint, so that one of a session long gone is known
// for what it is.
const idPrefix = "acphost-"

// Bounds on what is remembered.
const (
	// maxTerminals is how many terminals are known at once; of more, the oldest that are not being shown go.
	maxTerminals = 8192
	// maxEndedOutput bounds the bytes of output that ended terminals keep, for a client that gets text and may be shown
	// them again.
	maxEndedOutput = 16 << 20
	// maxContent bounds the bytes of tool call content that is kept to be repeated around a terminal's text.
	maxContent = 32 << 20
	// maxTexts is how many tool calls are kept up to date with text at once.
	maxTexts = 256
)

// closePatience is how long Close waits for a frame that the client does not take.
const closePatience = 2 * time.Second

// Sink takes frames for the client. A frame is one line or several.
type Sink interface {
	// TrySend sends if nobody is writing or waiting to; else it sends nothing and returns false.
	TrySend(frame []byte) bool
	// Send blocks until the frame is written.
	Send(bufs ...[]byte) error
}

// Options say what a Display works with.
type Options struct {
	Sink Sink
	// Conn reaches the terminal handler of a session, or says at once why it cannot be reached.
	Conn   func(sessionID string) (grpc.ClientConnInterface, error)
	Logger *slog.Logger
}

// Display shows the terminals of one agent. Safe for concurrent use.
type Display struct {
	opts   Options
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// order is held while something about terminals is on its way to the client, so that no output overtakes the line
	// that introduces its terminal, and no older text follows a content that replaced it. It is taken before mu.
	order sync.Mutex

	mu        sync.Mutex // guards what follows and what says so; never held while writing
	metadata  bool       // the client shows terminals by metadata
	closed    bool
	terminals map[string]*terminal // by id
	ids       []string             // of terminals, oldest first
	ended     []*terminal          // those that keep output, in the order in which they ended
	endedSize int
	texts     map[callKey]*show // the tool calls whose content holds text of ours that still changes
	textsSize int
	progress  chan struct{} // closed and made anew whenever a terminal's end was shown or is not owed any more
}

// callKey names a tool call among those of all sessions.
type callKey struct{ sessionID, callID string }

// New returns a Display; Close ends it.
func New(o Options) *Display {
	ctx, cancel := context.WithCancel(context.Background())
	return &Display{
		opts: o, ctx: ctx, cancel: cancel,
		terminals: map[string]*terminal{}, texts: map[callKey]*show{}, progress: make(chan struct{}),
	}
}

// Client says what the client can show, once it is known: terminalOutput is what it advertised as
// clientCapabilities._meta.terminal_output.
func (d *Display) Client(terminalOutput bool) {
	d.mu.Lock()
	d.metadata = terminalOutput
	d.mu.Unlock()
}

// Created tells of a terminal that a handler made for a session, before the agent learns of its id.
func (d *Display) Created(sessionID, scope, id, cwd string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.terminals[id] != nil {
		return
	}
	if len(d.ids) >= maxTerminals {
		d.forgetOldest()
	}
	d.terminals[id] = &terminal{id: id, scope: scope, sessionID: sessionID, cwd: cwd, owed: map[*show]struct{}{}}
	d.ids = append(d.ids, id)
}

// AwaitShown waits until the client has the last output and the exit of a terminal that it is being shown; for every other
// it returns at once. It is called before the agent is told of the exit, and gives up when ctx is done: after a deadline
// has passed, further calls for the terminal do not wait again.
func (d *Display) AwaitShown(ctx context.Context, id string) {
	for {
		d.mu.Lock()
		t := d.terminals[id]
		if t == nil || t.late || len(t.owed) == 0 {
			d.mu.Unlock()
			return
		}
		progress := d.progress
		d.mu.Unlock()
		select {
		case <-progress:
		case <-d.ctx.Done():
			return
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				d.mu.Lock()
				t.late = true
				d.mu.Unlock()
			}
			return
		}
	}
}

// Close ends all showing and waits for it; of a write that the client does not take it waits for two seconds, and leaves
// it to end with the stream. Safe to call twice.
func (d *Display) Close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer panics.Recover(d.opts.Logger, "waiting for terminals that are shown")
		d.wg.Wait()
	}()
	timer := time.NewTimer(closePatience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		d.opts.Logger.Debug("the client did not take a terminal's output before the end")
	}
}

// known returns a terminal that may be shown in a session. foreign is true for an id that none of ours has: it is the
// agent's or the client's own. Neither: it was one of ours, and cannot be shown here. d.mu is held.
func (d *Display) known(sessionID, id string) (t *terminal, foreign bool) {
	t = d.terminals[id]
	if t == nil {
		return nil, !strings.HasPrefix(id, idPrefix)
	}
	if t.sessionID != sessionID {
		return nil, false
	}
	return t, false
}

// forgetOldest makes room for a terminal. Those that are being watched stay: handlers bound how many can run. d.mu is
// held.
func (d *Display) forgetOldest() {
	for i, id := range d.ids {
		if t := d.terminals[id]; !t.watched || t.over && len(t.owed) == 0 {
			delete(d.terminals, id)
			d.ids = slices.Delete(d.ids, i, i+1)
			return
		}
	}
}

// keepEnded bounds what ended terminals keep: the first that ended go, and are not known any more. d.mu is held.
func (d *Display) keepEnded(t *terminal) {
	d.ended = append(d.ended, t)
	d.endedSize += len(t.out.buf)
	for d.endedSize > maxEndedOutput {
		old := d.ended[0]
		d.ended = d.ended[1:]
		d.endedSize -= len(old.out.buf)
		if d.terminals[old.id] == old {
			delete(d.terminals, old.id)
			if i := slices.Index(d.ids, old.id); i >= 0 {
				d.ids = slices.Delete(d.ids, i, i+1)
			}
		}
	}
}

// endShown notes that a show has shown the end of a terminal, or need not any more. d.mu is held.
func (d *Display) endShown(s *show, t *terminal) {
	delete(t.owed, s)
	close(d.progress)
	d.progress = make(chan struct{})
}
