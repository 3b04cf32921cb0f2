package display

import (
	"context"
	"io"
	"time"
	"unicode/utf8"

	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// How often, and how much, an editor is told of a terminal's output.
const (
	metadataEvery = 50 * time.Millisecond
	textEvery     = 500 * time.Millisecond
	maxPending    = 256 << 10 // bytes of output that wait for the front; the oldest go first
	maxText       = 64 << 10  // bytes of output in a block of text; the newest
)

// output is what a terminal wrote and the front has not seen, and its newest text. Guarded by the Display's mu.
type output struct {
	pending []byte
	dropped bool
	raw     []byte // the newest maxText bytes, for text blocks
	dirty   bool
	end     string
}

func (o *output) add(data []byte, metadata bool) {
	if metadata {
		o.pending = append(o.pending, data...)
		if n := len(o.pending) - maxPending; n > 0 {
			o.pending = append(o.pending[:0], o.pending[n:]...)
			o.dropped = true
		}
		return
	}
	o.raw = append(o.raw, data...)
	if n := len(o.raw) - 2*maxText; n > 0 {
		o.raw = append(o.raw[:0], o.raw[len(o.raw)-maxText:]...)
	}
	o.dirty = true
}

// take returns what is pending up to the last whole character; all of it if final.
func (o *output) take(final bool) string {
	b := o.pending
	n := len(b)
	if !final {
		n = wholeRunes(b)
	}
	start := 0
	if o.dropped {
		for start < n && start < utf8.UTFMax && !utf8.RuneStart(b[start]) {
			start++
		}
	}
	s := toValid(b[start:n])
	return s
}

func (o *output) took(final bool) {
	n := len(o.pending)
	if !final {
		n = wholeRunes(o.pending)
	}
	o.pending = append(o.pending[:0], o.pending[n:]...)
	o.dropped = false
}

// text is the newest output as plain text.
func (o *output) text() string { return plain(o.raw, maxText) }

// follow watches a terminal until its end and shows what it writes.
func (d *Display) follow(t *terminal) {
	conn, err := d.opts.Conn()
	if err != nil {
		d.finish(t, nil, "its handler cannot be reached")
		return
	}
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	stream, err := terminalv1.NewTerminalServiceClient(conn).Watch(ctx, &terminalv1.WatchRequest{Scope: t.scope, TerminalId: t.id})
	if err != nil {
		d.finish(t, nil, "its output cannot be watched")
		return
	}
	events := make(chan *terminalv1.WatchResponse)
	errs := make(chan error, 1)
	d.wg.Go(func() {
		for {
			ev, err := stream.Recv()
			if err != nil {
				errs <- err
				return
			}
			select {
			case events <- ev:
			case <-ctx.Done():
				errs <- ctx.Err()
				return
			}
		}
	})
	every := textEvery
	d.mu.Lock()
	if d.metadata {
		every = metadataEvery
	}
	d.mu.Unlock()
	// The first output is shown at once, what follows not more often than every so often.
	timer := time.NewTimer(0)
	defer timer.Stop()
	armed := true
	for {
		select {
		case ev := <-events:
			switch e := ev.GetEvent().(type) {
			case *terminalv1.WatchResponse_Data:
				d.mu.Lock()
				t.out.add(e.Data, d.metadata)
				d.mu.Unlock()
				if !armed {
					timer.Reset(every)
					armed = true
				}
			case *terminalv1.WatchResponse_DroppedBytes:
				d.mu.Lock()
				t.out.dropped = true
				d.mu.Unlock()
			case *terminalv1.WatchResponse_Exit:
				d.finish(t, e.Exit, "")
				return
			}
		case <-timer.C:
			armed = false
			if !d.show(t) {
				timer.Reset(every)
				armed = true
			}
		case err := <-errs:
			if d.ctx.Err() == nil {
				why := "its handler went away"
				if err == io.EOF {
					why = "its output ended"
				}
				d.finish(t, nil, why)
			}
			return
		}
	}
}

// show sends what is new, if the front's writer is idle; false asks to be called again.
func (d *Display) show(t *terminal) bool {
	d.mu.Lock()
	frames, n := d.frames(t, false)
	d.mu.Unlock()
	for _, f := range frames {
		if !d.opts.Sink.TrySend(f) {
			return false
		}
	}
	d.mu.Lock()
	if d.metadata {
		if n > 0 {
			t.out.took(false)
		}
	} else {
		t.out.dirty = false
	}
	d.mu.Unlock()
	return true
}

// frames builds the frames that bring the front up to date. d.mu is held. Metadata goes to one tool call that shows the
// terminal: a terminal has one output, wherever it stands.
func (d *Display) frames(t *terminal, final bool) (frames [][]byte, n int) {
	if d.metadata {
		data := t.out.take(final)
		if data == "" {
			return nil, 0
		}
		for _, c := range t.calls {
			return [][]byte{outputFrame(c.sessionID, c.id, t.id, data)}, len(data)
		}
		return nil, len(data)
	}
	if !t.out.dirty && !final {
		return nil, 0
	}
	for _, c := range t.calls {
		frames = append(frames, contentFrame(c.sessionID, c.id, d.content(c)))
	}
	return frames, 0
}

// finish sends the last output and the exit, for certain.
func (d *Display) finish(t *terminal, exit *terminalv1.ExitStatus, why string) {
	d.mu.Lock()
	t.out.end = status(exit)
	if exit == nil {
		t.out.end = why
	}
	frames, _ := d.frames(t, true)
	if d.metadata {
		t.out.took(true)
		for _, c := range t.calls {
			frames = append(frames, exitFrame(c.sessionID, c.id, t.id, exitCode(exit), exitSignal(exit)))
			break
		}
	}
	d.mu.Unlock()
	for _, f := range frames {
		if err := d.opts.Sink.Send(f); err != nil {
			d.opts.Logger.Debug("the front did not take a terminal's end", "terminal", t.id, "error", err)
			return
		}
	}
}

func exitCode(e *terminalv1.ExitStatus) []byte {
	if e == nil || e.ExitCode == nil {
		return []byte("null")
	}
	return []byte(itoa(e.GetExitCode()))
}

func exitSignal(e *terminalv1.ExitStatus) []byte {
	if e == nil || e.Signal == nil {
		return []byte("null")
	}
	return acp.Quote(e.GetSignal())
}

// wholeRunes returns how many bytes of b make whole characters: all but an incomplete last one.
func wholeRunes(b []byte) int {
	for i := 1; i <= utf8.UTFMax && i <= len(b); i++ {
		c := b[len(b)-i]
		if utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return len(b) - i
			}
			break
		}
	}
	return len(b)
}
