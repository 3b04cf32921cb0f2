package event

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"google.golang.org/protobuf/proto"
)

const (
	textBlock = `{"type":"text","text":"Hello","annotations":{"audience":["user","assistant"],"lastModified":"2026-01-01T00:00:00Z","priority":0.5},"_meta":{"k":[1]}}`
	textWant  = `{"text":{"text":"Hello"},"annotations":{"audience":["user","assistant"],"lastModified":"2026-01-01T00:00:00Z","priority":0.5},"meta":"{\"k\":[1]}"}`
)

var updates = []struct{ name, update, want string }{
	{"a piece of the agent's message",
		`{"sessionUpdate":"agent_message_chunk","content":` + textBlock + `,"messageId":"m1"}`,
		`{"agentMessage":{"content":` + textWant + `,"messageId":"m1"}}`},
	{"a piece of a thought",
		`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`,
		`{"agentThought":{"content":{"text":{"text":"hm"}}}}`},
	{"a piece of the user's message, its kind last",
		`{"content":{"type":"text","text":"a\nb\u00e4\ud83d\ude00"},"messageId":null,"sessionUpdate":"user_message_chunk"}`,
		`{"userMessage":{"content":{"text":{"text":"a\nbä😀"}}}}`},
	{"an image",
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"AQID","mimeType":"image/png","uri":"file:///a.png"}}`,
		`{"agentMessage":{"content":{"image":{"data":"AQID","mimeType":"image/png","uri":"file:///a.png"}}}}`},
	{"an image whose base64 has no padding",
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"AQ","mimeType":"image/png","uri":null}}`,
		`{"agentMessage":{"content":{"image":{"data":"AQ==","mimeType":"image/png"}}}}`},
	{"an image that is no base64",
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"*","mimeType":"image/png"}}`,
		`{"agentMessage":{"content":{"other":"{\"type\":\"image\",\"data\":\"*\",\"mimeType\":\"image/png\"}"}}}`},
	{"a sound",
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"audio","data":"AQID","mimeType":"audio/wav"}}`,
		`{"agentMessage":{"content":{"audio":{"data":"AQID","mimeType":"audio/wav"}}}}`},
	{"a reference",
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"resource_link","uri":"file:///n","name":"n","title":"N","description":"d","mimeType":"text/plain","size":7}}`,
		`{"agentMessage":{"content":{"resourceLink":{"uri":"file:///n","name":"n","title":"N","description":"d","mimeType":"text/plain","size":"7"}}}}`},
	{"a resource of text",
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"resource","resource":{"uri":"file:///n","mimeType":"text/plain","text":""}}}`,
		`{"agentMessage":{"content":{"resource":{"uri":"file:///n","mimeType":"text/plain","text":""}}}}`},
	{"a resource of bytes",
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"resource","resource":{"uri":"file:///n","blob":"AQID"}}}`,
		`{"agentMessage":{"content":{"resource":{"uri":"file:///n","blob":"AQID"}}}}`},
	{"content of a type to come",
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"video","x":1}}`,
		`{"agentMessage":{"content":{"other":"{\"type\":\"video\",\"x\":1}"}}}`},
	{"text without text",
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":7}}`,
		`{"agentMessage":{"content":{"other":"{\"type\":\"text\",\"text\":7}"}}}`},
	{"a message without content",
		`{"sessionUpdate":"agent_message_chunk"}`,
		`{"agentMessage":{"content":{"other":"null"}}}`},
	{"annotations of wrong types",
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x","annotations":{"audience":[1,"user"],"lastModified":3,"priority":"high"},"_meta":[]}}`,
		`{"agentMessage":{"content":{"text":{"text":"x"},"annotations":{"audience":["user"]}}}}`},
	{"half of a surrogate pair",
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a\ud83d"}}`,
		`{"agentMessage":{"content":{"text":{"text":"a�"}}}}`},
	{"a tool call, whole",
		`{"sessionUpdate":"tool_call","toolCallId":"t1","title":"Edit","name":"edit_file","kind":"edit","status":"pending","content":[` +
			`{"type":"content","content":` + textBlock + `},{"type":"diff","path":"/a","oldText":"x","newText":"y"},{"type":"diff","path":"/b","oldText":null,"newText":""},` +
			`{"type":"terminal","terminalId":"T"},{"type":"chart","x":1},7],"locations":[{"path":"/a","line":3},{"line":4},{"path":"/b","line":-1},{"path":"/c","line":null}],` +
			`"rawInput":{"p": 1.0},"rawOutput":[null],"_meta":{"a":{}}}`,
		`{"toolCall":{"toolCallId":"t1","title":"Edit","name":"edit_file","kind":"edit","status":"pending","contentSet":true,"content":[` +
			`{"content":` + textWant + `},{"diff":{"path":"/a","oldText":"x","newText":"y"}},{"diff":{"path":"/b","newText":""}},` +
			`{"terminalId":"T"},{"other":"{\"type\":\"chart\",\"x\":1}"},{"other":"7"}],"locationsSet":true,"locations":[{"path":"/a","line":3},{"path":"/b"},{"path":"/c"}],` +
			`"rawInput":"{\"p\": 1.0}","rawOutput":"[null]","meta":"{\"a\":{}}"}}`},
	{"a minimal report",
		`{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"completed","title":null,"content":null,"locations":"no","rawOutput":null}`,
		`{"toolCallUpdate":{"toolCallId":"t1","status":"completed"}}`},
	{"a report that takes away what was shown",
		`{"sessionUpdate":"tool_call_update","toolCallId":"t1","content":[],"locations":[]}`,
		`{"toolCallUpdate":{"toolCallId":"t1","contentSet":true,"locationsSet":true}}`},
	{"a tool call without an id",
		`{"sessionUpdate":"tool_call","title":"x"}`,
		`{"otherUpdate":{"kind":"tool_call"}}`},
	{"a plan",
		`{"sessionUpdate":"plan","entries":[{"content":"one","priority":"high","status":"completed"},{"content":"two"},{"priority":"low"},"x"]}`,
		`{"plan":{"entries":[{"content":"one","priority":"high","status":"completed"},{"content":"two"}]}}`},
	{"an empty plan", `{"sessionUpdate":"plan","entries":[]}`, `{"plan":{}}`},
	{"an invalid plan", `{"sessionUpdate":"plan","entries":{}}`, `{"otherUpdate":{"kind":"plan"}}`},
	{"commands",
		`{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"web","description":"Search","input":{"hint":"query"}},{"name":"x","description":"y","input":null},{"name":"z","input":{}},{"description":"no name"}]}`,
		`{"availableCommands":{"commands":[{"name":"web","description":"Search","inputHint":"query"},{"name":"x","description":"y"},{"name":"z","inputHint":""}]}}`},
	{"a mode", `{"sessionUpdate":"current_mode_update","currentModeId":"plan"}`, `{"currentMode":{"modeId":"plan"}}`},
	{"a mode under an older name", `{"sessionUpdate":"current_mode_update","modeId":"plan"}`, `{"currentMode":{"modeId":"plan"}}`},
	{"an invalid mode", `{"sessionUpdate":"current_mode_update","currentModeId":null}`, `{"otherUpdate":{"kind":"current_mode_update"}}`},
	{"options, flat, grouped, on or off",
		`{"sessionUpdate":"config_option_update","configOptions":[` +
			`{"id":"model","name":"Model","description":"which","category":"model","type":"select","currentValue":"big","options":[{"value":"big","name":"Big","description":"slow"},{"value":"small","name":"Small"},{"name":"none"}]},` +
			`{"id":"g","name":"G","type":"select","currentValue":"a","options":[{"group":"one","name":"One","options":[{"value":"a","name":"A"}]},{"group":"two","options":[{"value":"b","name":"B"}]}]},` +
			`{"id":"b","name":"B","type":"boolean","currentValue":false},{"id":"c","name":"C","type":"boolean","currentValue":true},` +
			`{"id":"n","name":"N","type":"number","currentValue":3},{"name":"no id","currentValue":true}]}`,
		`{"configOptions":{"options":[` +
			`{"id":"model","name":"Model","description":"which","category":"model","value":"big","choices":[{"value":"big","name":"Big","description":"slow"},{"value":"small","name":"Small"}]},` +
			`{"id":"g","name":"G","value":"a","choices":[{"value":"a","name":"A","group":"One"},{"value":"b","name":"B","group":"two"}]},` +
			`{"id":"b","name":"B","enabled":false},{"id":"c","name":"C","enabled":true}]}}`},
	{"a session's title",
		`{"sessionUpdate":"session_info_update","title":"Fix it","updatedAt":"2026-01-02T00:00:00Z"}`,
		`{"sessionInfo":{"title":"Fix it","updatedAt":"2026-01-02T00:00:00Z"}}`},
	{"a title that is taken away", `{"sessionUpdate":"session_info_update","title":null}`, `{"sessionInfo":{"title":""}}`},
	{"nothing new of a session", `{"sessionUpdate":"session_info_update","title":7,"_meta":{}}`, `{"sessionInfo":{}}`},
	{"usage with a cost",
		`{"sessionUpdate":"usage_update","used":53000,"size":2e5,"cost":{"amount":0.045,"currency":"USD"}}`,
		`{"usage":{"used":"53000","size":"200000","cost":0.045,"currency":"USD"}}`},
	{"usage without a cost", `{"sessionUpdate":"usage_update","used":1,"size":2,"cost":null}`, `{"usage":{"used":"1","size":"2"}}`},
	{"empty usage", `{"sessionUpdate":"usage_update","used":-1,"size":"2"}`, `{"otherUpdate":{"kind":"usage_update"}}`},
	{"a notice",
		`{"sessionUpdate":"notice","severity":"warning","title":"Slow","description":"the network"}`,
		`{"notice":{"severity":"warning","title":"Slow","description":"the network"}}`},
	{"an empty notice", `{"sessionUpdate":"notice","severity":"info"}`, `{"otherUpdate":{"kind":"notice"}}`},
	{"a compaction",
		`{"sessionUpdate":"compaction_update","compactionId":"c","status":"completed","summary":[{"type":"text","text":"x"},{"type":"new"}],"error":null}`,
		`{"compaction":{"compactionId":"c","status":"completed","summary":[{"text":{"text":"x"}},{"other":"{\"type\":\"new\"}"}]}}`},
	{"a compaction that failed",
		`{"sessionUpdate":"compaction_update","compactionId":"c","status":"failed","error":"no room"}`,
		`{"compaction":{"compactionId":"c","status":"failed","error":"no room"}}`},
	{"a piece of a summary",
		`{"sessionUpdate":"compaction_summary_chunk","compactionId":"c","content":{"type":"text","text":"x"}}`,
		`{"compactionSummary":{"compactionId":"c","content":{"text":{"text":"x"}}}}`},
	{"the unstable plan", `{"sessionUpdate":"plan_update","plan":{"type":"items"}}`, `{"otherUpdate":{"kind":"plan_update"}}`},
	{"a subagent", `{"sessionUpdate":"subagent_update","x":1}`, `{"otherUpdate":{"kind":"subagent_update"}}`},
	{"a kind that is no string", `{"sessionUpdate":7}`, `{"otherUpdate":{}}`},
	{"no kind at all", `{}`, `{"otherUpdate":{}}`},
	{"an update that is no object", `[1]`, `{"otherUpdate":{}}`},
	{"escaped names and kinds",
		`{"session\u0055pdate":"agent_message\u005fchunk","conten\u0074":{"type":"text","text":"x"}}`,
		`{"agentMessage":{"content":{"text":{"text":"x"}}}}`},
}

