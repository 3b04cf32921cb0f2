package event

import (
	"fmt"
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

func asks(id, method, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`
}

func answers(id, result string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}`
}

func fails(id, fault string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"error":` + fault + `}`
}

func cancel(id string) string {
	return `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":` + id + `}}`
}

func TestDecoder_Turn(t *testing.T) {
	w := newWire(t)
	w.expect(frame.ClientToAgent, "", asks("1", "session/prompt", `{"sessionId":"s","prompt":[{"type":"text","text":"hi"}]}`),
		`{"sessionId":"s","turnStarted":{"prompt":[{"text":{"text":"hi"}}]},"raw":"{\"sessionId\":\"s\",\"prompt\":[{\"type\":\"text\",\"text\":\"hi\"}]}"}`)
	w.expect(frame.AgentToClient, "", answers("1", `{"stopReason":"end_turn","usage":{"totalTokens":6,"inputTokens":1,"outputTokens":2,"thoughtTokens":3,"cachedReadTokens":null,"cachedWriteTokens":4}}`),
		`{"sessionId":"s","turnEnded":{"stopReason":"end_turn","usage":{"total":"6","input":"1","output":"2","thought":"3","cachedWrite":"4"}}}`)
	w.quiet(frame.AgentToClient, "", answers("1", `{"stopReason":"end_turn"}`)) // once is enough
}

func TestDecoder_FailedTurnHasReason(t *testing.T) {
	w := newWire(t)
	w.pass(frame.ClientToAgent, "", asks(`"x"`, "session/prompt", `{"sessionId":"s","prompt":[]}`))
	w.expect(frame.AgentToClient, "", fails(`"\u0078"`, `{"code":-32000,"message":"Authentication required"}`),
		`{"sessionId":"s","raw":"{\"code\":-32000,\"message\":\"Authentication required\"}","turnEnded":{"error":{"kind":"ERROR_KIND_AUTH_REQUIRED","code":-32000,"message":"session/prompt: the agent requires a login first: Authentication required"}}}`)
}

func TestDecoder_OmitsLargePromptContent(t *testing.T) {
	w := newWire(t)
	long := strings.Repeat("x", 70<<10)
	e := w.pass(frame.ClientToAgent, "", asks("1", "session/prompt",
		`{"sessionId":"s","prompt":[{"type":"text","text":"`+long+`"},{"type":"image","data":"`+strings.Repeat("A", 80<<10)+`","mimeType":"image/png"},{"type":"resource","resource":{"uri":"file:///a","text":"`+long+`"}},{"type":"text","text":"short"}]}`))[0]
	prompt := e.GetTurnStarted().GetPrompt()
	if len(prompt) != 4 || prompt[0].GetText() == nil || prompt[0].GetText().GetText() != "" || prompt[1].GetImage().GetMimeType() != "image/png" ||
		len(prompt[1].GetImage().GetData()) != 0 || prompt[2].GetResource().GetUri() != "file:///a" || prompt[2].GetResource().GetText() != "" ||
		prompt[3].GetText().GetText() != "short" {
		t.Errorf("got %.2000s", shown(e.GetTurnStarted()))
	}
	if len(e.GetRaw()) < 200<<10 {
		t.Errorf("raw has %d bytes", len(e.GetRaw()))
	}
}

func TestDecoder_SessionOpenAndClose(t *testing.T) {
	w := newWire(t)
	w.quiet(frame.ClientToAgent, "", asks("0", "session/new", `{"cwd":"/w","additionalDirectories":["/x",7],"mcpServers":[]}`))
	w.expect(frame.AgentToClient, "", answers("0", `{"sessionId":"s","modes":{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask","description":"d"},{"name":"no id"}]},"configOptions":[{"id":"b","name":"B","type":"boolean","currentValue":true}],"models":{"currentModelId":"m","availableModels":[{"modelId":"m","name":"M","description":"big"}]}}`),
		`{"sessionId":"s","sessionOpened":{"method":"session/new","roots":["/w","/x"],"modeId":"ask","modes":[{"id":"ask","name":"Ask","description":"d"}],"options":[{"id":"b","name":"B","enabled":true}],"modelId":"m","models":[{"value":"m","name":"M","description":"big"}]}}`)
	w.quiet(frame.ClientToAgent, "", asks("1", "session/fork", `{"sessionId":"s","cwd":"/w"}`))
	w.expect(frame.AgentToClient, "", answers("1", `{"sessionId":"s2"}`), `{"sessionId":"s2","sessionOpened":{"method":"session/fork","roots":["/w"]}}`)
	w.quiet(frame.ClientToAgent, "", asks("2", "session/resume", `{"sessionId":"s","cwd":"/v"}`))
	w.expect(frame.AgentToClient, "", answers("2", `{"sessionId":"evil"}`), `{"sessionId":"s","sessionOpened":{"method":"session/resume","roots":["/v"]}}`)
	w.quiet(frame.ClientToAgent, "", asks("3", "session/new", `{"cwd":"/w"}`))
	w.quiet(frame.AgentToClient, "", fails("3", `{"code":-32000,"message":"log in"}`))
	for _, method := range []string{"session/close", "session/delete"} {
		w.quiet(frame.ClientToAgent, "", asks("4", method, `{"sessionId":"s"}`))
		w.expect(frame.AgentToClient, "", answers("4", `{}`), `{"sessionId":"s","sessionClosed":{"reason":"`+method+`"}}`)
		w.quiet(frame.ClientToAgent, "", asks("5", method, `{"sessionId":"s"}`))
		w.quiet(frame.AgentToClient, "", fails("5", `{"code":-32002,"message":"?"}`))
	}
}

