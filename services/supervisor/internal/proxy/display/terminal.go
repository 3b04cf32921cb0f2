package display

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/escape"
	"github.com/acphost/acphost/internal/panics"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// How much of a terminal's output is kept here, in bytes; the newest.
const (
	keepMetadata = 256 << 10 // of what the client has not seen
	keepText     = 128 << 10 // to make text of
)

// terminal is one that a handler made.
type terminal struct {
	id, scope, sessionID, cwd string

	// Guarded by the Display's mu.
	introduced bool // the client knows the id
	watched    bool
	out        output
	over       bool // no more output comes
	exit       *terminalv1.ExitStatus
	end        string             // how it ended, for people
	owed       map[*show]struct{} // what has not shown its end yet
	late       bool               // somebody has waited for its end for long enough
}

// watch follows a terminal's output from its beginning to its end, once. d.mu is held.
func (d *Display) watch(t *terminal) {
	if t.watched || d.closed {
		return
	}
	t.watched = true
	t.out.keep = keepText
	if d.metadata {
		t.out.keep = keepMetadata
	}
	d.wg.Go(func() {
		var exit *terminalv1.ExitStatus
		err := panics.Catch(d.opts.Logger, "showing a terminal", func() (err error) {
			exit, err = d.receive(t)
			return err
		})
		if d.ctx.Err() != nil {
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		t.over, t.exit = true, exit
		t.end = howItEnded(exit)
		if err != nil {
			t.end = lostBecause(err)
			d.opts.Logger.Debug("a terminal cannot be shown to its end", "terminal", t.id, "error", err)
			if t.introduced {
				t.out.add([]byte("\r\n[acphost: " + t.end + "]\r\n"))
			}
		}
		t.wake()
		if !d.metadata {
			d.keepEnded(t)
		}
	})
}

// receive takes a terminal's output until its exit.
func (d *Display) receive(t *terminal) (*terminalv1.ExitStatus, error) {
	conn, err := d.opts.Conn(t.sessionID)
	if err != nil {
		return nil, fmt.Errorf("watch terminal %s: %w", t.id, err)
	}
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	stream, err := terminalv1.NewTerminalServiceClient(conn).Watch(ctx, &terminalv1.WatchRequest{Scope: t.scope, TerminalId: t.id})
	if err != nil {
		return nil, fmt.Errorf("watch terminal %s: %w", t.id, err)
	}
	for {
		ev, err := stream.Recv()
		if err != nil {
			return nil, fmt.Errorf("watch terminal %s: %w", t.id, err)
		}
		var data []byte
		switch e := ev.GetEvent().(type) {
		case *terminalv1.WatchResponse_Data:
			data = e.Data
		case *terminalv1.WatchResponse_DroppedBytes:
			data = []byte(missing(e.DroppedBytes))
		case *terminalv1.WatchResponse_Exit:
			return e.Exit, nil
		}
		d.mu.Lock()
		t.out.add(data)
		t.wake()
		d.mu.Unlock()
	}
}

// wake tells all that show the terminal that there is something new. The Display's mu is held.
func (t *terminal) wake() {
	for s := range t.owed {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// lostBecause says in words for a person why there is no more of a terminal.
func lostBecause(err error) string {
	switch code := status.Code(err); {
	case errors.Is(err, io.EOF):
		return "the output of this terminal broke off"
	case code == codes.Unimplemented:
		return "the terminal handler does not show what its terminals write"
	case code == codes.NotFound:
		return "the output of this terminal is no longer available"
	}
	return "the terminal handler went away"
}

// howItEnded names an exit for a person.
func howItEnded(e *terminalv1.ExitStatus) string {
	switch {
	case e != nil && e.Signal != nil:
		return "ended by " + e.GetSignal()
	case e != nil && e.ExitCode != nil:
		return "exit code " + strconv.FormatUint(uint64(e.GetExitCode()), 10)
	}
	return "ended"
}

// missing stands in the output where bytes are not shown.
func missing(n uint64) string {
	return "\r\n[acphost: " + strconv.FormatUint(n, 10) + " bytes of output are not shown here]\r\n"
}

// output is the newest of what a terminal wrote.
type output struct {
	keep int    // how many bytes are kept
	buf  []byte // what is kept
	base uint64 // how many bytes came before buf
}

// total is how many bytes came in all.
func (o *output) total() uint64 { return o.base + uint64(len(o.buf)) }

func (o *output) add(data []byte) {
	o.buf = append(o.buf, data...)
	if n := len(o.buf) - o.keep; n > o.keep/4 {
		o.discard(o.base + uint64(n))
	}
}

// discard drops all up to a position in the stream.
func (o *output) discard(upto uint64) {
	if upto <= o.base {
		return
	}
	rest := o.buf[min(upto-o.base, uint64(len(o.buf))):]
	o.base = o.total() - uint64(len(rest))
	switch {
	case len(rest) == 0 && cap(o.buf) > 4096:
		o.buf = nil // a terminal that says nothing for now holds nothing
	default:
		o.buf = append(o.buf[:0], rest...)
	}
}

// after returns what came after a position in the stream: whole characters alone, unless it is the last of it. upto is
// the position to go on from.
func (o *output) after(seen uint64, last bool) (data string, upto uint64) {
	from := max(seen, o.base)
	b := o.buf[from-o.base:]
	n := len(b)
	if !last {
		n = escape.WholeRunes(b)
	}
	upto = from + uint64(n)
	b = b[:n]
	if from == seen {
		return string(b), upto
	}
	cut := afterCut(b)
	return missing(from-seen+uint64(len(b)-len(cut))) + string(cut), upto
}

// pending reports whether after would return anything.
func (o *output) pending(seen uint64) bool {
	from := max(seen, o.base)
	return escape.WholeRunes(o.buf[from-o.base:]) > 0
}

// afterCut drops the rest of a character that b may begin with, because what came before it was dropped.
func afterCut(b []byte) []byte {
	for i := 0; i < utf8.UTFMax && i < len(b); i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}
