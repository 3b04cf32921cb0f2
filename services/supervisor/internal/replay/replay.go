// Package replay returns the recorded events of a session, with the cursors and in the order of the live events.
//
// It reads the files of the journal. It must not know who is told the events, nor whether a supervisor runs.
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

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/event"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/journal"
)

// Why events are missing.
const (
	whyNoContent = "the record has no content"
	whyUnread    = "a line of the record cannot be read"
)

// Session is a session that is told from its files, in the order of the supervisors that wrote them. It can be asked
// again for what was written meanwhile. Not safe for concurrent use.
type Session struct {
	// ID is the session's.
	ID string
	// Parts are its files; the one that may grow is the last.
	Parts []journal.Part
	// Own is the instance of the supervisor whose part may grow; empty: none may.
	Own string
	// Agent is the id of the agent whose gaps are told; empty: the one that a part is of.
	Agent string
	// Send gets the events. An error of it ends the telling.
	Send func(*supervisorv1.Event) error
	// Logger is told of files that are gone.
	Logger *slog.Logger

	next int // of the parts
	from Position

	// The part that is read.
	part    journal.Part
	reader  *journal.Reader
	decoder *event.Decoder
	agent   frame.Agent
	lines   uint64
	behind  bool // what comes is behind the cursor
	held    *journal.Entry
}

// Recorded tells what the journals in a folder have of a session. No supervisor needs to run.
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
	return s.Tell(ctx, ^uint64(0))
}

// Parts are the files that a session has in a folder.
func Parts(dir, session string) ([]journal.Part, error) {
	parts, err := journal.Parts(dir, session)
	if err != nil {
		return nil, fmt.Errorf("look for session %q in the record: %w", session, err)
	}
	return parts, nil
}

// OneSession returns those of parts, which one agent has written under one session id, that are of one session: agents
// number their sessions anew in each process, so that several have the same id. It is the session that was told up to at, or
// the last one.
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

// NotFound says that there is no such session.
func NotFound(session string) error {
	return fault.New(fault.NotFound, "there is no session %q here, and none in the record", session)
}

// Ambiguous says that several agents have a session of that id.
func Ambiguous(session string, agents map[string]bool) error {
	return fault.New(fault.Invalid, "several agents have a session %q; say which one: %s",
		session, strings.Join(slices.Sorted(maps.Keys(agents)), ", "))
}

// Gap stands where events are missing.
func Gap(agentID, sessionID string, frames uint64, why string, at time.Time) *supervisorv1.Event {
	return &supervisorv1.Event{
		AgentId: agentID, SessionId: sessionID, Time: timestamppb.New(at),
		Event: &supervisorv1.Event_Gap{Gap: &supervisorv1.Gap{Frames: frames, Reason: why}},
	}
}

// Seek has the telling begin behind a position; at the beginning, if there is none. A position without a text is that of no event:
// the supervisor has it begin there. last is the number of the last
// frame that passed the supervisor whose part may grow.
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
		r.next = len(r.Parts) // nothing of it is recorded here
		return nil
	}
	return fault.New(fault.Invalid, "the cursor %q is not one of session %q, or what it is about is not recorded any more",
		at.Text, r.ID)
}

// Tell tells the recorded events; of the part that may grow, those of frames up to a number.
func (r *Session) Tell(ctx context.Context, upTo uint64) error {
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
		if r.own() && r.next == len(r.Parts) { // it may go on
			return nil
		}
		if err := r.tellEvents(r.decoder.Flush()); err != nil {
			return err
		}
		r.Close()
	}
	return nil
}

// own: the part may grow.
func (r *Session) own() bool { return r.Own != "" && r.part.Header.Instance == r.Own }

// open begins with the next part that can be read; false: there is none.
func (r *Session) open() bool {
	for r.next < len(r.Parts) {
		r.part = r.Parts[r.next]
		r.next++
		reader, err := journal.OpenReader(r.part.Path, 0)
		if err != nil { // it is gone: too old
			r.Logger.Warn("a session is told without a part of its record", "file", r.part.Path, "error", err)
			continue
		}
		header := r.part.Header
		r.reader, r.lines, r.held = reader, 0, nil
		r.agent = frame.Agent{ID: header.AgentID, Name: header.Agent}
		r.behind = header.Instance != r.from.Instance
		r.decoder = event.NewDecoder(r.agent, func(seq uint64) string { return Cursor(header.Instance, seq) })
		if header.LateUpdates { // else the turns were told to end with the answers to their prompts
			r.decoder.HoldEnds()
		}
		return true
	}
	return false
}

// Close closes the part that is read.
func (r *Session) Close() {
	if r.reader != nil {
		_ = r.reader.Close()
		r.reader = nil
	}
}

// entry is the next line of the part. One that cannot be read is an entry that says so.
func (r *Session) entry() (*journal.Entry, error) {
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
func (r *Session) tellEntry(e *journal.Entry) error {
	switch {
	case e.Journal != nil:
		if !e.Journal.Content && (r.behind || r.from.Text == "") {
			return r.gap(0, whyNoContent, e.Time)
		}
		return nil
	case e.Dropped > 0:
		if !r.behind && e.N <= r.from.Seq {
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
	if !r.behind && e.N < r.from.Seq && pieceOf(e) {
		return nil
	}
	f := e.Observed(&r.agent, r.ID)
	if f.Line == nil {
		return nil
	}
	events := r.decoder.Frame(f)
	if !r.behind && f.Seq >= r.from.Seq {
		r.behind = true
		if f.Seq == r.from.Seq {
			events = behindCursor(events, r.from.Text)
		}
	} else if !r.behind {
		return nil
	}
	return r.tellEvents(events)
}

// tellEvents tells the events that are of the session and behind the cursor.
func (r *Session) tellEvents(events []*supervisorv1.Event) error {
	for _, ev := range events {
		if !r.behind || ev.GetSessionId() != r.ID || r.from.Text != "" && ev.GetCursor() == r.from.Text {
			continue
		}
		if err := r.Send(ev); err != nil {
			return err
		}
	}
	return nil
}

// pieceOf reports whether a line is an update that says nothing about what comes, such as a piece of a message.
func pieceOf(e *journal.Entry) bool {
	f := frame.Frame{Direction: frame.ParseDirection(e.Dir), Scanned: true, Method: []byte(e.Method), Line: e.Frame}
	return e.Method == acp.MethodSessionUpdate && !event.Needed(&f)
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

func (r *Session) gap(frames uint64, why string, at time.Time) error {
	return r.Send(Gap(cmp.Or(r.Agent, r.agent.ID), r.ID, frames, why, at))
}
