package event

import (
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// maxMerged is the limit of an update whose tool call is kept for questions, in bytes.
const maxMerged = 64 << 10

// rawUpdate is the update of a session/update, as bytes.
type rawUpdate struct {
	whole []byte
	kind  []byte // raw; nil: missing
	// The members of chunks, the most frequent updates.
	content, messageID []byte
}

// updateIn finds the update in a session/update, which is valid JSON. Some agents put the members of params.update into
// params.
func updateIn(line []byte) rawUpdate {
	var u rawUpdate
	params := lex.Find(line, lex.SkipSpace(line, 0), "params")
	if params < 0 {
		return u
	}
	if at := lex.Find(line, params, "update"); at >= 0 {
		if u.read(line[at:]) {
			return u
		}
		var n lex.Nesting
		if end := n.ValueEnd(line, at, 0); end > 0 {
			u.whole = line[at:end]
		}
		return u
	}
	u.read(line[params:])
	return u
}

// read decodes the object at the start of b; false if none exists.
func (u *rawUpdate) read(b []byte) bool {
	n := members(b, func(name, v []byte) {
		switch string(name) {
		case "sessionUpdate":
			if v[0] == '"' {
				u.kind = v
			}
		case "content":
			u.content = v
		case "messageId":
			u.messageID = v
		}
	})
	if n < 0 {
		*u = rawUpdate{}
		return false
	}
	u.whole = b[:n]
	return true
}

// update emits the events of an agent's session/update: one, or one for each block of a message.
func (d *Decoder) update(session string, u rawUpdate) {
	t := &eventBlock{}
	e := &t.event
	e.SessionId, e.Raw = session, raw(u.whole)
	e.History = len(d.loading) > 0 && d.loading[session] > 0
	e.AgentId, e.Time = d.agent.ID, &t.time
	t.time.Seconds, t.time.Nanos = d.at.Unix(), int32(d.at.Nanosecond())
	more := d.fill(e, &u)
	if d.out == nil {
		d.out = t.alone[:0]
	}
	d.out = append(append(d.out, e), more...)
}

// eventBlock is an event with its common parts in one allocation, because updates are very frequent.
type eventBlock struct {
	event supervisorv1.Event
	time  timestamppb.Timestamp
	alone [1]*supervisorv1.Event
}

// textChunk is a piece of text in one allocation.
type textChunk struct {
	chunk   supervisorv1.MessageChunk
	block   supervisorv1.ContentBlock
	content supervisorv1.ContentBlock_Text
	text    supervisorv1.TextContent
}

// fill sets the content of e, and returns further events.
func (d *Decoder) fill(e *supervisorv1.Event, u *rawUpdate) (more []*supervisorv1.Event) {
	if u.kind == nil || acp.IsOlderUpdate(u.kind) {
		if today := acp.CurrentUpdate(u.whole); today != nil {
			u.read(today)
		}
	}
	kind := updateKind(u.kind)
	switch kind {
	case "agent_message", "agent_thought", "user_message":
		more = d.wholeMessage(e, kind, u)
	case acp.UpdateToolCallChunk:
		if r := d.grown(e.GetSessionId(), u.whole); r != nil {
			d.reported(e.GetSessionId(), r, false, len(u.whole))
			e.Event = &supervisorv1.Event_ToolCallUpdate{ToolCallUpdate: r}
		}
	case "agent_message_chunk":
		chunk := d.chunk(e.GetSessionId(), u)
		e.Event = &supervisorv1.Event_AgentMessage{AgentMessage: chunk}
		if chunk.GetContent().GetText().GetText() == "" && !e.GetHistory() {
			d.metered(e.GetSessionId(), u)
		}
	case "agent_thought_chunk":
		e.Event = &supervisorv1.Event_AgentThought{AgentThought: d.chunk(e.GetSessionId(), u)}
	case "user_message_chunk":
		e.Event = &supervisorv1.Event_UserMessage{UserMessage: d.chunk(e.GetSessionId(), u)}
	case "tool_call", "tool_call_update":
		r := toolCall(u.whole)
		if r == nil {
			break
		}
		d.reported(e.GetSessionId(), r, kind == "tool_call", len(u.whole))
		if !e.GetHistory() {
			e.Touches = d.touchedByReport(e.GetSessionId(), r)
		}
		if kind == "tool_call" {
			e.Event = &supervisorv1.Event_ToolCall{ToolCall: r}
		} else {
			e.Event = &supervisorv1.Event_ToolCallUpdate{ToolCallUpdate: r}
		}
	case "terminal_update", "terminal_output_chunk":
		if r := d.terminals.report(e.GetSessionId(), u.whole); r != nil {
			d.reported(e.GetSessionId(), r, false, 0)
			e.Event = &supervisorv1.Event_ToolCallUpdate{ToolCallUpdate: r}
		}
	case "state_update":
		if t := d.idle(e.GetSessionId(), u.whole); t != nil {
			e.Event = &supervisorv1.Event_TurnEnded{TurnEnded: t}
		} else if len(d.held) > 0 && acp.Idle(u.whole) {
			if end := d.takeHeld(e.GetSessionId()); end != nil {
				more = append(more, end)
			}
		}
	default:
		state(e, kind, u.whole)
	}
	if e.GetEvent() == nil {
		e.Event = &supervisorv1.Event_OtherUpdate{OtherUpdate: &supervisorv1.OtherUpdate{Kind: textOf(u.kind)}}
	}
	return more
}

// reported keeps a report of a tool call of size bytes, and adds the earlier output of its terminal.
func (d *Decoder) reported(session string, r *supervisorv1.ToolCallReport, announced bool, size int) {
	d.terminals.shown(session, r)
	d.reports.note(session, r, announced, size)
}

// maxMetered is the limit of an update with the usage of a model request, in bytes. Such an update contains nothing
// else.
const maxMetered = 4 << 10

// metered adds the usage of a model request to that of the turn. Qwen Code reports it on an empty message, and reports
// nothing at the end of the turn.
func (d *Decoder) metered(session string, u *rawUpdate) {
	if len(u.whole) > maxMetered {
		return
	}
	if took := tokenUsage(acp.Get(u.whole, "_meta", "usage")); took != nil && (d.spent[session] != nil || len(d.spent) < maxRequests) {
		d.spent[session] = client.AddTokens(d.spent[session], took)
	}
}

// chunk decodes a piece of a message, and records that a part of the message was emitted.
func (d *Decoder) chunk(session string, u *rawUpdate) *supervisorv1.MessageChunk {
	d.emitted.note(session, u.messageID)
	return u.chunk()
}

func (u *rawUpdate) chunk() *supervisorv1.MessageChunk {
	if c := plainText(u.content); c != nil {
		c.chunk.MessageId = textOf(u.messageID)
		return &c.chunk
	}
	return &supervisorv1.MessageChunk{Content: block(u.content, noLimit), MessageId: textOf(u.messageID)}
}

// plainText decodes a text block without other members; nil: it is another block.
func plainText(v []byte) *textChunk {
	var said []byte
	typed, plain := false, true
	n := members(v, func(name, v []byte) {
		switch string(name) {
		case "type":
			typed = string(v) == `"text"`
		case "text":
			said = v
		default:
			plain = false
		}
	})
	s, ok := acp.String(said)
	if n < 0 || !typed || !plain || !ok {
		return nil
	}
	c := &textChunk{}
	c.text.Text = s
	c.content.Text = &c.text
	c.block.Content = &c.content
	c.chunk.Content = &c.block
	return c
}

// state sets e's event for an update with a new state of the session. It stays unset if the kind is unknown, or if the
// update lacks its subject, because that would look like a removal.
func state(e *supervisorv1.Event, kind string, v []byte) {
	switch kind {
	case "plan", "plan_update":
		if entries := planOf(v); isArray(entries) {
			e.Event = &supervisorv1.Event_Plan{Plan: &supervisorv1.Plan{Entries: planEntries(entries)}}
		}
	case "available_commands_update":
		if all := acp.Get(v, "availableCommands"); isArray(all) {
			e.Event = &supervisorv1.Event_AvailableCommands{AvailableCommands: &supervisorv1.AvailableCommands{Commands: commands(all)}}
		}
	case "current_mode_update":
		if mode, ok := acp.ModeOf(v); ok {
			e.Event = &supervisorv1.Event_CurrentMode{CurrentMode: &supervisorv1.CurrentMode{ModeId: mode}}
		}
	case "config_option_update", "config_options_update":
		if all := acp.Get(v, "configOptions"); isArray(all) {
			e.Event = &supervisorv1.Event_ConfigOptions{ConfigOptions: &supervisorv1.ConfigOptions{Options: configOptions(all)}}
		}
	case "session_info_update":
		e.Event = &supervisorv1.Event_SessionInfo{SessionInfo: sessionInfo(v)}
	case "usage_update":
		if u := contextUsage(v); u != nil {
			e.Event = &supervisorv1.Event_Usage{Usage: u}
		}
	case "notice":
		if n := notice(v); n != nil {
			e.Event = &supervisorv1.Event_Notice{Notice: n}
		}
	case "compaction_update":
		if c := compaction(v); c != nil {
			e.Event = &supervisorv1.Event_Compaction{Compaction: c}
		}
	case "compaction_summary_chunk":
		if id, ok := acp.String(acp.Get(v, "compactionId")); ok {
			e.Event = &supervisorv1.Event_CompactionSummary{CompactionSummary: &supervisorv1.CompactionSummaryChunk{
				CompactionId: id, Content: block(acp.Get(v, "content"), noLimit),
			}}
		}
	}
}

// planOf returns the entries of a plan; in ACP v2 they are part of one of several plans.
func planOf(v []byte) []byte {
	if entries := acp.Get(v, "entries"); entries != nil {
		return entries
	}
	return acp.Get(v, "plan", "entries")
}

func sessionInfo(v []byte) *supervisorv1.SessionInfo {
	i := &supervisorv1.SessionInfo{}
	read(v, "title", func(v []byte) { i.Title = erasable(v) }, "updatedAt", func(v []byte) { i.UpdatedAt = erasable(v) })
	return i
}

// erasable is optionalText for a member that null erases.
func erasable(v []byte) *string {
	if isNull(v) {
		return new(string)
	}
	return optionalText(v)
}

// contextUsage decodes the usage of a context; nil: the update has none.
func contextUsage(v []byte) *supervisorv1.ContextUsage {
	u := &supervisorv1.ContextUsage{}
	found := false
	size := func(to *uint64) func([]byte) {
		return func(v []byte) {
			n, ok := unsigned(v, 64)
			*to, found = n, found || ok
		}
	}
	read(v, "used", size(&u.Used), "size", size(&u.Size), "cost", func(v []byte) {
		u.Cost, u.Currency = nil, ""
		if n, ok := acp.Number(acp.Get(v, "amount")); ok {
			u.Cost, u.Currency = &n, textOf(acp.Get(v, "currency"))
		}
	})
	return where(found, u)
}

// notice decodes a notice; nil: it is empty.
func notice(v []byte) *supervisorv1.Notice {
	n := &supervisorv1.Notice{}
	read(v, "severity", &n.Severity, "title", &n.Title, "description", &n.Description)
	return where(n.Title != "" || n.Description != "", n)
}

// compaction decodes the state of a compaction; nil: it has no id.
func compaction(v []byte) *supervisorv1.Compaction {
	c := &supervisorv1.Compaction{}
	named := false
	read(v, "compactionId", func(v []byte) { c.CompactionId, named = acp.String(v) }, "status", &c.Status,
		"summary", func(v []byte) { c.Summary = blocks(v, noLimit) }, "error", &c.Error)
	return where(named, c)
}

// ownUpdate emits acphost's own messages to the person at the client. Its other updates correspond to events that are
// emitted separately: questions, calls, the output of terminals.
func (d *Decoder) ownUpdate(session string, u rawUpdate) {
	e := &supervisorv1.Event{SessionId: session, Raw: raw(u.whole)}
	switch updateKind(u.kind) {
	case "notice":
		n := notice(u.whole)
		if n == nil {
			return
		}
		n.FromAcphost = true
		e.Event = &supervisorv1.Event_Notice{Notice: n}
	case "agent_message_chunk": // for a client without support for notices: a quotation, "> title: description"
		text := strings.TrimPrefix(strings.TrimSpace(u.chunk().GetContent().GetText().GetText()), "> ")
		if text == "" {
			return
		}
		title, description, _ := strings.Cut(text, ": ")
		e.Event = &supervisorv1.Event_Notice{Notice: &supervisorv1.Notice{
			Severity: "warning", Title: title, Description: description, FromAcphost: true,
		}}
	default:
		return
	}
	d.emit(e)
}

// updateKind returns the raw name of an update in the current spelling.
func updateKind(v []byte) string {
	switch string(v) { // the most frequent ones
	case `"agent_message_chunk"`:
		return "agent_message_chunk"
	case `"agent_thought_chunk"`:
		return "agent_thought_chunk"
	case `"tool_call"`:
		return "tool_call"
	case `"tool_call_update"`:
		return "tool_call_update"
	}
	return snake(textOf(v))
}

// UpdateKind converts the name of an update (sessionUpdate) to the current spelling: older agents use camel case.
func UpdateKind(name string) string { return snake(name) }

// snake converts camel case to the current spelling: "agentMessageChunk" to "agent_message_chunk".
func snake(s string) string {
	if strings.IndexFunc(s, isUpper) < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		if isUpper(r) {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

func isUpper(r rune) bool { return 'A' <= r && r <= 'Z' }