func TestDecoder_ModeAndConfigOfClient(t *testing.T) {
	w := newWire(t)
	w.quiet(frame.ClientToAgent, "", asks("1", "session/set_mode", `{"sessionId":"s","modeId":"code"}`))
	w.expect(frame.AgentToClient, "", answers("1", `{}`), `{"sessionId":"s","currentMode":{"modeId":"code"}}`)
	w.quiet(frame.ClientToAgent, "", asks("2", "session/set_model", `{"sessionId":"s","modelId":"big"}`))
	w.expect(frame.AgentToClient, "", answers("2", `{}`), `{"sessionId":"s","raw":"{\"sessionUpdate\":\"current_model_update\",\"currentModelId\":\"big\"}","otherUpdate":{"kind":"current_model_update"}}`)
	w.quiet(frame.ClientToAgent, "", asks("3", "session/set_config_option", `{"sessionId":"s","configId":"b","type":"boolean","value":true}`))
	w.expect(frame.AgentToClient, "", answers("3", `{"configOptions":[{"id":"b","name":"B","type":"boolean","currentValue":true}]}`), `{"sessionId":"s","configOptions":{"options":[{"id":"b","name":"B","enabled":true}]}}`)
	w.quiet(frame.ClientToAgent, "", asks("4", "session/set_mode", `{"sessionId":"s","modeId":"code"}`))
	w.quiet(frame.AgentToClient, "", fails("4", `{"code":-32602,"message":"no"}`))
}

