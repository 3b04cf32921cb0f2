// Package replay returns the recorded events of a session, with the cursors and in the order of the live events.
//
// It reads the files of the journal. It must not know the receivers of events, or whether a supervisor runs.
package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
)

// Reasons for missing events.
const (
	whyNoContent = "the record has no content"
	whyUnread    = "a line of the record cannot be read"
)

// Session reads the events of a session from its files, in the order of the supervisors that wrote them. Later calls
// return events that were written meanwhile. It is not safe for concurrent use.
type Session struct {
	// ID is the id of the session.
	ID string
	// Parts are its files. Only the last one may grow.
	Parts []journal.Part
	// Own is the instance of the supervisor whose part may grow, or empty if no part grows.
	Own string
	// Agent is the id of the agent in events about gaps. Empty means the agent of the part.
	Agent string
	// Send receives the events. An error of it ends the call.
	Send func(*supervisorv1.Event) error
	// Logger receives warnings about missing files.
	Logger *slog.Logger

	next int // index in Parts
	from Position

	// The current part.
	part        journal.Part
	reader      *journal.Reader
	decoder     *event.Decoder
	agent       frame.Agent
	lines       uint64
	afterCursor bool // the following events are after the cursor
	pending     *journal.Entry
}

// Recorded sends the events of a session in the journals of a folder. It does not need a running supervisor.
func Recorded(
	ctx context.Context, dir string, req *supervisorv1.WatchSessionRequest, send func(*supervisorv1.Event) error,
) error {
	at, err := Begin(req)
	if err != nil {
		return err
	}
	parts, err := Parts(dir, req.GetSessionId())
	if err != nil {
		return err
	}
	if agent := req.GetAgentId(); agent != "" {
		parts = slices.DeleteFunc(parts, func(p journal.Part) bool {
			return p.Header.Agent != agent && p.Header.AgentID != agent
		})
	}
	names := map[string]bool{}
	for _, p := range parts {
		names[p.Header.Agent] = true
	}
	if len(names) == 1 {
		parts = OneSession(parts, at)
	}
	switch {
	case len(parts) == 0:
		return NotFound(req.GetSessionId())
	case len(names) > 1:
		return Ambiguous(req.GetSessionId(), names)
	case req.GetCursor() == Now:
		return nil
	}
	s := &Session{ID: req.GetSessionId(), Parts: parts, Send: send, Logger: slog.New(slog.DiscardHandler)}
	defer s.Close()
	if err := s.Seek(at, 0); err != nil {
		return err
	}
	return s.Replay(ctx, ^uint64(0))
}

// Parts returns the files of a session in a folder.
func Parts(dir, session string) ([]journal.Part, error) {
	parts, err := journal.Parts(dir, session)
	if err != nil {
		return nil, fmt.Errorf("look for session %q in the record: %w", session, err)
	}
	return parts, nil
}

// OneSession returns those of parts that belong to one session. parts were written by one agent under one session id.
// Agents may use an id again after a restart, so that several sessions have the same id. The result is the session that
// at belongs to, or the last one.
func OneSession(parts []journal.Part, at Position) []journal.Part {
	from, found := 0, false
	for i, p := range parts {
		if p.New && i > 0 {
			if found {
				return parts[from:i]
			}
			from = i
		}
		found = found || at.Seq != 0 && p.Header.Instance == at.Instance
	}
	return parts[from:]
}

// NotFound returns the error for a missing session.
func NotFound(session string) error {
	return fault.New(fault.NotFound, "there is no session %q here, and none in the record", session)
}

// Ambiguous returns the error for a session id that several agents have used.
func Ambiguous(session string, agents map[string]bool) error {
	return fault.New(fault.Invalid, "several agents have a session %q; select one: %s",
		session, strings.Join(slices.Sorted(maps.Keys(agents)), ", "))
}

// Gap returns the event for missing events.
func Gap(agentID, sessionID string, frames uint64, why string, at time.Time) *supervisorv1.Event {
	return &supervisorv1.Event{
		AgentId: agentID, SessionId: sessionID, Time: timestamppb.New(at),
		Event: &supervisorv1.Event_Gap{Gap: &supervisorv1.Gap{Frames: frames, Reason: why}},
	}
}

// Seek sets the position after which events are sent. A zero position means the beginning. A position without a text
// belongs to no event; the supervisor uses it to begin there. last is the number of the last frame of the supervisor
// whose part may grow.
func (r *Session) Seek(at Position, last uint64) error {
	r.from = at
	if at.Seq == 0 {
		return nil
	}
	for i, part := range r.Parts {
		if part.Header.Instance == at.Instance {
			r.next = i
			return nil
		}
	}
	if r.Own != "" && at.Instance == r.Own && at.Seq <= last {
		r.next = len(r.Parts) // its events are not recorded here
		return nil
	}
	return fault.New(fault.Invalid, "the cursor %q is not one of session %q, or what it is about is not recorded any more",
		at.Text, r.ID)
}

