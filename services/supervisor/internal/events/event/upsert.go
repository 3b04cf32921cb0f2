package event

import (
	"bytes"

	"github.com/acphost/acphost/internal/ordered"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"google.golang.org/protobuf/proto"
)

const (
	maxEmitted = 256 // messages with a known id
	maxGrowth  = 256 // items of a tool call's content that arrives in chunks
)

// emittedMessages has the messages that were emitted: ACP v2 has updates with a whole message, which may have been sent
// in chunks before.
type emittedMessages struct {
	keys ordered.Map[string, struct{}]
	last []byte // the key of the latest: consecutive chunks usually belong to one message
	key  []byte
}

// note records that a part of a message was emitted. It returns false if that was recorded before, or if its id cannot
// be kept.
func (s *emittedMessages) note(session string, id []byte) bool {
	s.key = append(append(append(s.key[:0], session...), 0), id...)
	if len(id) == 0 || len(s.key) > maxKept || bytes.Equal(s.key, s.last) {
		return false
	}
	s.last = append(s.last[:0], s.key...)
	if _, known := s.keys.Get(string(s.key)); known {
		return false
	}
	s.keys.Keep(string(s.key), struct{}{}, maxEmitted)
	return true
}

// wholeMessage sets e's event to the first block of an update with a whole message, unless the message was emitted, and
// returns events for the other blocks. A replacement of an emitted message is not decoded: the event has the raw JSON.
func (d *Decoder) wholeMessage(e *supervisorv1.Event, kind string, u *rawUpdate) (more []*supervisorv1.Event) {
	if isObject(u.content) || len(u.content) > 0 && u.content[0] == '"' { // a piece of a message, with an older name
		today := acp.CurrentUpdate(u.whole)
		if today == nil {
			return nil
		}
		var piece rawUpdate
		piece.read(today)
		return d.fill(e, &piece)
	}
	if !isArray(u.content) || !d.emitted.note(e.GetSessionId(), u.messageID) {
		return nil
	}
	id := textOf(u.messageID)
	for i, b := range blocks(u.content, noLimit) {
		next := e
		if i > 0 {
			next = &supervisorv1.Event{SessionId: e.GetSessionId(), History: e.GetHistory(), AgentId: d.agent.ID, Time: proto.CloneOf(e.GetTime())}
			more = append(more, next)
		}
		chunk := &supervisorv1.MessageChunk{Content: b, MessageId: id}
		switch kind {
		case "agent_message":
			next.Event = &supervisorv1.Event_AgentMessage{AgentMessage: chunk}
		case "agent_thought":
			next.Event = &supervisorv1.Event_AgentThought{AgentThought: chunk}
		case "user_message":
			next.Event = &supervisorv1.Event_UserMessage{UserMessage: chunk}
		}
	}
	return more
}

// grown returns the report of a tool call with one more item of content (ACP v2); nil: the tool call is unknown, or has
// too many items.
func (d *Decoder) grown(session string, update []byte) *supervisorv1.ToolCallReport {
	r := toolCall(update)
	if r == nil {
		return nil
	}
	known := d.reports.known.At(reportKey(session, r.GetToolCallId()))
	item := acp.Get(update, "content")
	if known == nil || !isObject(item) || len(known.GetContent()) >= maxGrowth {
		return nil
	}
	one := toolCall(append(append([]byte(`{"toolCallId":"","content":[`), item...), "]}"...))
	all := append(known.GetContent()[:len(known.GetContent()):len(known.GetContent())], one.GetContent()...)
	return &supervisorv1.ToolCallReport{ToolCallId: r.GetToolCallId(), ContentSet: true, Content: all}
}