func TestDecoder_MarksHistoryDuringLoad(t *testing.T) {
	chunk := updateLine(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}`)
	history := func(w *wire, want bool) {
		t.Helper()
		if got := w.pass(frame.AgentToClient, "", chunk)[0].GetHistory(); got != want {
			t.Errorf("history %v, want %v", got, want)
		}
	}
	w := newWire(t)
	history(w, false)
	w.pass(frame.ClientToAgent, "", asks("1", "session/load", `{"sessionId":"s","cwd":"/w"}`))
	history(w, true)
	if other := strings.Replace(chunk, `"s"`, `"other"`, 1); w.pass(frame.AgentToClient, "", other)[0].GetHistory() {
		t.Error("another session's update is history")
	}
	w.pass(frame.AgentToClient, "", answers("1", `null`))
	history(w, false)
	w.pass(frame.ClientToAgent, "", asks("2", "session/load", `{"sessionId":"s","cwd":"/w"}`))
	w.pass(frame.AgentToClient, "", fails("2", `{"code":1,"message":"no"}`))
	history(w, false)
	w.pass(frame.ClientToAgent, "", asks("3", "session/resume", `{"sessionId":"s","cwd":"/w"}`))
	history(w, false)
	w.pass(frame.ClientToAgent, "", asks("4", "session/resume", `{"sessionId":"s","cwd":"/w","replayFrom":{"x":1}}`))
	history(w, true)
	w.pass(frame.ClientToAgent, "", asks("5", "session/prompt", `{"sessionId":"s","prompt":[]}`)) // its answer was lost
	history(w, false)
	w.pass(frame.AgentToClient, "", answers("4", `null`))
	history(w, false)
}

func TestDecoder_Calls(t *testing.T) {
	w := newWire(t)
	w.expect(frame.AgentToHandler, "fs", asks("1", "fs/read_text_file", `{"sessionId":"s","path":"/a"}`),
		`{"sessionId":"s","raw":"{\"sessionId\":\"s\",\"path\":\"/a\"}","callStarted":{"id":"1","method":"fs/read_text_file","to":"fs","path":"/a"}}`)
	w.expect(frame.HandlerToAgent, "fs", answers("1", `{"content":"x"}`), `{"sessionId":"s","raw":"{\"content\":\"x\"}","touches":[{"path":"/a","action":"FILE_ACTION_READ"}],"callEnded":{"id":"1","method":"fs/read_text_file"}}`)
	w.expect(frame.AgentToHandler, "terminal", asks(`"c"`, "terminal/create", `{"sessionId":"s","command":"ls"}`),
		`{"sessionId":"s","callStarted":{"id":"\"c\"","method":"terminal/create","to":"terminal"}}`)
	w.expect(frame.HandlerToAgent, "terminal", answers(`"c"`, `{"terminalId":"T"}`), `{"sessionId":"s","callEnded":{"id":"\"c\"","method":"terminal/create","terminalId":"T"}}`)
	w.expect(frame.AgentToHandler, "terminal", asks("2", "terminal/output", `{"sessionId":"s","terminalId":"T"}`),
		`{"sessionId":"s","callStarted":{"id":"2","method":"terminal/output","to":"terminal","terminalId":"T"}}`)
	w.expect(frame.OursToAgent, "", fails("2", `{"code":-32603,"message":"terminal/output: denied"}`),
		`{"sessionId":"s","callEnded":{"id":"2","method":"terminal/output","error":"terminal/output: denied","errorCode":-32603}}`)
	w.expect(frame.AgentToClient, "", asks("3", "_acme/x", `{}`), `{"callStarted":{"id":"3","method":"_acme/x","to":"front"}}`)
	w.expect(frame.ClientToAgent, "", answers("3", `{"terminalId":"T"}`), `{"callEnded":{"id":"3","method":"_acme/x"}}`)
}

func TestDecoder_ForwardedCallStartsOnce(t *testing.T) {
	w := newWire(t)
	line := asks("1", "fs/write_text_file", `{"sessionId":"s","path":"/a"}`)
	w.expect(frame.AgentToHandler, "gate", line, `{"sessionId":"s","callStarted":{"id":"1","method":"fs/write_text_file","to":"gate","path":"/a"}}`)
	w.quiet(frame.AgentToClient, "", line)
	w.expect(frame.ClientToAgent, "", answers("1", `null`), `{"sessionId":"s","touches":[{"path":"/a","action":"FILE_ACTION_WRITE"}],"callEnded":{"id":"1","method":"fs/write_text_file"}}`)
}

func TestDecoder_ReusedIDEndsRequest(t *testing.T) {
	w := newWire(t)
	const why = "it is not known what came of it: too many requests are open, or its id was used again"
	w.pass(frame.AgentToClient, "", asks("1", "_x", `{}`))
	w.expect(frame.AgentToClient, "", asks("1", "_x", `{"sessionId":"s"}`),
		`{"callEnded":{"id":"1","method":"_x","error":"`+why+`"}}`, `{"sessionId":"s","callStarted":{"id":"1","method":"_x","to":"front"}}`)
	w.pass(frame.ClientToAgent, "", asks("1", "session/prompt", `{"sessionId":"s"}`))
	w.expect(frame.ClientToAgent, "", asks("1", "session/list", `{}`),
		`{"sessionId":"s","turnEnded":{"error":{"message":"session/prompt: its id was used again"}}}`)
	w.quiet(frame.AgentToClient, "", answers("1", `{"sessions":[]}`))
}

func TestDecoder_RefusalOfReusedIDEndsNothing(t *testing.T) {
	w := newWire(t)
	w.pass(frame.AgentToClient, "", asks("1", "_x", `{}`))
	w.quiet(frame.OursToAgent, "", fails("1", `{"code":-32600,"message":"_y: a request with id 1 is in flight already"}`))
	w.expect(frame.ClientToAgent, "", answers("1", `{}`), `{"callEnded":{"id":"1","method":"_x"}}`)
	w.pass(frame.ClientToAgent, "", asks("1", "session/prompt", `{"sessionId":"s"}`))
	w.quiet(frame.OursToClient, "", fails("1", `{"code":-32600,"message":"session/prompt: a request with id 1 is in flight already"}`))
	w.expect(frame.AgentToClient, "", answers("1", `{"stopReason":"refusal"}`), `{"sessionId":"s","turnEnded":{"stopReason":"refusal"}}`)
}

func TestDecoder_IDsOfPeersAreIndependent(t *testing.T) {
	w := newWire(t)
	w.pass(frame.ClientToAgent, "", asks("1", "session/prompt", `{"sessionId":"s"}`))
	w.pass(frame.AgentToClient, "", asks("1", "_x", `{"sessionId":"s"}`))
	w.expect(frame.ClientToAgent, "", answers("1", `{}`), `{"sessionId":"s","callEnded":{"id":"1","method":"_x"}}`)
	w.expect(frame.AgentToClient, "", answers("1.0", `{"stopReason":"end_turn"}`), `{"sessionId":"s","turnEnded":{"stopReason":"end_turn"}}`)
}

const askParams = `{"sessionId":"s","toolCall":{"toolCallId":"t","title":"Run","kind":"execute","content":[{"type":"terminal","terminalId":"T"}],"locations":[{"path":"/a"}],"rawInput":{"c":1}},"options":[{"optionId":"y","kind":"allow_once","name":"Yes"},{"optionId":"n","kind":"reject_once","name":"No"},{"kind":"reject_always"}]}`

const askedWant = `{"toolCallId":"t","title":"Run","kind":"execute","content":[{"terminalId":"T"}],"locations":[{"path":"/a"}],"rawInput":"{\"c\":1}","options":[{"optionId":"y","kind":"allow_once","name":"Yes"},{"optionId":"n","kind":"reject_once","name":"No"}]`

// answeredWith is the end of the question of askParams, whose file is blocked if the user rejects it.
func answeredWith(outcome, option, by string) string {
	touches := ""
	if outcome == "denied" || outcome == "expired" {
		touches = `"touches":[{"path":"/a","action":"FILE_ACTION_BLOCKED","refused":"FILE_ACTION_READ"}],`
	}
	return answeredTouching(touches, outcome, option, by)
}

func answeredTouching(touches, outcome, option, by string) string {
	o := ""
	if option != "" {
		o = `"optionId":"` + option + `",`
	}
	return `{"sessionId":"s",` + touches + `"questionAnswered":{"id":"a-1/7","outcome":"` + outcome + `",` + o + `"answeredBy":"` + by + `"}}`
}

func TestDecoder_PermissionQuestionHasAnswerer(t *testing.T) {
	selected := func(id string) string { return answers("7", `{"outcome":{"outcome":"selected","optionId":"`+id+`"}}`) }
	cancelled := answers("7", `{"outcome":{"outcome":"cancelled"}}`)
	tests := []struct {
		name, handler, line, want string
		direction                 frame.Direction
	}{
		{"the front allows", "", selected("y"), answeredWith("allowed", "y", "front"), frame.ClientToAgent},
		{"the front denies", "", selected("n"), answeredWith("denied", "n", "front"), frame.ClientToAgent},
		{"the front chooses an option that is not offered", "", selected("z"), answeredWith("denied", "z", "front"), frame.ClientToAgent},
		{"the front cancels", "", cancelled, answeredWith("cancelled", "", "front"), frame.ClientToAgent},
		{"the front fails", "", fails("7", `{"code":-32603,"message":"x"}`), answeredWith("cancelled", "", "front"), frame.ClientToAgent},
		{"a program answers", "cli", selected("y"), answeredWith("allowed", "y", "cli"), frame.OursToAgent},
		{"there is no answer", "nobody", selected("n"), answeredWith("expired", "n", "nobody"), frame.OursToAgent},
		{"there is no answer, and the policy allows it then", "nobody", selected("y"), answeredWith("allowed", "y", "nobody"), frame.OursToAgent},
		{"a policy answers after all", "", selected("n"), answeredWith("denied", "n", "policy"), frame.OursToAgent},
		{"the turn is cancelled", "", cancelled, answeredWith("cancelled", "", "nobody"), frame.OursToAgent},
		{"the agent gives it up", "", cancel("7"), answeredWith("withdrawn", "", "nobody"), frame.AgentToClient},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWire(t)
			w.quiet(frame.AgentToHandler, "gate", asks("7", "session/request_permission", askParams))
			w.expect(frame.AgentToClient, "", asks("7", "session/request_permission", askParams),
				`{"sessionId":"s","questionAsked":{"id":"a-1/7","agentId":"a-1","sessionId":"s","permission":`+askedWant+`}}}`)
			w.quiet(frame.OursToClient, "", cancel("7")) // the client's answer is not needed any more
			w.expect(tt.direction, tt.handler, tt.line, tt.want)
			w.quiet(frame.ClientToAgent, "", selected("y"))
		})
	}
}

func TestDecoder_OmitsQuestionsAnsweredByPolicy(t *testing.T) {
	w := newWire(t)
	w.quiet(frame.AgentToHandler, "gate", asks("7", "session/request_permission", askParams))
	w.quiet(frame.OursToAgent, "", answers("7", `{"outcome":{"outcome":"selected","optionId":"y"}}`))
}

func TestDecoder_QuestionMergesToolCall(t *testing.T) {
	w := newWire(t)
	w.pass(frame.AgentToClient, "", updateLine(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Edit","kind":"edit","content":[{"type":"diff","path":"/a","newText":"x"}],"locations":[{"path":"/a"}],"rawInput":{"p":1}}`))
	w.pass(frame.AgentToClient, "", updateLine(`{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"Edit a"}`))
	e := w.pass(frame.AgentToClient, "", asks("1", "session/request_permission", `{"sessionId":"s","toolCall":{"toolCallId":"t","rawInput":{}},"options":[]}`))[0]
	want := `{"toolCallId":"t","title":"Edit a","kind":"edit","content":[{"diff":{"path":"/a","newText":"x"}}],"locations":[{"path":"/a"}],"rawInput":"{\"p\":1}"}`
	e.GetQuestionAsked().Id = ""
	compare(t, e, `{"sessionId":"s","questionAsked":{"agentId":"a-1","sessionId":"s","permission":`+want+`}}`)
	e = w.pass(frame.AgentToClient, "", asks("2", "session/request_permission", `{"sessionId":"other","toolCall":{"toolCallId":"t"},"options":[]}`))[0]
	if got := e.GetQuestionAsked().GetPermission().GetTitle(); got != "" {
		t.Errorf("another session's tool call is called %q", got)
	}
}