// Replay sends the recorded events. Of the part that may grow, it sends only events of frames up to the number upTo.
func (r *Session) Replay(ctx context.Context, upTo uint64) error {
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
				r.pending = e
				return nil
			}
			if err := r.sendEntry(e); err != nil {
				return err
			}
		}
		if r.own() && r.next == len(r.Parts) { // it may grow
			return nil
		}
		if err := r.sendEvents(r.decoder.Flush()); err != nil {
			return err
		}
		r.Close()
	}
	return nil
}

// own reports whether the part may grow.
func (r *Session) own() bool { return r.Own != "" && r.part.Header.Instance == r.Own }

// open opens the next readable part. It returns false if none exists.
func (r *Session) open() bool {
	for r.next < len(r.Parts) {
		r.part = r.Parts[r.next]
		r.next++
		reader, err := journal.OpenReader(r.part.Path, 0)
		if err != nil { // it was removed because of its age
			r.Logger.Warn("a session is replayed without a part of its record", "file", r.part.Path, "error", err)
			continue
		}
		header := r.part.Header
		r.reader, r.lines, r.pending = reader, 0, nil
		r.agent = frame.Agent{ID: header.AgentID, Name: header.Agent}
		r.afterCursor = header.Instance != r.from.Instance
		r.decoder = event.NewDecoder(r.agent, func(seq uint64) string { return Cursor(header.Instance, seq) })
		if header.LateUpdates { // older versions ended turns with the answers to their prompts
			r.decoder.HoldEnds()
		}
		return true
	}
	return false
}

// Close closes the current part.
func (r *Session) Close() {
	if r.reader != nil {
		_ = r.reader.Close()
		r.reader = nil
	}
}

// entry returns the next line of the part. An unreadable line is returned as an entry that reports it.
func (r *Session) entry() (*journal.Entry, error) {
	if e := r.pending; e != nil {
		r.pending = nil
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

// sendEntry sends the events of a journal entry.
func (r *Session) sendEntry(e *journal.Entry) error {
	switch {
	case e.Journal != nil:
		if !e.Journal.Content && (r.afterCursor || r.from.Text == "") {
			return r.gap(0, whyNoContent, e.Time)
		}
		return nil
	case e.Dropped > 0:
		if !r.afterCursor && e.N <= r.from.Seq {
			return nil
		}
		return r.gap(e.Dropped, e.Why, e.Time)
	case e.Note != "":
		if !r.afterCursor {
			return nil
		}
		return r.gap(0, e.Note, e.Time)
	}
	if e.N == 0 { // older versions did not number frames
		e.N = r.lines
	}
	if !r.afterCursor && e.N < r.from.Seq && pieceOf(e) {
		return nil
	}
	f := e.Observed(&r.agent, r.ID)
	if f.Line == nil {
		return nil
	}
	events := r.decoder.Frame(f)
	if !r.afterCursor && f.Seq >= r.from.Seq {
		r.afterCursor = true
		if f.Seq == r.from.Seq {
			events = eventsAfter(events, r.from.Text)
		}
	} else if !r.afterCursor {
		return nil
	}
	return r.sendEvents(events)
}

// sendEvents sends the events that belong to the session and are after the cursor.
func (r *Session) sendEvents(events []*supervisorv1.Event) error {
	for _, ev := range events {
		if !r.afterCursor || ev.GetSessionId() != r.ID || r.from.Text != "" && ev.GetCursor() == r.from.Text {
			continue
		}
		if err := r.Send(ev); err != nil {
			return err
		}
	}
	return nil
}

// pieceOf reports whether a line is an update that does not affect later ones, such as a piece of a message.
func pieceOf(e *journal.Entry) bool {
	f := frame.Frame{Direction: frame.ParseDirection(e.Dir), Scanned: true, Method: []byte(e.Method), Line: e.Frame}
	return e.Method == acp.MethodSessionUpdate && !event.Needed(&f)
}

// eventsAfter returns the events of a frame after one of them.
func eventsAfter(events []*supervisorv1.Event, cursor string) []*supervisorv1.Event {
	for i, ev := range events {
		if ev.GetCursor() == cursor {
			return events[i+1:]
		}
	}
	return nil
}

func (r *Session) gap(frames uint64, why string, at time.Time) error {
	return r.Send(Gap(cmp.Or(r.Agent, r.agent.ID), r.ID, frames, why, at))
}
