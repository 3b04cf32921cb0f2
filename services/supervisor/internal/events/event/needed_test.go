package event

import (
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestNeeded_SkipsUnwatchedChunks(t *testing.T) {
	notification := func(method, params string) string {
		return `{"jsonrpc":"2.0","method":"` + method + `","params":` + params + `}`
	}
	tests := []struct {
		name, line string
		want       bool
	}{
		{"a message", updateLine(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}`), false},
		{"a thought, its kind last", updateLine(`{"content":{"sessionUpdate":"plan"},"sessionUpdate":"agent_thought_chunk"}`), false},
		{"a message with usage", updateLine(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""},"_meta":{"usage":{}}}`), true},
		{"an older agent's message", updateLine(`{"sessionUpdate":"agentMessageChunk"}`), false},
		{"a notice", updateLine(`{"sessionUpdate":"notice"}`), false},
		{"a tool call that hides", updateLine(`{"_meta":{"sessionUpdate":"agent_message_chunk"},"sessionUpdate":"tool_call","toolCallId":"t"}`), true},
		{"a kind with escapes", updateLine(`{"sessionUpdate":"agent_message\u005fchunk"}`), true},
		{"a plan", updateLine(`{"sessionUpdate":"plan","entries":[]}`), true},
		{"an unknown update", updateLine(`{"sessionUpdate":"current_model_update"}`), true},
		{"no kind", updateLine(`{}`), false},
		{"an update in the params", notification("session/update", `{"sessionUpdate":"plan","entries":[]}`), true},
		{"something of the agent's", notification("_x/y", `{}`), false},
		{"a cancellation", cancel("1"), true},
		{"a request", asks("1", "session/update", `{}`), true},
		{"an answer", answers("1", `{}`), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := scannedFrame(t, tt.line)
			if got := Needed(&f); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			f.Scanned = false
			if !Needed(&f) {
				t.Error("an unchecked frame is not needed")
			}
		})
	}
}

// Skipped frames must not change the folded state.
func TestNeeded_SkippedFramesDoNotChangeFold(t *testing.T) {
	whole, part := NewFold(), NewFold()
	all, some := newWire(t), newWire(t)
	for _, tt := range updates {
		line := updateLine(tt.update)
		for _, e := range all.pass(frame.AgentToClient, "", line) {
			whole.Apply(e)
		}
		if f := scannedFrame(t, line); Needed(&f) {
			for _, e := range some.pass(frame.AgentToClient, "", line) {
				part.Apply(e)
			}
		}
	}
	a, b := &supervisorv1.Session{SessionId: "s"}, &supervisorv1.Session{SessionId: "s"}
	whole.Show("a-1", a)
	part.Show("a-1", b)
	a.Cursor, b.Cursor = "", "" // the last event's
	if a.GetPlan() == nil && a.GetCommands() == nil || !proto.Equal(a, b) {
		t.Errorf("with all  %s\nwith some %s", shown(a), shown(b))
	}
}
