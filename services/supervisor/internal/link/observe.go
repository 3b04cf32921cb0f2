package link

import (
	"bytes"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/display"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// Direction says where a frame came from and where it goes.
type Direction uint8

// The directions. "Ours" is the link itself: what it says in its own name, and the answers to its own questions.
const (
	AgentToFront Direction = iota + 1
	FrontToAgent
	AgentToHandler
	HandlerToAgent
	OursToFront
	OursToAgent
	FrontToOurs
)

// GateName stands for a handler where the gate has a call of the agent's: it is decided there, and may go on to the front.
const GateName = "gate"

// Frame is a message that passes.
type Frame struct {
	// Time is when it was taken up; zero: now.
	Time      time.Time
	Direction Direction
	// Handler is whom a request goes to, or an answer comes from.
	Handler string
	// Scanned: Line is known to be JSON, and what follows is what it has of it.
	Scanned               bool
	Method, ID, SessionID []byte
	// Line is the frame; Rest are further pieces of it, or whole lines that go with it.
	Line []byte
	Rest [][]byte
}

// Observer sees what passes: every frame once where it is taken up and goes on unchanged, and once for each part of its way
// where it does not. A frame is seen before it is written, those of one sender in the order in which they came.
type Observer interface {
	// Frame is called by whoever passes the frame on, so it must not wait for anything. The bytes are lent for the call.
	Frame(f Frame)
}

// see tells the observer of a frame of which nothing is known yet.
func (l *Link) see(d Direction, handler string, line []byte, rest ...[]byte) {
	if l.opts.Observer != nil {
		l.opts.Observer.Frame(Frame{Direction: d, Handler: handler, Line: line, Rest: rest})
	}
}

// seeMessage tells the observer of a message that was scanned.
func (l *Link) seeMessage(d Direction, handler string, m *jsonrpc.Message) {
	if l.opts.Observer != nil {
		l.opts.Observer.Frame(scanned(d, handler, m, m.Raw))
	}
}

func scanned(d Direction, handler string, m *jsonrpc.Message, line []byte) Frame {
	f := Frame{Direction: d, Handler: handler, Line: line}
	if m.Kind != jsonrpc.KindInvalid && m.Kind != jsonrpc.KindBatch {
		f.Scanned, f.Method, f.ID, f.SessionID = true, m.Method, m.ID, m.SessionID
	}
	return f
}

// seen returns what tells the observer of the lines that a run takes; nil if there is none. m is the message that the run's
// owner is at.
func (l *Link) seen(d Direction, m *jsonrpc.Message) func(line []byte, at time.Time) {
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

// sendLine sends the front a line of the agent's.
func (l *Link) sendLine(line []byte) error { return l.sendFront(line) }

// seeShown tells the observer of what sendFront sends.
func (l *Link) seeShown(bufs [][]byte) {
	for i, b := range bufs {
		if i < len(bufs)-1 {
			l.see(OursToFront, "", b)
		} else {
			l.see(AgentToFront, "", b)
		}
	}
}

// observedSink tells the observer of what a display shows.
type observedSink struct {
	display.Sink
	l *Link
}

func (s observedSink) TrySend(frame []byte) bool {
	sent := s.Sink.TrySend(frame)
	if sent {
		s.lines(frame)
	}
	return sent
}

func (s observedSink) Send(bufs ...[]byte) error {
	for _, b := range bufs {
		s.lines(b)
	}
	return s.Sink.Send(bufs...)
}

func (s observedSink) lines(frame []byte) {
	for line := range bytes.Lines(frame) {
		s.l.see(OursToFront, "", line)
	}
}
