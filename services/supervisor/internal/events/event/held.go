package event

import (
	"maps"
	"slices"
	"strconv"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Many agents send the last pieces of their output after the answer to the prompt. A decoder that holds ends returns
// the end of a turn after these pieces: when acphost has observed no output of the session for a while
// (frame.MethodTurnEnded), when the next turn begins, when the agent reports that it is idle, or when the session is
// closed. All of these are frames, so a record gives the events in the same order as live.

// heldTooLong is the time after the last output of a turn after which another frame of the session ends the turn. It
// applies to records of versions that wrote no frame.MethodTurnEnded.
const heldTooLong = 10 * time.Second

// HeldEnd is the end of a turn that a Decoder holds.
type HeldEnd struct {
	// Key identifies the prompt: the canonical id of its request.
	Key string
	// At is the time of the answer to the prompt, or of the last output behind it.
	At time.Time

	event *supervisorv1.Event
}

// HoldEnds makes the decoder hold the ends of turns until their late updates have passed. Without it, a turn ends with
// the answer to the prompt.
func (d *Decoder) HoldEnds() {
	if d.held == nil {
		d.held = map[string]*HeldEnd{}
	}
}

// Held returns the ends that are held, by session. It is the decoder's own map: do not change it, and do not keep it.
func (d *Decoder) Held() map[string]*HeldEnd { return d.held }

// Flush returns the ends that are held, at the end of a record. Their cursors follow those of the last frame.
func (d *Decoder) Flush() []*supervisorv1.Event {
	from := len(d.out)
	d.releaseAll()
	events := d.out[from:]
	for i, e := range events {
		if d.cursor != nil {
			e.Cursor = d.cursor(d.seq) + "." + strconv.Itoa(from+i+1)
		}
	}
	return events
}

// AppendTurnEnded appends the notification frame.MethodTurnEnded for a turn whose end was held under a key.
func AppendTurnEnded(b []byte, session, key string) []byte {
	params := jsonrpc.AppendString([]byte(`{"sessionId":`), session)
	params = jsonrpc.AppendString(append(params, `,"turn":`...), key)
	return jsonrpc.AppendNotification(b, frame.MethodTurnEnded, append(params, '}'))
}

// endTurnLater emits the end of a turn, or holds it.
func (d *Decoder) endTurnLater(key string, e *supervisorv1.Event) {
	session := e.GetSessionId()
	d.release(session)
	if d.held == nil || len(d.held) >= maxRequests {
		d.emit(e)
		return
	}
	d.held[session] = &HeldEnd{Key: key, At: d.at, event: e}
}

// release emits the end of a session's turn, if it is held.
func (d *Decoder) release(session string) {
	if e := d.takeHeld(session); e != nil {
		d.out = append(d.out, e)
	}
}

func (d *Decoder) releaseAll() {
	for _, session := range slices.Sorted(maps.Keys(d.held)) {
		d.release(session)
	}
}

// takeHeld removes and returns the held end of a session's turn; nil if none is held.
func (d *Decoder) takeHeld(session string) *supervisorv1.Event {
	h := d.held[session]
	if h == nil {
		return nil
	}
	delete(d.held, session)
	h.event.AgentId, h.event.Time = d.agent.ID, timestamppb.New(h.At)
	h.event.Touches = append(h.event.Touches, d.refusedUnreported(session)...)
	return h.event
}

// quiet processes acphost's notification that a session has had no output since the answer to its prompt.
func (d *Decoder) quiet(session string, params []byte) {
	if h := d.held[session]; h != nil && h.Key == textOf(acp.Get(params, "turn")) {
		d.release(session)
	}
}

// overdue releases an end that was held too long before a frame of its session.
func (d *Decoder) overdue(session []byte) {
	if h := d.held[string(session)]; h != nil && d.at.Sub(h.At) > heldTooLong {
		d.release(string(session))
	}
}

// prolong extends held ends of turns if the events of the current frame are output of these turns.
func (d *Decoder) prolong() {
	for _, e := range d.out {
		if h := d.held[e.GetSessionId()]; h != nil && OutputOfTurn(e) && d.at.After(h.At) {
			h.At = d.at
		}
	}
}

// OutputOfTurn reports whether an event is output of a turn: messages and actions of the agent. Updates about the
// session as a whole, such as its title or its commands, do not extend a turn: some agents send them at regular
// intervals.
func OutputOfTurn(e *supervisorv1.Event) bool {
	switch e.GetEvent().(type) {
	case *supervisorv1.Event_AgentMessage, *supervisorv1.Event_AgentThought, *supervisorv1.Event_ToolCall, *supervisorv1.Event_ToolCallUpdate,
		*supervisorv1.Event_Plan, *supervisorv1.Event_CallStarted, *supervisorv1.Event_CallEnded, *supervisorv1.Event_QuestionAsked:
		return true
	}
	return false
}