func TestDecoder_DuplicateOptionIDMeansReject(t *testing.T) {
	for _, options := range []string{
		`[{"optionId":"x","kind":"allow_once","name":"Yes"},{"optionId":"x","kind":"reject_once","name":"No"}]`,
		`[{"optionId":"x","kind":"reject_once","name":"No"},{"optionId":"x","kind":"allow_once","name":"Yes"}]`,
	} {
		w := newWire(t)
		w.pass(frame.AgentToClient, "", asks("7", "session/request_permission", `{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":`+options+`}`))
		w.expect(frame.ClientToAgent, "", answers("7", `{"outcome":{"outcome":"selected","optionId":"x"}}`), answeredTouching("", "denied", "x", "front"))
	}
}

func TestDecoder_OwnQuestion(t *testing.T) {
	params := `{"sessionId":"s","toolCall":{"toolCallId":"acphost-1","title":"Write /a","kind":"edit","content":[{"type":"content","content":{"type":"text","text":"Asked because: it is new"}}],"locations":[]},"options":[{"optionId":"allow_once","kind":"allow_once","name":"Allow"}]}`
	asked := `{"sessionId":"s","questionAsked":{"id":"a-1/OWN","agentId":"a-1","sessionId":"s","permission":{"toolCallId":"acphost-1","title":"Write /a","kind":"edit","content":[{"content":{"text":{"text":"Asked because: it is new"}}}],"options":[{"optionId":"allow_once","kind":"allow_once","name":"Allow"}],"fromAcphost":true,"reason":"it is new"}}}`
	answered := func(outcome, option, by string) string {
		return strings.Replace(answeredWith(outcome, option, by), "a-1/7", "a-1/OWN", 1)
	}
	goesOn := updateLine(`{"sessionUpdate":"tool_call_update","toolCallId":"acphost-1","status":"failed"}`)
	yes := answers(`"OWN"`, `{"outcome":{"outcome":"selected","optionId":"allow_once"}}`)
	// The reason is after a diff, and before a command.
	const why, sent = `{"type":"content","content":{"type":"text","text":"Asked because: it is new"}}`, `{"type":"content","content":{"type":"text","text":"a; b"}}`
	const shown, text = `{"content":{"text":{"text":"Asked because: it is new"}}}`, `{"content":{"text":{"text":"a; b"}}}`
	for order, shownAs := range map[string]string{why + "," + sent: shown + "," + text, sent + "," + why: text + "," + shown} {
		w := newWire(t)
		w.expect(frame.OursToClient, "", asks(`"OWN"`, "session/request_permission", strings.Replace(params, why, order, 1)), strings.Replace(asked, shown, shownAs, 1))
	}
	t.Run("the front answers", func(t *testing.T) {
		w := newWire(t)
		w.expect(frame.OursToClient, "", asks(`"OWN"`, "session/request_permission", params), asked)
		w.quiet(frame.OursToClient, "", goesOn)
		w.expect(frame.ClientToOurs, "", yes, answered("allowed", "allow_once", "front"))
		w.quiet(frame.OursToClient, "", cancel(`"OWN"`))
	})
	t.Run("a program answers", func(t *testing.T) {
		w := newWire(t)
		w.expect(frame.OursToClient, "", asks(`"OWN"`, "session/request_permission", params), asked)
		w.expect(frame.ClientToOurs, "grpc", yes, answered("allowed", "allow_once", "grpc"))
		w.quiet(frame.OursToClient, "", cancel(`"OWN"`))
	})
	t.Run("it is not needed any more", func(t *testing.T) {
		w := newWire(t)
		w.expect(frame.OursToClient, "", asks(`"OWN"`, "session/request_permission", params), asked)
		w.quiet(frame.AgentToClient, "", cancel(`"OWN"`)) // it is not the agent's to withdraw
		w.expect(frame.OursToClient, "", cancel(`"OWN"`), answered("withdrawn", "", "nobody"))
		w.quiet(frame.ClientToOurs, "", yes)
	})
}

