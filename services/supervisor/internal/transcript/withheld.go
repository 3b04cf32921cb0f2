package transcript

import (
	"cmp"
	"fmt"
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/event"
	"github.com/acphost/acphost/services/supervisor/internal/journal"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// withheld gathers the pieces of a message whose content was not kept: they are told as one.
type withheld struct {
	first *journal.Entry
	size  uint64
}

// gathers takes an entry if it is a piece that goes on with what was gathered, or begins something of the kind.
func (w *withheld) gathers(e *journal.Entry) bool {
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

// take returns what was gathered, as one entry of that size; nil: nothing was.
func (w *withheld) take() (*journal.Entry, uint64) {
	e, size := w.first, w.size
	*w = withheld{}
	return e, size
}

func notKept(size uint64) string { return fmt.Sprintf("[%d bytes, not kept]", size) }

// What stands for members that were not kept, in params by methods and in updates by kinds; "$" is what is said of it.
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

// standIn is a message for a frame whose content was not kept: it says what is known of that, and in place of what people
// would read, how much it was.
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

// standInUpdate is the update of such a message.
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

// unknown takes back what an event says that was made of such a message and nobody knows: how a question was answered.
func unknown(ev *supervisorv1.Event) {
	if a := ev.GetQuestionAnswered(); a != nil && a.GetOutcome() == "cancelled" {
		a.Outcome = "answered"
		if a.GetAnsweredBy() == "nobody" {
			a.AnsweredBy = "acphost" // the policy, or since nobody could
		}
	}
	ev.Raw = ""
}