func TestUpdate_IsTypedAndHasRawJSON(t *testing.T) {
	for _, tt := range updates {
		t.Run(tt.name, func(t *testing.T) {
			w := newWire(t)
			got := w.pass(frame.AgentToClient, "", updateLine(tt.update))
			if len(got) != 1 {
				t.Fatalf("made %s\nwant one event", shownAll(got))
			}
			if got[0].GetRaw() != tt.update || got[0].GetSessionId() != "s" || got[0].GetCursor() != "i-1" {
				t.Errorf("raw %s, session %q, cursor %q", got[0].GetRaw(), got[0].GetSessionId(), got[0].GetCursor())
			}
			compare(t, got[0], `{"sessionId":"s",`+tt.want[1:])
		})
	}
}

func TestUpdate_OlderKindsMatchCurrent(t *testing.T) {
	for _, tt := range updates {
		w := newWire(t)
		today := w.pass(frame.AgentToClient, "", updateLine(tt.update))[0]
		_, rest, ok := strings.Cut(tt.update, `"sessionUpdate":"`)
		if !ok || today.GetOtherUpdate() != nil {
			continue
		}
		kind, _, _ := strings.Cut(rest, `"`)
		for _, spelled := range []string{camel(kind), strings.ToUpper(kind[:1]) + camel(kind)[1:]} {
			line := strings.Replace(updateLine(tt.update), `"`+kind+`"`, `"`+spelled+`"`, 1)
			older := w.pass(frame.AgentToClient, "", line)[0]
			older.Raw, older.Cursor = today.GetRaw(), today.GetCursor()
			if !proto.Equal(older, today) {
				t.Errorf("%s: %s\ngot  %s\nwant %s", tt.name, spelled, shown(older), shown(today))
			}
		}
	}
}

