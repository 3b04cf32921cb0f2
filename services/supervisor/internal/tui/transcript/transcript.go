// Package transcript converts a session's journal to readable text: for a terminal, as Markdown, or as an HTML page.
//
// It shows the events that package event creates from frames, and two kinds of entries without events: the output of
// commands, and the gaps that the journal reports. It reads a journal as a stream, and its memory is limited to a few
// megabytes.
//
// The frames come from an agent and are untrusted. The package shows their whole content, escaped for terminals,
// browsers and Markdown viewers.
package transcript

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// Entry is an entry of a session's journal in readable form.
type Entry struct {
	// Time is the time of the message.
	Time time.Time
	// Header is set at the beginning of a file of the journal.
	Header *journal.Header
	// Event is the event. Its Gap describes missing messages.
	Event *supervisorv1.Event
	// Command is a command line of the agent. It accompanies the event that answers the request, and Terminal is set if
	// the command was started.
	Command string
	// Terminal is the terminal of Command or of Output.
	Terminal string
	// Output is the next piece of a command's output, or its end.
	Output *supervisorv1.WatchOutputResponse
}

// Reader converts the entries of a session's journal. It is not safe for concurrent use.
type Reader struct {
	session  string
	agent    frame.Agent
	decoder  *event.Decoder
	commands commands
	withheld pieceCollector
	at       time.Time
	out      []Entry
}

// NewReader returns a Reader for the beginning of a session's first file.
func NewReader() *Reader {
	r := &Reader{}
	r.begin(&journal.Header{Content: true})
	return r
}

// begin begins a file, which one supervisor has written.
func (r *Reader) begin(h *journal.Header) {
	r.session = h.Session
	r.agent = frame.Agent{ID: h.AgentID, Name: h.Agent}
	r.decoder = event.NewDecoder(r.agent, nil)
	if h.LateUpdates { // older records have no frame for the end of a turn's late updates
		r.decoder.HoldEnds()
	}
	r.commands = commands{}
	r.withheld = pieceCollector{}
}

// Read converts an entry, usually to one entry or none. The result shares no memory with e.
func (r *Reader) Read(e *journal.Entry) []Entry {
	r.out = nil
	if e.Journal != nil {
		r.end()
	}
	r.at = e.Time
	switch {
	case e.Journal != nil:
		r.begin(e.Journal)
		r.add(Entry{Header: e.Journal})
		if !e.Journal.Content {
			r.gap(0, "the record has no content: of what passed it has methods, kinds and sizes")
		}
	case e.Dropped > 0:
		r.flush()
		r.gap(e.Dropped, fmt.Sprintf("%d bytes, from %s to %s UTC: %s", e.Bytes, clock(e.From), clock(e.To), e.Why))
	case e.Note != "":
		r.flush()
		r.gap(0, e.Note)
	case e.Dir != "":
		r.frame(e)
	}
	return r.out
}

// Unread returns the entries for a line that cannot be parsed.
func (r *Reader) Unread() []Entry {
	r.out = nil
	r.flush()
	r.gap(0, "a line of the record cannot be read")
	return r.out
}

// Close returns entries that were held back. Read may be called again afterwards.
func (r *Reader) Close() []Entry {
	r.out = nil
	r.end()
	return r.out
}

func (r *Reader) end() {
	r.flush()
	for _, ev := range r.decoder.Flush() {
		r.event(ev, nil)
	}
	for _, o := range r.commands.finish() {
		r.add(o)
	}
}

// maxRefused limits the bytes of a rejected line.
const maxRefused = 200

func (r *Reader) frame(e *journal.Entry) {
	f := e.Observed(&r.agent, r.session)
	kept := f.Line != nil
	switch {
	case event.Refused(&f):
		r.flush()
		r.refused(f.Direction, f.Line, e.Size)
		return
	case !kept && r.withheld.gathers(e):
		return
	case !kept:
		r.flush()
		f.Line = standIn(e, e.Size)
	default:
		r.flush()
	}
	r.events(&f, kept)
}

// flush adds the pieces of a message whose content was not recorded.
func (r *Reader) flush() {
	if e, size := r.withheld.take(); e != nil {
		f := e.Observed(&r.agent, r.session)
		f.Line = standIn(e, size)
		r.events(&f, false)
	}
}

func (r *Reader) events(f *frame.Frame, kept bool) {
	r.at = f.Time
	if f.Direction == frame.OursToClient && kept {
		for _, o := range r.commands.shown(f.Line) {
			r.add(o)
		}
	}
	for _, ev := range r.decoder.Frame(*f) {
		if r.session != "" && ev.GetSessionId() != r.session {
			continue
		}
		if !kept {
			unknown(ev)
		}
		r.event(ev, f.Line)
	}
}

// event adds an event, and the other entries of its frame.
func (r *Reader) event(ev *supervisorv1.Event, line []byte) {
	t := Entry{Event: ev}
	switch e := ev.GetEvent().(type) {
	case *supervisorv1.Event_CallStarted:
		r.commands.asked(e.CallStarted, line)
	case *supervisorv1.Event_CallEnded:
		var before []Entry
		t.Command, t.Terminal, before = r.commands.answered(e.CallEnded, line)
		r.add(t)
		for _, o := range before {
			r.add(o)
		}
		return
	case *supervisorv1.Event_TurnEnded:
		for _, o := range r.commands.finish() {
			r.add(o)
		}
	}
	r.add(t)
}

func (r *Reader) add(t Entry) {
	t.Time = r.at
	if t.Event.GetTurnEnded() != nil { // it may have been delayed by late updates
		t.Time = t.Event.GetTime().AsTime()
	}
	r.out = append(r.out, t)
}

// gap adds an entry for missing messages.
func (r *Reader) gap(frames uint64, why string) {
	r.own(&supervisorv1.Event{Event: &supervisorv1.Event_Gap{Gap: &supervisorv1.Gap{Frames: frames, Reason: why}}})
}

// refused adds an entry for a line that was discarded.
func (r *Reader) refused(d frame.Direction, line []byte, size uint64) {
	n := &supervisorv1.Notice{Severity: "warning", FromAcphost: true}
	from := "the agent"
	if d == frame.ClientToAgent {
		from = "the client"
	}
	if line != nil {
		size = uint64(len(line))
		n.Description = first(string(line), maxRefused)
	}
	n.Title = fmt.Sprintf("a line of %d bytes from %s was refused", size, from)
	r.own(&supervisorv1.Event{Event: &supervisorv1.Event_Notice{Notice: n}})
}

// own adds an event without a frame.
func (r *Reader) own(ev *supervisorv1.Event) {
	ev.Time, ev.AgentId, ev.SessionId = timestamppb.New(r.at), r.agent.ID, r.session
	r.add(Entry{Event: ev})
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05") }

// first returns the first n bytes of a text, in whole characters, and "…" for the rest.
func first(s string, n int) string { return safetext.Cut(s, n+len("…")) }

// text returns the string at a path of members.
func text(v []byte, path ...string) string {
	s, _ := acp.String(acp.Get(v, path...))
	return s
}