func TestDecoder_Elicitations(t *testing.T) {
	w := newWire(t)
	id, use := "a-1/1", 1
	answer := func(outcome string) string {
		return `{"sessionId":"s","questionAnswered":{"id":"` + id + `","outcome":"` + outcome + `","answeredBy":"front"}}`
	}
	w.expect(frame.AgentToClient, "", asks("1", "elicitation/create", `{"sessionId":"s","toolCallId":"t","mode":"form","message":"Who?","requestedSchema":{"type":"object"}}`),
		`{"sessionId":"s","questionAsked":{"id":"a-1/1","agentId":"a-1","sessionId":"s","elicitation":{"mode":"form","message":"Who?","requestedSchema":"{\"type\":\"object\"}","toolCallId":"t"}}}`)
	w.expect(frame.ClientToAgent, "", answers("1", `{"action":"accept","content":{}}`), answer("accepted"))
	for action, outcome := range map[string]string{"decline": "declined", "cancel": "cancelled", "what": "cancelled"} {
		use++
		id = fmt.Sprintf("a-1/1~%d", use) // the agent uses it again
		w.pass(frame.AgentToClient, "", asks("1", "elicitation/create", `{"sessionId":"s","message":"?"}`))
		w.expect(frame.ClientToAgent, "", answers("1", `{"action":"`+action+`"}`), answer(outcome))
	}
	w.pass(frame.ClientToAgent, "", asks("9", "session/prompt", `{"sessionId":"s","prompt":[]}`))
	w.expect(frame.AgentToClient, "", asks("2", "elicitation/create", `{"requestId":9,"mode":"url","message":"Open","url":"https://x","elicitationId":"e"}`),
		`{"sessionId":"s","questionAsked":{"id":"a-1/2","agentId":"a-1","sessionId":"s","elicitation":{"mode":"url","message":"Open","url":"https://x","elicitationId":"e"}}}`)
}

