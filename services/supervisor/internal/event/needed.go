package event

import (
	"bytes"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc/lex"
)

// Needed reports whether a frame has to be decoded and folded though nobody watches: it changes what is known of a session,
// or what later frames mean. It is quick, since most frames are pieces of messages, and those are not needed; in doubt it
// says yes. Safe for concurrent use.
func Needed(f *frame.Frame) bool {
	if Refused(f) {
		return false
	}
	if !f.Scanned || f.ID != nil || f.Method == nil {
		return true // an answer, a request, or what has to be looked at
	}
	switch string(f.Method) {
	case acp.MethodSessionUpdate:
		return f.Direction != frame.AgentToClient || len(f.Rest) > 0 || neededUpdate(f.Line)
	case acp.MethodCancelRequest, acp.MethodSessionEndTurn, frame.MethodTurnEnded, frame.MethodSessionClosed:
		return true
	}
	return false
}

// neededUpdate looks at an update as far as its kind, which comes first as a rule.
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
		return lex.Find(line, update, "type") >= 0 || lex.Find(line, update, "status") >= 0 // else it can only be told as it came
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
