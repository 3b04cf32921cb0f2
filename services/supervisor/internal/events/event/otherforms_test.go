package event

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

func TestDecoder_ReadsOtherFormsOfUpdates(t *testing.T) {
	text := func(kind, text string) string {
		return `{"sessionId":"s","` + kind + `":{"content":{"text":{"text":"` + text + `"}}}}`
	}
	for update, want := range map[string]string{
		`{"type":"text","content":"Hi"}`:                         text("agentMessage", "Hi"),
		`{"type":"text","content":{"text":"Hi"}}`:                text("agentMessage", "Hi"),
		`{"type":"text","content":{"type":"text","text":"Hi"}}`:  text("agentMessage", "Hi"),
		`{"type":"thinking","content":"Hm"}`:                     text("agentThought", "Hm"),
		`{"type":"error","content":"no"}`:                        `{"sessionId":"s","notice":{"severity":"error","title":"The agent reports an error","description":"no"}}`,
		`{"type":"error","content":{"error":{"message":"no"}}}`:  `{"sessionId":"s","notice":{"severity":"error","title":"The agent reports an error","description":"no"}}`,
		`{"type":"error","error":"no"}`:                          `{"sessionId":"s","notice":{"severity":"error","title":"The agent reports an error","description":"no"}}`,
		`{"type":"current_mode_update","content":{"text":"Hi"}}`: `{"sessionId":"s","otherUpdate":{}}`,
		`{"type":"text","content":5}`:                            `{"sessionId":"s","otherUpdate":{}}`,
		`{"sessionUpdate":"currentModeUpdate","modeId":"plan"}`:  `{"sessionId":"s","currentMode":{"modeId":"plan"}}`,
		`{"type":"tool_call","content":{"toolCall":{"id":"c","name":"bash","input":{"command":"ls"},"status":"running"}}}`: `{"sessionId":"s","toolCall":{"toolCallId":"c","title":"bash","name":"bash","status":"in_progress","rawInput":"{\"command\":\"ls\"}"}}`,
		`{"type":"tool_use","toolName":"bash","toolInput":{"command":"ls"},"content":"Listing"}`:                           `{"sessionId":"s","toolCall":{"toolCallId":"bash","title":"bash","name":"bash","rawInput":"{\"command\":\"ls\"}"}}`,
		`{"type":"tool_result","content":{"toolResult":{"callId":"c","output":"a.go","isError":false}}}`: `{"sessionId":"s","toolCallUpdate":{"toolCallId":"c","status":"completed","rawOutput":"\"a.go\"","contentSet":true,` +
			`"content":[{"content":{"text":{"text":"a.go"}}}]}}`,
		`{"type":"agentMessage","content":"Hi"}`:                                 text("agentMessage", "Hi"),
		`{"type":"userMessage","content":{"type":"text","text":"Hi"}}`:           text("userMessage", "Hi"),
		`{"sessionUpdate":"agentMessage","content":{"type":"text","text":"Hi"}}`: text("agentMessage", "Hi"),
		`{"sessionUpdate":"agentMessage","content":"Hi"}`:                        text("agentMessage", "Hi"),
		`{"sessionUpdate":"agentThought","content":"Hm"}`:                        text("agentThought", "Hm"),
		`{"sessionUpdate":"userMessage","content":{"type":"text","text":"Hi"}}`:  text("userMessage", "Hi"),
		`{"status":"idle"}`: `{"sessionId":"s","otherUpdate":{"kind":"state_update"}}`,
		`{"sessionUpdate":"tool_response","toolCallId":"c","output":{"x":1}}`:                            `{"sessionId":"s","toolCallUpdate":{"toolCallId":"c","status":"completed","rawOutput":"{\"x\":1}"}}`,
		`{"sessionUpdate":"tool_error","toolCallId":"c","error":{"message":"no"}}`:                       `{"sessionId":"s","toolCallUpdate":{"toolCallId":"c","status":"failed","rawOutput":"\"no\"","contentSet":true,"content":[{"content":{"text":{"text":"no"}}}]}}`,
		`{"type":"tool_error","toolCallId":"c","content":"no"}`:                                          `{"sessionId":"s","toolCallUpdate":{"toolCallId":"c","status":"failed","rawOutput":"\"no\"","contentSet":true,"content":[{"content":{"text":{"text":"no"}}}]}}`,
		`{"type":"tool_result","content":{"toolResult":{"callId":"c","output":{"x":1},"isError":true}}}`: `{"sessionId":"s","toolCallUpdate":{"toolCallId":"c","status":"failed","rawOutput":"{\"x\":1}"}}`,
	} {
		w := newWire(t)
		w.expect(frame.AgentToClient, "", updateLine(update), want)
		if events := w.pass(frame.AgentToClient, "", updateLine(update)); events[0].GetRaw() != update {
			t.Errorf("%s: raw is %s", update, events[0].GetRaw())
		}
		// The same in the params themselves, and by an older name.
		direct := `{"jsonrpc":"2.0","method":"sessionUpdate","params":{"sessionId":"s",` + strings.TrimPrefix(update, "{") + `}`
		w.expect(frame.AgentToClient, "", direct, want)
		line := []byte(direct)
		if strings.Contains(want, "toolCall") && !Needed(&frame.Frame{Direction: frame.AgentToClient, Scanned: true, Method: []byte(acp.MethodSessionUpdate), Line: line}) {
			t.Errorf("%s is not needed", direct)
		}
	}
}