const crash = `{"code":-32603,"message":"the agent crashed","data":{"acphost":{"kind":"crashed","exitCode":3,"signal":"SIGKILL","stderrTail":["one","two"]}}}`

func TestDecoder_AgentEndEndsRequests(t *testing.T) {
	w := newWire(t)
	w.pass(frame.ClientToAgent, "", asks("1", "session/prompt", `{"sessionId":"s"}`))
	w.pass(frame.ClientToAgent, "", asks("2", "session/prompt", `{"sessionId":"other"}`))
	w.pass(frame.AgentToHandler, "fs", asks("1", "fs/read_text_file", `{"sessionId":"s","path":"/a"}`))
	w.pass(frame.AgentToClient, "", asks("7", "session/request_permission", askParams))
	w.pass(frame.AgentToClient, "", asks("8", "_x", `{"sessionId":"other"}`))
	w.expect(frame.OursToClient, "", fails("1", crash),
		`{"cursor":"i-6.1","sessionId":"s","turnEnded":{"error":{"kind":"ERROR_KIND_CRASHED","message":"session/prompt: the agent crashed","exitCode":3,"signal":"SIGKILL","stderrTail":["one","two"]}}}`,
		`{"cursor":"i-6.2","sessionId":"s","callEnded":{"id":"1","method":"fs/read_text_file","error":"the agent is gone"}}`,
		`{"cursor":"i-6.3","sessionId":"s","questionAnswered":{"id":"a-1/7","outcome":"withdrawn","answeredBy":"nobody"}}`)
	w.expect(frame.OursToClient, "", fails("2", strings.Replace(crash, "crashed\",\"exit", "stopped\",\"exit", 1)),
		`{"sessionId":"other","turnEnded":{"error":{"kind":"ERROR_KIND_STOPPED","message":"session/prompt: the agent crashed","exitCode":3,"signal":"SIGKILL","stderrTail":["one","two"]}}}`,
		`{"sessionId":"other","callEnded":{"id":"8","method":"_x","error":"the agent is gone"}}`)
}

func TestDecoder_IgnoresAgentEndOfAgent(t *testing.T) {
	w := newWire(t)
	w.pass(frame.ClientToAgent, "", asks("1", "session/prompt", `{"sessionId":"s"}`))
	w.pass(frame.AgentToClient, "", asks("8", "_x", `{"sessionId":"s"}`))
	got := w.pass(frame.AgentToClient, "", fails("1", crash))
	if len(got) != 1 || got[0].GetTurnEnded().GetError().GetKind().String() != "ERROR_KIND_AGENT_ERROR" || got[0].GetTurnEnded().GetError().GetSignal() != "" {
		t.Errorf("made %s", shownAll(got))
	}
}

func TestDecoder_ReconnectEndsOpenRequests(t *testing.T) {
	w := newWire(t)
	w.pass(frame.ClientToAgent, "", asks("1", "session/prompt", `{"sessionId":"s"}`))
	w.pass(frame.AgentToClient, "", asks("7", "session/request_permission", askParams))
	w.pass(frame.ClientToAgent, "", asks("2", "session/load", `{"sessionId":"s2","cwd":"/"}`))
	w.expect(frame.ClientToAgent, "", asks("0", "initialize", `{"protocolVersion":1}`),
		`{"sessionId":"s","turnEnded":{"error":{"message":"session/prompt: the connection to the agent has ended"}}}`,
		`{"sessionId":"s","questionAnswered":{"id":"a-1/7","outcome":"withdrawn","answeredBy":"nobody"}}`)
	w.quiet(frame.AgentToClient, "", answers("0", `{"protocolVersion":1}`))
	w.quiet(frame.AgentToClient, "", answers("1", `{"stopReason":"end_turn"}`))
}

func TestDecoder_EvictsOldestRequests(t *testing.T) {
	w := newWire(t)
	for i := range maxRequests {
		if got := w.pass(frame.AgentToClient, "", asks(fmt.Sprint(i), "_x", `{}`)); len(got) != 1 {
			t.Fatalf("request %d made %s", i, shownAll(got))
		}
	}
	got := w.pass(frame.AgentToClient, "", asks("9999", "_x", `{}`))
	if len(got) != 2 || got[0].GetCallEnded().GetId() != "0" || got[0].GetCallEnded().GetError() == "" || got[1].GetCallStarted().GetId() != "9999" {
		t.Errorf("made %s", shownAll(got))
	}
	if n := w.d.calls.Len(); n != maxRequests {
		t.Errorf("%d requests are remembered", n)
	}
	w.quiet(frame.ClientToAgent, "", answers("0", `{}`))
	for i := range 2 * maxReported {
		w.pass(frame.AgentToClient, "", updateLine(fmt.Sprintf(`{"sessionUpdate":"tool_call","toolCallId":"t%d"}`, i)))
	}
	if n := w.d.reports.known.Len(); n != maxReported {
		t.Errorf("%d tool calls are remembered", n)
	}
}

