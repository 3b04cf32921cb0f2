package event_test

import (
	"testing"

	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
)

func TestDecoder_ReturnsUpdatesOfChildSessions(t *testing.T) {
	const update = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-child","update":`
	for _, scanned := range []bool{true, false} { // live, and from a record
		d := event.NewDecoder(frame.Agent{ID: "a"}, nil)
		tell := func(body string) frame.Frame {
			f := frame.Frame{Direction: frame.AgentToClient, SessionID: []byte("s"), Line: []byte(update + body + "}}")}
			if scanned {
				f.Scanned, f.Method = true, []byte("session/update")
			}
			return f
		}
		message := d.Frame(tell(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}`))
		if len(message) != 1 || message[0].GetSessionId() != "s" || message[0].GetOtherUpdate().GetKind() != client.ChildSessionUpdate {
			t.Errorf("scanned %v: a message of a child is reported as %v", scanned, message)
		}
		called := d.Frame(tell(`{"sessionUpdate":"tool_call","toolCallId":"1","title":"T"}`))
		if len(called) != 1 || called[0].GetSessionId() != "s" || called[0].GetToolCall() == nil {
			t.Errorf("scanned %v: a tool call of a child is reported as %v", scanned, called)
		}
	}
}
