// Package transcript converts a session's journal to readable text: for a terminal, as Markdown, or as an HTML page.
//
// It shows the events that package event makes of the frames, and two things that no event has: the output of commands, and
// the gaps that the journal reports. It reads a journal as a stream and holds a few megabytes of it at most.
//
// The frames come from an agent and may be hostile. The package shows all that they hold, in a form that no terminal, browser
// or Markdown viewer obeys.
package transcript

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/event"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/journal"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// Entry is one thing that the journal of a session tells.
type Entry struct {
	// Time is when it passed.
	Time time.Time
	// Header: a file of the journal begins here.
	Header *journal.Header
	// Event is what happened. Its Gap says what the journal lacks.
	Event *supervisorv1.Event
	// Command is a command line that the agent had run: beside the event that answers the request, in the terminal below
	// if it was started.
	Command string
	// Terminal is the terminal that Command was started in, or that Output is of.
	Terminal string
	// Output is what a command wrote, a piece that follows the one before, or how it ended.
	Output *supervisorv1.WatchOutputResponse
}

// Reader tells what is in the entries of a session's journal. Not safe for concurrent use.
type Reader struct {
	session  string
	agent    frame.Agent
	decoder  *event.Decoder
	commands commands
	withheld withheld
	at       time.Time
	out      []Entry
}

// NewReader returns a Reader at the beginning of a session's first file.
func NewReader() *Reader {
	r := &Reader{}
	r.begin(&journal.Header{Content: true})
	return r
}

// begin begins with a file: what one supervisor saw of the session.
func (r *Reader) begin(h *journal.Header) {
	r.session = h.Session
	r.agent = frame.Agent{ID: h.AgentID, Name: h.Agent}
	r.decoder = event.NewDecoder(r.agent, nil)
	if h.LateUpdates { // older records have no frame that says when a turn's last update has passed
		r.decoder.HoldEnds()
	}
	r.commands = commands{}
	r.withheld = withheld{}
}

// Read returns what an entry tells: most often one thing or nothing. What it returns shares no memory with the entry.
func (r *Reader) Read(e *journal.Entry) []Entry {
	r.out = nil
	if e.Journal != nil {
		r.end()
	}
	r.at = e.Time
	switch {
	case e.Journal != nil:
		r.begin(e.Journal)
		r.tell(Entry{Header: e.Journal})
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

// Unread returns what to tell of a line that cannot be read.
func (r *Reader) Unread() []Entry {
	r.out = nil
	r.flush()
	r.gap(0, "a line of the record cannot be read")
	return r.out
}

// Close returns what was held back. More can be read afterwards.
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
		r.tell(o)
	}
}

// maxRefused is how many bytes are shown of a line that was refused.
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

// flush tells the pieces of a message whose content was not kept.
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
			r.tell(o)
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

// event tells an event, and what there is beside it in its frame.
func (r *Reader) event(ev *supervisorv1.Event, line []byte) {
	t := Entry{Event: ev}
	switch e := ev.GetEvent().(type) {
	case *supervisorv1.Event_CallStarted:
		r.commands.asked(e.CallStarted, line)
	case *supervisorv1.Event_CallEnded:
		var before []Entry
		t.Command, t.Terminal, before = r.commands.answered(e.CallEnded, line)
		r.tell(t)
		for _, o := range before {
			r.tell(o)
		}
		return
	case *supervisorv1.Event_TurnEnded:
		for _, o := range r.commands.finish() {
			r.tell(o)
		}
	}
	r.tell(t)
}

func (r *Reader) tell(t Entry) {
	t.Time = r.at
	if t.Event.GetTurnEnded() != nil { // it may have been held behind late updates
		t.Time = t.Event.GetTime().AsTime()
	}
	r.out = append(r.out, t)
}

// gap tells that something is missing.
func (r *Reader) gap(frames uint64, why string) {
	r.own(&supervisorv1.Event{Event: &supervisorv1.Event_Gap{Gap: &supervisorv1.Gap{Frames: frames, Reason: why}}})
}

// refused tells of a line that was seen and dropped.
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

// own tells an event that is no frame's.
func (r *Reader) own(ev *supervisorv1.Event) {
	ev.Time, ev.AgentId, ev.SessionId = timestamppb.New(r.at), r.agent.ID, r.session
	r.tell(Entry{Event: ev})
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05") }

// first is the beginning of a text, whole characters: n bytes, and "…" for the rest.
func first(s string, n int) string { return safetext.Cut(s, n+len("…")) }

// text is the string at a path of members.
func text(v []byte, path ...string) string {
	s, _ := acp.String(acp.Get(v, path...))
	return s
}