func TestDecoder_Version2TurnEndsWhenIdle(t *testing.T) {
	w := newWire(t)
	idle := `{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn","usage":{"totalTokens":3}}`
	prompt := func() {
		w.pass(frame.ClientToAgent, "", asks("1", "session/prompt", `{"sessionId":"s","prompt":[]}`))
		w.quiet(frame.AgentToClient, "", answers("1", `{"messageId":"m"}`))
	}
	w.expect(frame.AgentToClient, "", updateLine(idle), `{"sessionId":"s","otherUpdate":{"kind":"state_update"}}`)
	prompt()
	w.expect(frame.AgentToClient, "", updateLine(`{"sessionUpdate":"state_update","state":"running"}`), `{"sessionId":"s","otherUpdate":{"kind":"state_update"}}`)
	w.expect(frame.AgentToClient, "", updateLine(idle), `{"sessionId":"s","turnEnded":{"stopReason":"end_turn","usage":{"total":"3"}}}`)
	prompt()
	w.expect(frame.AgentToClient, "", updateLine(`{"sessionUpdate":"state_update","state":"idle","stopReason":"error","error":{"code":1,"message":"no"}}`),
		`{"sessionId":"s","turnEnded":{"error":{"kind":"ERROR_KIND_AGENT_ERROR","code":1,"message":"session/prompt: the agent answered with an error: no"}}}`)
	prompt()
	w.expect(frame.ClientToAgent, "", asks("0", "initialize", `{}`), `{"sessionId":"s","turnEnded":{"error":{"message":"session/prompt: the connection to the agent has ended"}}}`)
	w.pass(frame.ClientToAgent, "", asks("1", "session/prompt", `{"sessionId":"s","prompt":[]}`))
	w.expect(frame.AgentToClient, "", answers("1", `{}`), `{"sessionId":"s","turnEnded":{}}`)

	w.quiet(frame.ClientToAgent, "", asks("0", "initialize", `{}`))
	w.quiet(frame.AgentToClient, "", answers("0", `{"protocolVersion":2}`))
	w.pass(frame.ClientToAgent, "", asks("1", "session/prompt", `{"sessionId":"s","prompt":[]}`))
	w.quiet(frame.AgentToClient, "", answers("1", `{}`)) // of a draft
	w.expect(frame.AgentToClient, "", updateLine(idle), `{"sessionId":"s","turnEnded":{"stopReason":"end_turn","usage":{"total":"3"}}}`)
}

func TestDecoder_Version2PermissionQuestion(t *testing.T) {
	w := newWire(t)
	w.pass(frame.AgentToClient, "", updateLine(`{"sessionUpdate":"tool_call_update","toolCallId":"t","kind":"execute"}`))
	id, use := "a-1/7", 1
	for _, c := range []struct{ subject, want string }{ // in this order: an input is kept
		{`{"type":"tool_call","toolCall":{"toolCallId":"t","title":"Run"}}`, `"toolCallId":"t","kind":"execute"`},
		{`{"type":"command","command":"ls","cwd":"/","toolCallId":"t"}`, `"toolCallId":"t","kind":"execute",` +
			`"rawInput":"{\"command\":\"ls\",\"cwd\":\"/\"}"`},
		{`null`, `"toolCallId":""`},
	} {
		w.expect(frame.AgentToClient, "", asks("7", "session/request_permission", `{"sessionId":"s","title":"May I?","subject":`+c.subject+`,"options":[]}`),
			`{"sessionId":"s","questionAsked":{"id":"`+id+`","agentId":"a-1","sessionId":"s","permission":{"title":"May I?",`+c.want+`}}}`)
		w.pass(frame.ClientToAgent, "", answers("7", `{"outcome":{"outcome":"cancelled"}}`))
		use++
		id = fmt.Sprintf("a-1/7~%d", use)
	}
}

func TestDecoder_AgentCancellationEndsNoCall(t *testing.T) {
	w := newWire(t)
	w.pass(frame.AgentToClient, "", asks("1", "_x", `{}`))
	w.quiet(frame.AgentToClient, "", cancel("1"))
	w.quiet(frame.AgentToClient, "", cancel("null"))
	w.quiet(frame.ClientToAgent, "", cancel("1"))
	w.expect(frame.ClientToAgent, "", fails("1", `{"code":-32800,"message":"cancelled"}`), `{"callEnded":{"id":"1","method":"_x","error":"cancelled","errorCode":-32800}}`)
}

