package event

import (
	"bytes"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

// Needed reports whether a frame must be decoded and folded even without watchers: it changes the state of a session,
// or the meaning of later frames. It is fast, because most frames are pieces of messages, which are not needed; in
// doubt it returns true. Safe for concurrent use.
func Needed(f *frame.Frame) bool {
	if Refused(f) {
		return false
	}
	if !f.Scanned || f.ID != nil || f.Method == nil {
		return true // an answer, a request, or another frame that must be decoded
	}
	switch string(f.Method) {
	case acp.MethodSessionUpdate:
		return f.Direction != frame.AgentToClient || len(f.Rest) > 0 || neededUpdate(f.Line)
	case acp.MethodCancelRequest, acp.MethodSessionEndTurn, frame.MethodTurnEnded, frame.MethodSessionClosed:
		return true
	}
	return false
}

// neededUpdate reads an update up to its kind, which is usually its first member.
func neededUpdate(line []byte) bool {
	params := lex.Find(line, lex.SkipSpace(line, 0), "params")
	if params < 0 {
		return false
	}
	update := lex.Find(line, params, "update")
	if update < 0 {
		return true
	}
	kind := lex.Find(line, update, "sessionUpdate")
	if kind < 0 || lex.At(line, kind) != '"' {
		// Otherwise it becomes an event with the raw JSON only.
		return lex.Find(line, update, "type") >= 0 || lex.Find(line, update, "status") >= 0
	}
	end, escaped, _ := lex.StringEnd(line, kind+1)
	if end < 0 || escaped {
		return true
	}
	switch updateKind(line[kind:end]) {
	case "agent_message_chunk":
		return len(line) <= maxMetered && bytes.Contains(line, []byte(`"usage"`))
	case "agent_thought_chunk", "user_message_chunk", "notice", "compaction_update", "compaction_summary_chunk":
		return false
	}
	return true
}
