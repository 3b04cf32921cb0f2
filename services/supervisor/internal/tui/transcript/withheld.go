package transcript

import (
	"cmp"
	"fmt"
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
)

// pieceCollector collects the pieces of a message whose content was not recorded, to show them as one.
type pieceCollector struct {
	first *journal.Entry
	size  uint64
}

// gathers adds an entry if it is a piece that continues the collected ones, or begins such a message.
func (w *pieceCollector) gathers(e *journal.Entry) bool {
	if e.Method != acp.MethodSessionUpdate || e.Dir != "agent-to-front" {
		return false
	}
	switch event.UpdateKind(e.Update) {
	case "agent_message_chunk", "agent_thought_chunk", "user_message_chunk":
	default:
		return false
	}
	switch {
	case w.first == nil:
		piece := *e
		piece.Raw, piece.ID = nil, nil
		w.first = &piece
	case w.first.Update != e.Update:
		return false
	}
	w.size += e.Size
	return true
}

// take returns the collected pieces as one entry, with their size, or nil.
func (w *pieceCollector) take() (*journal.Entry, uint64) {
	e, size := w.first, w.size
	*w = pieceCollector{}
	return e, size
}

func notKept(size uint64) string { return fmt.Sprintf("[%d bytes, not kept]", size) }

// Placeholders for members that were not recorded, in params by method and in updates by kind. "$" is replaced by the
// description.
var standInParams = map[string]string{
	acp.MethodSessionPrompt:     `,"prompt":[{"type":"text","text":$}]`,
	acp.MethodRequestPermission: `,"toolCall":{"title":$}`,
	acp.MethodElicitationCreate: `,"message":$`,
	methodCreate:                `,"command":$`,
	methodRun:                   `,"command":$`,
	"fs/read_text_file":         `,"path":$`,
	"fs/write_text_file":        `,"path":$`,
}

var standInMembers = map[string]string{
	"plan":                      `,"entries":[{"content":$}]`,
	"available_commands_update": `,"availableCommands":[]`,
	"config_option_update":      `,"configOptions":[]`,
	"config_options_update":     `,"configOptions":[]`,
	"current_mode_update":       `,"currentModeId":$`,
	"usage_update":              `,"used":0`,
	"notice":                    `,"title":$`,
	"compaction_update":         `,"compactionId":"","status":$`,
	"compaction_summary_chunk":  `,"compactionId":"","content":{"type":"text","text":$}`,
}

// standIn returns a message for a frame whose content was not recorded: it contains the known members, and a
// description of the size in place of the text.
func standIn(e *journal.Entry, size uint64) []byte {
	lost := string(jsonrpc.AppendString(nil, notKept(size)))
	b := []byte(`{"jsonrpc":"2.0"`)
	if len(e.ID) > 0 {
		b = append(append(b, `,"id":`...), e.ID...)
	}
	if e.Method == "" {
		b = append(b, `,"result":{"sessionId":`...)
		b = jsonrpc.AppendString(b, e.Session)
		return append(append(append(b, `,"stopReason":`...), lost...), "}}"...)
	}
	b = jsonrpc.AppendString(append(b, `,"method":`...), e.Method)
	b = jsonrpc.AppendString(append(b, `,"params":{"sessionId":`...), e.Session)
	if e.Method == acp.MethodSessionUpdate {
		b = append(append(b, `,"update":`...), standInUpdate(e, lost)...)
	}
	b = append(b, strings.ReplaceAll(standInParams[e.Method], "$", lost)...)
	return append(b, "}}"...)
}

// standInUpdate returns the update of such a message.
func standInUpdate(e *journal.Entry, lost string) []byte {
	b := jsonrpc.AppendString([]byte(`{"sessionUpdate":`), e.Update)
	switch kind := event.UpdateKind(e.Update); kind {
	case "tool_call", "tool_call_update":
		b = jsonrpc.AppendMembers(b, "toolCallId", e.Tool, "title", e.Tool, "kind", e.Kind, "status", e.Status)
	default:
		b = append(b, strings.ReplaceAll(cmp.Or(standInMembers[kind], `,"content":{"type":"text","text":$}`), "$", lost)...)
	}
	return append(b, '}')
}

// unknown removes a claim from an event that was made from such a message: the answer to a question, which is unknown.
func unknown(ev *supervisorv1.Event) {
	if a := ev.GetQuestionAnswered(); a != nil && a.GetOutcome() == "cancelled" {
		a.Outcome = "answered"
		if a.GetAnsweredBy() == "nobody" {
			a.AnsweredBy = "acphost" // by the policy, or because no user could answer
		}
	}
	ev.Raw = ""
}