func camel(s string) string {
	parts := strings.Split(s, "_")
	for i, p := range parts[1:] {
		parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
	}
	return strings.Join(parts, "")
}

func TestUpdate_InParamsIsRead(t *testing.T) {
	w := newWire(t)
	line := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","sessionUpdate":"agentMessageChunk","content":{"type":"text","text":"x"}}}`
	w.expect(frame.AgentToClient, "", line, `{"sessionId":"s","agentMessage":{"content":{"text":{"text":"x"}}}}`)
	w.expect(frame.AgentToClient, "", `{"jsonrpc":"2.0","method":"session/update"}`, `{"otherUpdate":{}}`)
	w.expect(frame.AgentToClient, "", `{"jsonrpc":"2.0","method":"session/update","params":[]}`, `{"otherUpdate":{}}`)
}

func TestUpdate_WithIDIsUpdateAndCall(t *testing.T) {
	w := newWire(t)
	w.expect(frame.AgentToClient, "", `{"jsonrpc":"2.0","id":1,"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"current_mode_update","currentModeId":"m"}}}`,
		`{"cursor":"i-1.1","sessionId":"s","currentMode":{"modeId":"m"}}`,
		`{"cursor":"i-1.2","sessionId":"s","callStarted":{"id":"1","method":"session/update","to":"front"}}`)
}

