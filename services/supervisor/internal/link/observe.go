package link

import (
	"bytes"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/display"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"

	"github.com/acphost/acphost/services/supervisor/internal/frame"
)

// GateName stands for a handler where the gate has a call of the agent's: it is decided there, and may go on to the front.
const GateName = "gate"

// RefusedName stands for a handler where a line reaches nobody, since it is no message or can be read in two ways.
const RefusedName = "refused"

// see tells the observer of a frame of which nothing is known yet.
func (l *Link) see(d frame.Direction, handler string, line []byte, rest ...[]byte) {
	if l.opts.Observer != nil {
		l.opts.Observer.Frame(frame.Frame{Direction: d, Handler: handler, Line: line, Rest: rest})
	}
}

// seeMessage tells the observer of a message that was scanned.
func (l *Link) seeMessage(d frame.Direction, handler string, m *jsonrpc.Message) {
	if l.opts.Observer != nil {
		l.opts.Observer.Frame(scanned(d, handler, m, m.Raw))
	}
}

func scanned(d frame.Direction, handler string, m *jsonrpc.Message, line []byte) frame.Frame {
	f := frame.Frame{Direction: d, Handler: handler, Line: line}
	if m.Kind != jsonrpc.KindInvalid && m.Kind != jsonrpc.KindBatch {
		f.Scanned, f.Method, f.ID, f.SessionID = true, m.Method, m.ID, m.SessionID
	}
	return f
}

// seen returns what tells the observer of the lines that a run takes; nil if there is none. m is the message that the run's
// owner is at.
func (l *Link) seen(d frame.Direction, m *jsonrpc.Message) func(line []byte, at time.Time) {
	if l.opts.Observer == nil {
		return nil
	}
	return func(line []byte, at time.Time) {
		f := scanned(d, "", m, line)
		f.Time = at
		l.opts.Observer.Frame(f)
	}
}

// sendFront sends the front a line of the agent's, after frames of ours that introduce what it shows.
func (l *Link) sendFront(bufs ...[]byte) error {
	l.seeShown(bufs)
	return l.toFront.Send(bufs...)
}

// seeShown tells the observer of what sendFront sends.
func (l *Link) seeShown(bufs [][]byte) {
	for i, b := range bufs {
		if i < len(bufs)-1 {
			l.see(frame.OursToFront, "", b)
		} else {
			l.see(frame.AgentToFront, "", b)
		}
	}
}

// observedSink tells the observer of what a display shows.
type observedSink struct {
	display.Sink
	l *Link
}

func (s observedSink) TrySend(lines []byte) bool {
	sent := s.Sink.TrySend(lines)
	if sent {
		s.lines(lines)
	}
	return sent
}

func (s observedSink) Send(bufs ...[]byte) error {
	for _, b := range bufs {
		s.lines(b)
	}
	return s.Sink.Send(bufs...)
}

func (s observedSink) lines(lines []byte) {
	for line := range bytes.Lines(lines) {
		s.l.see(frame.OursToFront, "", line)
	}
}
