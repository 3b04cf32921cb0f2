// Package event converts the frames between an agent and its client to events for people and programs. It also folds
// events into the state of each session.
//
// It knows all of ACP's messages, and decodes them leniently: a member that cannot be decoded counts as absent, and an
// unknown update becomes an event with the raw JSON. The same frames give the same events, whether live or from a
// record: the package writes nothing, and reads the clock only for a frame without a time. Only Decoder.Present makes a
// difference, because it looks up files. The package must not know who watches, nor where frames come from.
package event

import (
	"strconv"
	"time"

	"github.com/acphost/acphost/internal/ordered"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Decoder converts the frames of one agent to events. It tracks open requests, at most 4096 of each end, to interpret
// the answers. Not safe for concurrent use.
type Decoder struct {
	ids    ApprovalIDs
	agent  frame.Agent
	cursor func(seq uint64) string

	version int // the negotiated version of ACP; 0: unknown
	scan    acp.Scanner
	msg     jsonrpc.Message

	client, calls, own table
	loading            map[string]int // number of requests that load a session, by session
	// Sessions whose prompt was accepted (ACP v2), with an active turn.
	accepted map[string]bool
	// Usage of active turns, if the agent reports it for each request.
	spent     map[string]*supervisorv1.TokenUsage
	reports   reports
	terminals agentTerminals
	dialect   string                        // the agent's own name, for its dialect of ACP
	roots     ordered.Map[string, []string] // by session
	emitted   emittedMessages
	held      map[string]*HeldEnd // by session; nil: ends of turns are not held

	// Present, if set, reports whether a file exists at an absolute path, in one of a session's folders. A prompt that
	// refers to a file only in its text then shows it in use. Nil: such references are ignored. Set it before the first
	// frame.
	Present func(folders []string, file string) bool

	// Of the current frame.
	seq     uint64
	at      time.Time
	out     []*supervisorv1.Event
	session string // the last frame's: consecutive frames usually have the same session
	child   bool   // the message is from a child of session
}

// NewDecoder returns a decoder for the frames of an agent. cursor returns the cursor for a frame's number; nil: events
// have no cursors.
func NewDecoder(agent frame.Agent, cursor func(seq uint64) string) *Decoder {
	return &Decoder{agent: agent, cursor: cursor, loading: map[string]int{}, accepted: map[string]bool{}, spent: map[string]*supervisorv1.TokenUsage{}}
}

// Frame returns the events of a frame in order; most frames have one event or none. Frames must be passed in the order
// of their numbers. Frame does not keep f's bytes. The caller owns the events; they share memory only with unchanged
// data, so that they may be read concurrently, but must not be changed.
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

// namesFirst reports whether a line begins with a session's id in the most common spelling. False: the line may name
// the session elsewhere, or another one.
func namesFirst(line, session []byte) bool {
	const begin = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"`
	at := len(begin) + len(session)
	return len(line) > at && string(line[:len(begin)]) == begin && string(line[len(begin):at]) == string(session) && line[at] == '"'
}

// message processes a frame that is not a plain update.
func (d *Decoder) message(f *frame.Frame) {
	m := &d.msg
	if Refused(f) || d.scan.Scan(joined(f.Line, f.Rest), m) != nil {
		return
	}
	id := m.SessionID
	if id == nil && acp.OfSession(m.Method) { // the forwarding side knows the session
		id = f.SessionID
	}
	d.child = false
	if f.Direction == frame.AgentToClient || f.Direction == frame.AgentToHandler {
		// For a message of a child session, the forwarding or recording side has set the parent.
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

// refusedName is the handler's name for a line that was not forwarded.
const refusedName = "refused"

// Refused reports whether a frame was dropped, so that it has no effect.
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
				d.emitOther(session, client.ChildSessionUpdate, m.Params) // a subagent's messages are not its parent's
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
			d.emitOther(session, acp.MethodAuthComplete, m.Params)
		}
	case frame.MethodTurnEnded:
		if f.Direction == frame.OursToClient {
			d.quiet(session, m.Params)
		}
	case frame.MethodSessionClosed:
		if f.Direction == frame.OursToClient && session != "" {
			d.roots.Delete(session)
			d.release(session)
			d.emit(&supervisorv1.Event{SessionId: session, Event: &supervisorv1.Event_SessionClosed{
				SessionClosed: &supervisorv1.SessionClosed{Reason: textOf(acp.Get(m.Params, "reason"))},
			}})
		}
	}
}

// emitOther adds an event for an unknown notification that is not an update.
func (d *Decoder) emitOther(session, method string, params []byte) {
	d.emit(&supervisorv1.Event{SessionId: session, Raw: raw(params), Event: &supervisorv1.Event_OtherUpdate{
		OtherUpdate: &supervisorv1.OtherUpdate{Kind: method},
	}})
}

// requestID returns the id of the request that an elicitation belongs to; nil if it names none.
func requestID(params []byte) []byte { return idOf(acp.Get(params, "requestId")) }

// cancelled returns the id in a $/cancel_request; nil if it names none.
func cancelled(params []byte) []byte { return idOf(acp.ParseCancelRequest(params)) }

// idOf returns a valid id of a request; nil otherwise.
func idOf(id []byte) []byte {
	if len(id) == 0 || id[0] != '"' && id[0] != '-' && (id[0] < '0' || id[0] > '9') {
		return nil
	}
	return id
}

func (d *Decoder) request(f *frame.Frame, m *jsonrpc.Message, session string) {
	r := &request{key: jsonrpc.CanonicalID(m.ID), id: raw(m.ID), method: raw(m.Method), session: session}
	if len(r.key) > maxKept || len(r.method) > maxKept || len(session) > maxKept {
		return // no well-behaved peer uses such long names, and all of this is kept
	}
	switch f.Direction.Requester(false) {
	case frame.OfClient:
		d.fromClient(r, m)
	case frame.OfAgent:
		if f.Direction == frame.OursToAgent || f.Direction == frame.HandlerToAgent {
			return // acphost sends the agent no requests of its own
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

// emit adds an event.
func (d *Decoder) emit(e *supervisorv1.Event) {
	e.AgentId = d.agent.ID
	e.Time = timestamppb.New(d.at)
	if e.GetTurnEnded() != nil {
		e.Touches = append(e.Touches, d.refusedUnreported(e.GetSessionId())...)
	}
	d.out = append(d.out, e)
}

// finish sets the cursors of a frame's events.
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

// sessionOf returns a session's id as a string.
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
