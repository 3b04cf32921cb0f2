package link

import (
	"bytes"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/display"

	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

// GateName is the handler in frames of agent requests that the gate decides about. The request may be forwarded to the client later.
const GateName = "gate"

// RefusedName is the handler in frames of lines that are not forwarded, because they are no messages or can be read in two ways.
const RefusedName = "refused"

// see shows the observer a frame that was not scanned.
func (l *Link) see(d frame.Direction, handler string, line []byte, rest ...[]byte) {
	if l.opts.Observer != nil {
		f := frame.Frame{Direction: d, Handler: handler, Line: line, Rest: rest}
		l.assignParent(&f)
		l.opts.Observer.Frame(f)
	}
}

// seeMessage shows the observer a message that was scanned.
func (l *Link) seeMessage(d frame.Direction, handler string, m *jsonrpc.Message) {
	if l.opts.Observer != nil {
		l.opts.Observer.Frame(scanned(d, handler, m, m.Raw))
	}
}

func scanned(d frame.Direction, handler string, m *jsonrpc.Message, line []byte) frame.Frame {
	f := frame.Frame{Direction: d, Handler: handler, Line: line}
	fill(&f, m)
	return f
}

// fill sets the fields of a frame from its scanned message.
func fill(f *frame.Frame, m *jsonrpc.Message) {
	if f.Scanned = m.Kind != jsonrpc.KindInvalid && m.Kind != jsonrpc.KindBatch; f.Scanned {
		f.Method, f.ID, f.SessionID = m.Method, m.ID, m.SessionID
	} else {
		f.Method, f.ID, f.SessionID = nil, nil, nil
	}
}

// seen returns a function that shows the observer the lines that a run takes; nil: there is no observer. m is the current message of the
// run's owner.
func (l *Link) seen(d frame.Direction, m *jsonrpc.Message) func(line []byte, at time.Time) {
	if l.opts.Observer == nil {
		return nil
	}
	f := frame.Frame{Direction: d} // reused for each line, to copy it only once
	return func(line []byte, at time.Time) {
		f.Line, f.Time = line, at
		fill(&f, m)
		l.opts.Observer.Frame(f)
	}
}

// sendClient sends the client a line of the agent, after frames of acphost that introduce what the line shows.
func (l *Link) sendClient(bufs ...[]byte) error {
	l.seeShown(bufs)
	return l.toClient.Send(bufs...)
}

// seeShown shows the observer the frames that sendClient sends.
func (l *Link) seeShown(bufs [][]byte) {
	for i, b := range bufs {
		if i < len(bufs)-1 {
			l.see(frame.OursToClient, "", b)
		} else {
			l.see(frame.AgentToClient, "", b)
		}
	}
}

// observedSink shows the observer the frames of a display.
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
		s.l.see(frame.OursToClient, "", line)
	}
}
