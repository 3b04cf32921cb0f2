package event

import (
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

func TestDecoder_SumsUsageOfModelRequests(t *testing.T) {
	w := newWire(t)
	took := func(tokens string) {
		t.Helper()
		w.pass(frame.AgentToClient, "", updateLine(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""},"_meta":{"usage":{"inputTokens":`+tokens+`,"outputTokens":2,"totalTokens":9,"thoughtTokens":1,"cachedReadTokens":3}}}`))
	}
	end := func(id, result, usage string) {
		t.Helper()
		w.expect(frame.AgentToClient, "", answers(id, result), `{"sessionId":"s","turnEnded":{"stopReason":"end_turn"`+usage+`}}`)
	}
	prompt := func(id string) {
		w.pass(frame.ClientToAgent, "", asks(id, "session/prompt", `{"sessionId":"s","prompt":[]}`))
	}

	took("1000") // of no turn
	prompt("1")
	took("4")
	took("5")
	end("1", `{"stopReason":"end_turn"}`, `,"usage":{"input":"9","output":"4","total":"18","thought":"2","cachedRead":"6"}`)
	prompt("2")
	end("2", `{"stopReason":"end_turn"}`, ``)
	prompt("3")
	took("4")
	end("3", `{"stopReason":"end_turn","usage":{"totalTokens":1,"inputTokens":1,"outputTokens":0}}`, `,"usage":{"total":"1","input":"1"}`)
	prompt("4")
	w.pass(frame.AgentToClient, "", updateLine(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"said"},"_meta":{"usage":{"inputTokens":7}}}`))
	end("4", `{"stopReason":"end_turn"}`, ``)
	if len(w.d.spent) != 0 {
		t.Errorf("kept is %v", w.d.spent)
	}
}
