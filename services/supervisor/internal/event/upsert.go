package event

import (
	"bytes"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/ordered"
	"google.golang.org/protobuf/proto"
)

const (
	maxSaid   = 256 // messages whose ids are remembered
	maxGrowth = 256 // items of a tool call's content that comes in chunks
)

// said remembers which messages were told: ACP v2 has updates that hold a whole message, which may have come in chunks
// before.
type said struct {
	told ordered.Map[string, struct{}]
	last []byte // the key of the latest: most chunks in a row are of one message
	key  []byte
}

// note notes that something of a message was told; false: something was told of it before, or its id is not one to be remembered.
func (s *said) note(session string, id []byte) bool {
	s.key = append(append(append(s.key[:0], session...), 0), id...)
	if len(id) == 0 || len(s.key) > maxKept || bytes.Equal(s.key, s.last) {
		return false
	}
	s.last = append(s.last[:0], s.key...)
	if _, known := s.told.Get(string(s.key)); known {
		return false
	}
	s.told.Keep(string(s.key), struct{}{}, maxSaid)
	return true
}

// wholeMessage sets e's event to the first block of an update that holds a whole message, unless the message was told, and returns
// events for the other blocks. A message that is replaced after it was told is left as it is: the event has it as raw JSON.
func (d *Decoder) wholeMessage(e *supervisorv1.Event, kind string, u *rawUpdate) (more []*supervisorv1.Event) {
	if isObject(u.content) || len(u.content) > 0 && u.content[0] == '"' { // a piece of a message, by an older name
		today := acp.CurrentUpdate(u.whole)
		if today == nil {
			return nil
		}
		var piece rawUpdate
		piece.read(today)
		return d.fill(e, &piece)
	}
	if !isArray(u.content) || !d.said.note(e.GetSessionId(), u.messageID) {
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

// grown is the report of a tool call with one more item of content, as ACP v2 adds it; nil: the tool call is not known, or has too
// many.
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
