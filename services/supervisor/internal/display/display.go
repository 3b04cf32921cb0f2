// Package display shows the terminals that a handler runs to a front that did not make them.
//
// A front cannot show a terminal id that it does not know, and may refuse the whole update. So before the first line
// that mentions one of our terminals, the front is introduced to it, and from then on it gets the output: as terminal
// metadata where it advertised terminal_output, else as a block of text in the terminal's place.
//
// The frames made here are extra: they are coalesced, sent when nobody else writes, and never queued; only the end of a
// terminal is sent for certain. The package knows the shape of updates, not who routes or decides.
package display

import (
	"context"
	"log/slog"
	"sync"

	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"google.golang.org/grpc"
)

// idPrefix marks the terminal ids that acphost's own terminal daemon mints, so that one of a session long gone is known
// for what it is.
const idPrefix = "acphost-"

// Sink takes frames for the front.
type Sink interface {
	// TrySend sends if nobody is writing or waiting to; else it sends nothing and returns false.
	TrySend(frame []byte) bool
	// Send blocks until the frame is written.
	Send(bufs ...[]byte) error
}

// Options say what a Display works with.
type Options struct {
	Sink Sink
	// Conn reaches the terminal handler.
	Conn   func() (grpc.ClientConnInterface, error)
	Logger *slog.Logger
}

// Display shows the terminals of one agent. Safe for concurrent use; what passes is expected in wire order.
type Display struct {
	opts   Options
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu        sync.Mutex
	metadata  bool // the front shows terminals by metadata
	closed    bool
	terminals map[string]*terminal
}

// terminal is one terminal that was made here.
type terminal struct {
	id, scope, sessionID, cwd string

	// Guarded by the Display's mu.
	calls   map[string]*call // tool calls that show it, by id
	watched bool
	out     output
	// ended is closed when the front has been told of the exit, or nothing more can be told.
	ended chan struct{}
}

// call is a tool call that shows a terminal.
type call struct {
	sessionID, id string
	// items are the content's raw items, in place of terminals the ids alone.
	items []acp.ContentItem
}

// New returns a Display; Close ends it.
func New(o Options) *Display {
	ctx, cancel := context.WithCancel(context.Background())
	return &Display{opts: o, ctx: ctx, cancel: cancel, terminals: map[string]*terminal{}}
}

// Front says what the front can show, once it is known.
func (d *Display) Front(terminalOutput bool) {
	d.mu.Lock()
	d.metadata = terminalOutput
	d.mu.Unlock()
}

// Created tells of a terminal that a handler made for a session.
func (d *Display) Created(sessionID, scope, id, cwd string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.terminals[id] != nil {
		return
	}
	d.prune()
	d.terminals[id] = &terminal{
		id: id, scope: scope, sessionID: sessionID, cwd: cwd,
		calls: map[string]*call{}, ended: make(chan struct{}),
	}
}

// maxTerminals bounds what is remembered of terminals that nobody shows.
const maxTerminals = 8192

// prune forgets terminals that have ended or were never shown, when there are too many. d.mu is held.
func (d *Display) prune() {
	if len(d.terminals) < maxTerminals {
		return
	}
	for id, t := range d.terminals {
		select {
		case <-t.ended:
			delete(d.terminals, id)
		default:
			if !t.watched {
				delete(d.terminals, id)
			}
		}
	}
}

// Settle waits until the front has the last output and the exit of a terminal that it is shown; at once for every
// other. It is called before the agent is told of the exit, and gives up when ctx is done.
func (d *Display) Settle(ctx context.Context, id string) {
	d.mu.Lock()
	t := d.terminals[id]
	shown := t != nil && t.watched
	d.mu.Unlock()
	if !shown {
		return
	}
	select {
	case <-t.ended:
	case <-ctx.Done():
	case <-d.ctx.Done():
	}
}

// Close ends all watching and waits for it. Safe to call twice.
func (d *Display) Close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.cancel()
	d.wg.Wait()
}

// watch starts to follow a terminal's output. d.mu is held.
func (d *Display) watch(t *terminal) {
	if t.watched || d.closed {
		return
	}
	t.watched = true
	d.wg.Go(func() {
		defer close(t.ended)
		d.follow(t)
	})
}

// status names how a terminal ended, for people.
func status(e *terminalv1.ExitStatus) string {
	switch {
	case e == nil:
		return ""
	case e.Signal != nil:
		return "ended by " + e.GetSignal()
	default:
		return "exit code " + itoa(e.GetExitCode())
	}
}