func TestDecoder_TurnEndsOnce(t *testing.T) {
	endTurn := func(params string) string {
		return `{"jsonrpc":"2.0","method":"session/end_turn","params":{"sessionId":"s"` + params + `}}`
	}
	for params, want := range map[string]string{
		``:                                 `{"sessionId":"s","turnEnded":{"stopReason":"end_turn"}}`,
		`,"reason":"complete"`:             `{"sessionId":"s","turnEnded":{"stopReason":"end_turn"}}`,
		`,"stopReason":"max_tokens"`:       `{"sessionId":"s","turnEnded":{"stopReason":"max_tokens"}}`,
		`,"reason":"cancelled"`:            `{"sessionId":"s","turnEnded":{"stopReason":"cancelled"}}`,
		`,"reason":"error","error":"full"`: `{"sessionId":"s","turnEnded":{"error":{"kind":"ERROR_KIND_AGENT_ERROR","message":"session/prompt: the agent ended the turn with an error: full"}}}`,
	} {
		w := newWire(t)
		w.pass(frame.ClientToAgent, "", asks("1", "prompt", `{"sessionId":"s","prompt":[]}`))
		w.expect(frame.AgentToClient, "", endTurn(params), want)
		w.expect(frame.AgentToClient, "", endTurn(params), `{"sessionId":"s","otherUpdate":{"kind":"session/end_turn"}}`)
		w.quiet(frame.AgentToClient, "", answers("1", `{"stopReason":"end_turn"}`))
		w.pass(frame.ClientToAgent, "", asks("2", "session/prompt", `{"sessionId":"s","prompt":[]}`))
		w.expect(frame.AgentToClient, "", answers("2", `{"stopReason":"refusal"}`), `{"sessionId":"s","turnEnded":{"stopReason":"refusal"}}`)
	}
}

func TestDecoder_AuthComplete(t *testing.T) {
	w := newWire(t)
	w.expect(frame.AgentToClient, "", `{"jsonrpc":"2.0","method":"auth_complete","params":{"ok":true}}`,
		`{"otherUpdate":{"kind":"auth_complete"},"raw":"{\"ok\":true}"}`)
}

func TestDecoder_ReadsOtherMethodNames(t *testing.T) {
	w := newWire(t)
	w.pass(frame.ClientToAgent, "", asks("1", "newSession", `{"cwd":"/w"}`))
	w.expect(frame.AgentToClient, "", answers("1", `{"sessionId":"s"}`), `{"sessionId":"s","sessionOpened":{"method":"session/new","roots":["/w"]}}`)
	w.pass(frame.ClientToAgent, "", asks("2", "newSession", `{"workingDirectory":"/w"}`))
	w.expect(frame.AgentToClient, "", answers("2", `{"sessionId":"u"}`), `{"sessionId":"u","sessionOpened":{"method":"session/new","roots":["/w"]}}`)
	w.expect(frame.ClientToAgent, "", asks("3", "prompt", `{"sessionId":"u","content":"Hi"}`),
		`{"sessionId":"u","turnStarted":{"prompt":[{"text":{"text":"Hi"}}]}}`)
	w.pass(frame.AgentToClient, "", answers("3", `{"stopReason":"end_turn"}`))
	w.expect(frame.AgentToHandler, "fs", asks("7", "readTextFile", `{"sessionId":"s","path":"/w/f"}`),
		`{"sessionId":"s","callStarted":{"id":"7","method":"fs/read_text_file","to":"fs","path":"/w/f"}}`)
	w.expect(frame.AgentToClient, "", asks("8", "requestPermission", `{"sessionId":"s","tool":"bash","description":"Execute: make","options":[{"id":"once","label":"Allow Once"},{"id":"deny","label":"Deny"}]}`),
		`{"sessionId":"s","questionAsked":{"id":"a-1/8","agentId":"a-1","sessionId":"s","permission":{"title":"bash: Execute: make","options":[`+
			`{"optionId":"once","kind":"allow_once","name":"Allow Once"},{"optionId":"deny","kind":"reject_once","name":"Deny"}]}}}`)
	w.expect(frame.ClientToAgent, "", answers("8", `{"optionId":"once"}`),
		`{"sessionId":"s","questionAnswered":{"id":"a-1/8","outcome":"allowed","optionId":"once","answeredBy":"front"}}`)
}

func TestDecoder_FrameWithoutSessionUsesGivenSession(t *testing.T) {
	w := newWire(t)
	line := `{"jsonrpc":"2.0","id":1,"method":"prompt","params":{"prompt":[]}}`
	events := w.d.Frame(frame.Frame{Seq: 1, Direction: frame.ClientToAgent, Line: []byte(line), SessionID: []byte("s")})
	if len(events) != 1 || events[0].GetSessionId() != "s" || events[0].GetTurnStarted() == nil {
		t.Errorf("got %v", events)
	}
}