func TestUpdate_ReplacesInvalidUTF8(t *testing.T) {
	w := newWire(t)
	e := w.pass(frame.AgentToClient, "", updateLine("{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"a\xffb\"}}"))[0]
	if got := e.GetAgentMessage().GetContent().GetText().GetText(); got != "a\uFFFDb" {
		t.Errorf("text %q", got)
	}
	if !strings.Contains(e.GetRaw(), "a\uFFFDb") {
		t.Errorf("raw %q", e.GetRaw())
	}
	if _, err := proto.Marshal(e); err != nil {
		t.Error(err)
	}
}

func TestUpdate_OwnNoticesAreMarked(t *testing.T) {
	w := newWire(t)
	w.expect(frame.OursToClient, "", updateLine(`{"sessionUpdate":"notice","severity":"warning","title":"Denied","description":"why"}`),
		`{"sessionId":"s","notice":{"severity":"warning","title":"Denied","description":"why","fromAcphost":true}}`)
	w.expect(frame.OursToClient, "", updateLine(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\n\n> Denied: why\n\n"}}`),
		`{"sessionId":"s","notice":{"severity":"warning","title":"Denied","description":"why","fromAcphost":true}}`)
	w.quiet(frame.OursToClient, "", updateLine(`{"sessionUpdate":"tool_call","toolCallId":"acphost-1","title":"x"}`))
	w.quiet(frame.OursToClient, "", updateLine(`{"sessionUpdate":"tool_call_update","toolCallId":"t","_meta":{"terminal_output":{"data":"x"}}}`))
}

func TestUpdate_IgnoresInvalidMessages(t *testing.T) {
	w := newWire(t)
	for _, line := range []string{``, `{`, `[]`, `[{"jsonrpc":"2.0","method":"session/update","params":{}}]`, `7`, `{"jsonrpc":"2.0"}`, "\xff"} {
		w.quiet(frame.AgentToClient, "", line)
		w.quiet(frame.ClientToAgent, "", line)
	}
	w.quiet(frame.ClientToAgent, "", updateLine(`{}`))
	w.quiet(frame.AgentToClient, "", `{"jsonrpc":"2.0","method":"_x/y","params":{}}`)
}

func TestUpdate_Version2MessageIsSentOnce(t *testing.T) {
	w := newWire(t)
	from := frame.AgentToClient
	words := func(id, text string) string {
		return `{"sessionId":"s","agentMessage":{"content":{"text":{"text":"` + text + `"}},"messageId":"` + id + `"}}`
	}
	text := func(text string) string { return `{"type":"text","text":"` + text + `"}` }
	whole := func(id, content string) string {
		return updateLine(`{"sessionUpdate":"agent_message","messageId":"` + id + `","content":` + content + `}`)
	}
	other := `{"sessionId":"s","otherUpdate":{"kind":"agent_message"}}`
	w.expect(from, "", whole("a", `[`+text("one")+`,`+text("two")+`]`), words("a", "one"), words("a", "two"))
	w.expect(from, "", whole("a", `[`+text("one")+`]`), other)
	w.expect(from, "", whole("b", `null`), other)
	w.expect(from, "", updateLine(`{"sessionUpdate":"agent_message_chunk","messageId":"b","content":`+text("x")+`}`), words("b", "x"))
	w.expect(from, "", whole("b", `[`+text("x")+`]`), other)
	w.expect(from, "", updateLine(`{"sessionUpdate":"user_message","messageId":"u","content":[`+text("hi")+`]}`),
		`{"sessionId":"s","userMessage":{"content":{"text":{"text":"hi"}},"messageId":"u"}}`)
	w.pass(frame.ClientToAgent, "", asks("1", "session/resume", `{"sessionId":"s","cwd":"/w","replayFrom":{"type":"start"}}`))
	w.expect(from, "", whole("a", `[`+text("one")+`]`), strings.Replace(words("a", "one"), `"agentMessage"`, `"history":true,"agentMessage"`, 1))
}

func TestUpdate_Version2ContentAccumulates(t *testing.T) {
	w := newWire(t)
	w.pass(frame.AgentToClient, "", updateLine(`{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"T"}`))
	for i, want := range []int{1, 2, 3} {
		e := w.pass(frame.AgentToClient, "", updateLine(`{"sessionUpdate":"tool_call_content_chunk","toolCallId":"t","content":{"type":"content","content":{"type":"text","text":"x"}}}`))
		if got := e[0].GetToolCallUpdate(); len(got.GetContent()) != want || !got.GetContentSet() {
			t.Errorf("chunk %d makes %v", i, got)
		}
	}
	w.expect(frame.AgentToClient, "", updateLine(`{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[{"content":"c","priority":"low","status":"pending"}]}}`),
		`{"sessionId":"s","plan":{"entries":[{"content":"c","priority":"low","status":"pending"}]}}`)
}
