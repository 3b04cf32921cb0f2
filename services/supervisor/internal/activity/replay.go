package activity

import (
	"context"
	"errors"
	"io"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/event"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/journal"
)

// replay tells a session's events from the files of the journal, in the order of the supervisors that wrote them. It can
// be asked again for what was written meanwhile.
type replay struct {
	*watched
	next int // of the parts
	from position

	// The part that is read.
	part    journal.Part
	reader  *journal.Reader
	decoder *event.Decoder
	agent   frame.Agent
	lines   uint64
	behind  bool // what comes is behind the cursor
	held    *journal.Entry
}

// seek has the replay begin behind a position; at the beginning, if there is none.
func (r *replay) seek(at position) error {
	r.from = at
	if at.seq == 0 {
		return nil
	}
	for i, part := range r.parts {
		if part.Header.Instance == at.instance {
			r.next = i
			return nil
		}
	}
	if r.port != nil && at.instance == r.hub.opts.Instance && at.seq <= r.hub.last() {
		r.next = len(r.parts) // nothing of it is recorded here
		return nil
	}
	return fault.New(fault.Invalid, "the cursor %q is not one of session %q, or what it is about is not recorded any more", at.text, r.session)
}

// flushed tells what is recorded up to a frame of this supervisor, once it is written.
func (r *replay) flushed(ctx context.Context, upTo uint64) error {
	if err := r.hub.journal.Flush(ctx); err != nil {
		return err
	}
	return r.tell(ctx, upTo)
}

// tell tells the recorded events; of this supervisor's own record, those of frames up to a number.
func (r *replay) tell(ctx context.Context, upTo uint64) error {
	for r.reader != nil || r.open() {
		for {
			if err := ctx.Err(); err != nil {
				return err
			}
			e, err := r.entry()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if r.own() && e.N > upTo {
				r.held = e
				return nil
			}
			if err := r.tellEntry(e); err != nil {
				return err
			}
		}
		if r.own() && r.next == len(r.parts) { // it may go on
			return nil
		}
		r.close()
	}
	return nil
}

// own: the part is this supervisor's.
func (r *replay) own() bool {
	return r.hub.grows(r.watched, r.part) == 1
}

// open begins with the next part that can be read; false: there is none.
func (r *replay) open() bool {
	for r.next < len(r.parts) {
		r.part = r.parts[r.next]
		r.next++
		reader, err := journal.OpenReader(r.part.Path, 0)
		if err != nil { // it is gone: too old
			r.hub.opts.Logger.Warn("a session is told without a part of its record", "file", r.part.Path, "error", err)
			continue
		}
		header := r.part.Header
		r.reader, r.lines, r.held = reader, 0, nil
		r.agent = frame.Agent{ID: header.AgentID, Name: header.Agent}
		r.behind = header.Instance != r.from.instance
		r.decoder = event.NewDecoder(r.agent, func(seq uint64) string { return cursorOf(header.Instance, seq) })
		return true
	}
	return false
}

func (r *replay) close() {
	if r.reader != nil {
		_ = r.reader.Close()
		r.reader = nil
	}
}

// entry is the next line of the part. One that cannot be read is an entry that says so.
func (r *replay) entry() (*journal.Entry, error) {
	if e := r.held; e != nil {
		r.held = nil
		return e, nil
	}
	e, err := r.reader.Next()
	r.lines++
	if _, bad := errors.AsType[*journal.LineError](err); bad {
		return &journal.Entry{Time: r.part.Started, Note: whyUnread}, nil
	}
	if errors.Is(err, io.EOF) {
		r.lines--
	}
	return e, err
}

// tellEntry tells what an entry of the journal says.
func (r *replay) tellEntry(e *journal.Entry) error {
	switch {
	case e.Journal != nil:
		if !e.Journal.Content && r.behind {
			return r.gap(0, whyNoContent, e.Time)
		}
		return nil
	case e.Dropped > 0:
		if !r.behind && e.N <= r.from.seq {
			return nil
		}
		return r.gap(e.Dropped, e.Why, e.Time)
	case e.Note != "":
		if !r.behind {
			return nil
		}
		return r.gap(0, e.Note, e.Time)
	}
	if e.N == 0 { // frames had no numbers once
		e.N = r.lines
	}
	if !r.behind && e.N < r.from.seq && pieceOf(e, r.session) {
		return nil
	}
	f := e.Observed(&r.agent)
	if f.Line == nil {
		return nil
	}
	events := r.decoder.Frame(f)
	if !r.behind && f.Seq >= r.from.seq {
		r.behind = true
		if f.Seq == r.from.seq {
			events = behindCursor(events, r.from.text)
		}
	} else if !r.behind {
		return nil
	}
	for _, ev := range events {
		if ev.GetSessionId() != r.session {
			continue
		}
		if err := r.send(ev); err != nil {
			return err
		}
	}
	return nil
}

// pieceOf reports whether a line is a piece of a message, which says nothing about what comes.
func pieceOf(e *journal.Entry, session string) bool {
	f := frame.Frame{
		Direction: frame.ParseDirection(e.Dir), Scanned: true, Method: []byte(e.Method), SessionID: []byte(session), Line: e.Frame,
	}
	return e.Method == acp.MethodSessionUpdate && plainChunk(&f)
}

// behindCursor are the events of a frame behind one of them.
func behindCursor(events []*supervisorv1.Event, cursor string) []*supervisorv1.Event {
	for i, ev := range events {
		if ev.GetCursor() == cursor {
			return events[i+1:]
		}
	}
	return nil
}

// missing tells which frames the record of this supervisor lacks. Frames behind upTo may still be told live.
func (r *replay) missing(upTo uint64) error {
	frames, last := r.hub.journal.Unwritten(r.port.id, r.session)
	switch {
	case frames == 0:
		return nil
	case last > upTo:
		frames = 0
	}
	return r.gap(frames, whyUnwritten, r.hub.opts.Now())
}

func (r *replay) gap(frames uint64, why string, at time.Time) error {
	agent := r.agent.ID
	if r.port != nil {
		agent = r.port.id
	}
	return r.send(gapEvent(agent, r.session, frames, why, at))
}