func TestDecoder_IgnoresRefusedFrames(t *testing.T) {
	w := newWire(t)
	for _, line := range []string{`{`, updateLine(`{"sessionUpdate":"plan","entries":[]}`), asks("1", "session/prompt", `{"sessionId":"s"}`), asks("1", "_x", `{}`)} {
		for _, d := range []frame.Direction{frame.AgentToClient, frame.ClientToAgent} {
			w.quiet(d, "refused", line)
			if Needed(&frame.Frame{Direction: d, Handler: "refused", Line: []byte(line)}) {
				t.Errorf("%s is needed", line)
			}
		}
	}
	w.quiet(frame.ClientToAgent, "", answers("1", `{}`))
}

func TestDecoder_LimitsMemory(t *testing.T) {
	many := func(item string) string { return "[" + strings.Repeat(item+",", 3*maxElements) + item + "]" }
	w := newWire(t)
	update := func(u string) *supervisorv1.Event { return w.pass(frame.AgentToClient, "", updateLine(u))[0] }
	e := update(`{"sessionUpdate":"tool_call","toolCallId":"t","content":` + many("0") + `,"locations":` + many(`{"path":""}`) + `}`)
	if n, m := len(e.GetToolCall().GetContent()), len(e.GetToolCall().GetLocations()); n != maxElements || m != maxElements {
		t.Errorf("%d items, %d locations", n, m)
	}
	option := `{"id":"o","currentValue":"a","options":[{"name":"g","options":` + many(`{"value":"a"}`) + `},{"value":"b"}]}`
	e = update(`{"sessionUpdate":"config_option_update","configOptions":[` + option + `,` + option + `]}`)
	options := e.GetConfigOptions().GetOptions()
	if len(options) != 2 || len(options[0].GetChoices()) != maxElements || len(options[1].GetChoices()) != 0 {
		t.Errorf("%d options, the first of %d choices", len(options), len(options[0].GetChoices()))
	}
	long := strings.Repeat("x", maxKept+1)
	w.quiet(frame.AgentToClient, "", asks(`"`+long+`"`, "_x", `{}`))
	w.quiet(frame.AgentToClient, "", asks("1", "_"+long, `{}`))
	w.quiet(frame.AgentToClient, "", asks("1", "_x", `{"sessionId":"`+long+`"}`))
	w.quiet(frame.ClientToAgent, "", answers(`"`+long+`"`, `{}`))
	if n := w.d.calls.Len(); n != 0 {
		t.Errorf("%d requests are kept", n)
	}
	if e := w.pass(frame.AgentToClient, "", strings.Replace(updateLine(`{"sessionUpdate":"plan","entries":[]}`), `"s"`, `"`+long+`"`, 1)); len(e) != 1 || e[0].GetSessionId() != long {
		t.Error("an update is lost")
	}
}

func TestDecoder_JoinsChunksOfFrame(t *testing.T) {
	w := newWire(t)
	w.pass(frame.AgentToHandler, "fs", asks("1", "fs/read_text_file", `{"sessionId":"s"}`))
	got := w.d.Frame(frame.Frame{Seq: 9, Time: noon, Direction: frame.HandlerToAgent, Handler: "fs",
		Line: []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":`), Rest: [][]byte{[]byte(`"x"`), []byte("}}\n")}})
	if len(got) != 1 || got[0].GetCallEnded() == nil || got[0].GetRaw() != `{"content":"x"}` {
		t.Errorf("made %s", shownAll(got))
	}
}

func TestErrorOf_NotFoundKind(t *testing.T) {
	for _, tt := range []struct {
		method, message string
		want            supervisorv1.ErrorKind
	}{
		{"session/prompt", "Resource not found: /w/notes.md", supervisorv1.ErrorKind_ERROR_KIND_AGENT_ERROR},
		{"session/prompt", "Session not found: s1", supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND},
		{"session/load", "Resource not found: x", supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND},
	} {
		if got := ErrorOf(tt.method, []byte(`{"code":-32002,"message":"`+tt.message+`"}`), false).GetKind(); got != tt.want {
			t.Errorf("%s, %q: %v, want %v", tt.method, tt.message, got, tt.want)
		}
	}
}

func TestDecoder_OmitsFileContent(t *testing.T) {
	d := NewDecoder(frame.Agent{ID: "a-1"}, func(uint64) string { return "c" })
	params := `{"sessionId":"s","path":"/w/f","content":"` + strings.Repeat("x", maxCall) + `"}`
	events := d.Frame(frame.Frame{Direction: frame.AgentToHandler, Handler: "fs", Line: []byte(`{"id":1,"method":"fs/write_text_file","params":` + params + `}`)})
	if len(events) != 1 || events[0].GetCallStarted().GetPath() != "/w/f" || events[0].GetRaw() != "" {
		t.Errorf("got %.300v", events)
	}
}

func TestQuestion_DetailIsTakenFromAcphostAlone(t *testing.T) {
	const params = `{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[],"_meta":{"acphost.detail":"rule a may match"}}`
	for ours, want := range map[bool]string{true: "rule a may match", false: ""} {
		if got := Question(acp.MethodRequestPermission, []byte(params), nil, ours).GetPermission().GetDetail(); got != want {
			t.Errorf("acphost's own question: %t: got the detail %q, want %q", ours, got, want)
		}
	}
}
