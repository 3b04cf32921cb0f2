// Package event makes events of the frames between an agent and its client, for people and programs to follow. It also folds
// events into the state of each session.
//
// It knows ACP's messages completely, and reads them leniently: a member that it cannot read counts as absent, and an update
// that it does not know becomes an event with the raw JSON. The same frames give the same events, whether they come live or
// from a record: the package writes nothing, and reads the clock only for a frame without a time. Only Decoder.Present makes a
// difference, where files are looked for. It must not know who
// watches, nor where frames come from.
package event

import (
	"strconv"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/ordered"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Decoder turns the frames of one agent into events. It remembers which requests are open, at most 4096 of each end, so
// that it can tell what an answer means. Not safe for concurrent use.
type Decoder struct {
	ids    ApprovalIDs
	agent  frame.Agent
	cursor func(seq uint64) string

	version int // of ACP, as the agent answered; 0: not known
	scan    acp.Scanner
	msg     jsonrpc.Message

	client, calls, own table
	loading            map[string]int                      // sessions to the number of requests that load them
	accepted           map[string]bool                     // sessions whose prompt was accepted, as ACP v2 has it, and goes on
	spent              map[string]*supervisorv1.TokenUsage // by turns that go on, as far as it is told request by request
	reports            reports
	terminals          agentTerminals
	dialect            string                        // what the agent calls itself
	roots              ordered.Map[string, []string] // of sessions
	said               said
	held               map[string]*HeldEnd // by sessions; nil: ends are told at once

	// Present, if set, reports whether a file is at an absolute path, in or below one of a session's folders. A prompt that refers
	// to a file in words alone then shows it in use. Nil: such references do not count. It must be set before the first frame.
	Present func(folders []string, file string) bool

	// Of the frame at hand.
	seq     uint64
	at      time.Time
	out     []*supervisorv1.Event
	session string // the last one's id: most frames in a row are of the same
	child   bool   // the message is of a child of session
}

// NewDecoder returns a decoder for the frames of an agent. cursor names the place of a frame by its number; nil: events
// have no cursors.
func NewDecoder(agent frame.Agent, cursor func(seq uint64) string) *Decoder {
	return &Decoder{agent: agent, cursor: cursor, loading: map[string]int{}, accepted: map[string]bool{}, spent: map[string]*supervisorv1.TokenUsage{}}
}

// Frame returns what happens by a frame, in order; most frames make one event or none. Frames must come in the order of
// their numbers. f's bytes are not kept; the events are the caller's, and share nothing that changes later, so that many
// may read them at once, but none may change them.
func (d *Decoder) Frame(f frame.Frame) []*supervisorv1.Event {
	d.seq, d.at, d.out = f.Seq, f.Time, nil
	if d.at.IsZero() {
		d.at = time.Now()
	}
	Shorten(&f)
	if len(d.held) > 0 {
		d.overdue(f.SessionID)
	}
	if f.Scanned && f.Direction == frame.AgentToClient && f.Handler == "" && f.ID == nil && string(f.Method) == acp.MethodSessionUpdate && len(f.Rest) == 0 && namesFirst(f.Line, f.SessionID) {
		d.update(d.sessionOf(f.SessionID), updateIn(f.Line))
		d.omitted(d.sessionOf(f.SessionID), &f)
	} else {
		d.message(&f)
	}
	if len(d.held) > 0 {
		d.prolong()
	}
	d.finish(f.Seq)
	return d.out
}

// namesFirst reports whether a line names a session in its first place, spelled as most agents spell it. False: it may name
// the session elsewhere, or another one.
func namesFirst(line, session []byte) bool {
	const begin = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"`
	at := len(begin) + len(session)
	return len(line) > at && string(line[:len(begin)]) == begin && string(line[len(begin):at]) == string(session) && line[at] == '"'
}

// message takes a frame that is no plain update.
func (d *Decoder) message(f *frame.Frame) {
	m := &d.msg
	if Refused(f) || d.scan.Scan(joined(f.Line, f.Rest), m) != nil {
		return
	}
	id := m.SessionID
	if id == nil && acp.OfSession(m.Method) { // whoever passed it on knows which is meant
		id = f.SessionID
	}
	d.child = false
	if f.Direction == frame.AgentToClient || f.Direction == frame.AgentToHandler {
		// Who passed on, or recorded, a message of a child session says whose child it is.
		d.child = len(f.SessionID) > 0 && len(id) > 0 && raw(id) != raw(f.SessionID)
		if d.child {
			id = f.SessionID
		}
	}
	session := d.sessionOf(id)
	switch m.Kind {
	case jsonrpc.KindNotification:
		d.notification(f, m, session)
		d.omitted(session, f)
	case jsonrpc.KindRequest:
		d.request(f, m, session)
		d.omitted(session, f)
	case jsonrpc.KindResponse:
		d.response(f, m)
	}
	*m = jsonrpc.Message{}
}

// refusedName stands for a handler where a line reached nobody.
const refusedName = "refused"

// Refused reports whether a frame was seen and dropped: nothing happens by it.
func Refused(f *frame.Frame) bool {
	return f.Handler == refusedName && (f.Direction == frame.AgentToClient || f.Direction == frame.ClientToAgent)
}

func (d *Decoder) notification(f *frame.Frame, m *jsonrpc.Message, session string) {
	switch string(m.Method) {
	case acp.MethodSessionUpdate:
		switch f.Direction {
		case frame.AgentToClient:
			u := updateIn(m.Raw)
			if d.child && !acp.OfToolCall(updateKind(u.kind)) {
				d.tellOther(session, client.ChildSessionUpdate, m.Params) // what a subagent says is not said by its parent
				return
			}
			d.update(session, u)
		case frame.OursToClient:
			d.ownUpdate(session, updateIn(m.Raw))
		}
	case acp.MethodCancelRequest:
		if id := cancelled(m.Params); id != nil {
			d.withdrawn(f.Direction, jsonrpc.CanonicalID(id))
		}
	case acp.MethodSessionEndTurn:
		if f.Direction == frame.AgentToClient && !d.child {
			d.endTurn(session, m.Params)
		}
	case acp.MethodAuthComplete:
		if f.Direction == frame.AgentToClient {
			d.tellOther(session, acp.MethodAuthComplete, m.Params)
		}
	case frame.MethodTurnEnded:
		if f.Direction == frame.OursToClient {
			d.quiet(session, m.Params)
		}
	case frame.MethodSessionClosed:
		if f.Direction == frame.OursToClient && session != "" {
			d.roots.Delete(session)
			d.release(session)
			d.tell(&supervisorv1.Event{SessionId: session, Event: &supervisorv1.Event_SessionClosed{
				SessionClosed: &supervisorv1.SessionClosed{Reason: textOf(acp.Get(m.Params, "reason"))},
			}})
		}
	}
}

// tellOther tells a notification that ACP does not have, and that is no update.
func (d *Decoder) tellOther(session, method string, params []byte) {
	d.tell(&supervisorv1.Event{SessionId: session, Raw: raw(params), Event: &supervisorv1.Event_OtherUpdate{
		OtherUpdate: &supervisorv1.OtherUpdate{Kind: method},
	}})
}

// requestID is the id of the request that an elicitation belongs to; nil: it names none.
func requestID(params []byte) []byte { return idOf(acp.Get(params, "requestId")) }

// cancelled is the id that a $/cancel_request names; nil: it names none.
func cancelled(params []byte) []byte { return idOf(acp.ParseCancelRequest(params)) }

// idOf is an id that a request may have; nil: it is none.
func idOf(id []byte) []byte {
	if len(id) == 0 || id[0] != '"' && id[0] != '-' && (id[0] < '0' || id[0] > '9') {
		return nil
	}
	return id
}

func (d *Decoder) request(f *frame.Frame, m *jsonrpc.Message, session string) {
	r := &request{key: jsonrpc.CanonicalID(m.ID), id: raw(m.ID), method: raw(m.Method), session: session}
	if len(r.key) > maxKept || len(r.method) > maxKept || len(session) > maxKept {
		return // no peer of good will names things like that, and all of this is kept
	}
	switch f.Direction.Requester(false) {
	case frame.OfClient:
		d.fromClient(r, m)
	case frame.OfAgent:
		if f.Direction == frame.OursToAgent || f.Direction == frame.HandlerToAgent {
			return // nobody here asks the agent anything in its own name
		}
		d.fromAgent(f, r, m)
	case frame.Ours:
		if r.method == acp.MethodRequestPermission {
			d.asked(r, m.Params, true)
		}
	}
}

func (d *Decoder) response(f *frame.Frame, m *jsonrpc.Message) {
	if m.ID == nil || len(m.ID) > maxKept {
		return
	}
	key := jsonrpc.CanonicalID(m.ID)
	a := answer{result: m.Result, fault: m.Error, handler: f.Handler, direction: f.Direction, brief: f.Brief}
	if a.fault != nil && a.repeated() {
		return
	}
	switch f.Direction.Requester(true) {
	case frame.OfClient:
		if r := d.client.Delete(key); r != nil {
			d.clientAnswered(r, &a)
		}
	case frame.OfAgent:
		if r := d.calls.Delete(key); r != nil {
			d.agentAnswered(r, &a)
		}
	case frame.Ours:
		if r := d.own.Delete(key); r != nil {
			d.questionAnswered(r, &a)
		}
	}
}

// tell adds an event.
func (d *Decoder) tell(e *supervisorv1.Event) {
	e.AgentId = d.agent.ID
	e.Time = timestamppb.New(d.at)
	if e.GetTurnEnded() != nil {
		e.Touches = append(e.Touches, d.refusedUntold(e.GetSessionId())...)
	}
	d.out = append(d.out, e)
}

// finish gives the events of a frame their cursors.
func (d *Decoder) finish(seq uint64) {
	if d.cursor == nil || len(d.out) == 0 {
		return
	}
	at := d.cursor(seq)
	if len(d.out) == 1 {
		d.out[0].Cursor = at
		return
	}
	for i, e := range d.out {
		e.Cursor = at + "." + strconv.Itoa(i+1)
	}
}

// sessionOf is a session's id as a string.
func (d *Decoder) sessionOf(id []byte) string {
	if len(id) == 0 {
		return ""
	}
	if string(id) != d.session {
		s := raw(id)
		if len(id) > maxKept {
			return s
		}
		d.session = s
	}
	return d.session
}
