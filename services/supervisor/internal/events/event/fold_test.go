package event

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// folded is a wire whose events are folded.
type folded struct {
	*wire
	f *Fold
}

func newFolded(t testing.TB) *folded { return &folded{newWire(t), NewFold()} }

func (w *folded) pass(d frame.Direction, handler, line string) {
	w.t.Helper()
	for _, e := range w.wire.pass(d, handler, line) {
		w.f.Apply(e)
	}
}

func (w *folded) update(update string) {
	w.t.Helper()
	w.pass(frame.AgentToClient, "", updateLine(update))
}

func (w *folded) prompt() {
	w.pass(frame.ClientToAgent, "", asks("100", "session/prompt", `{"sessionId":"s","prompt":[]}`))
}

func (w *folded) show() *supervisorv1.Session {
	s := &supervisorv1.Session{SessionId: "s"}
	w.f.Show("a-1", s)
	return s
}

// expect compares what is known with JSON; fields that are not named there must be empty, but for the cursor.
func (w *folded) expect(want string) {
	w.t.Helper()
	s := &supervisorv1.Session{}
	if err := protojson.Unmarshal([]byte(want), s); err != nil {
		w.t.Fatal(err)
	}
	got := w.show()
	if got.GetCursor() == "" {
		w.t.Error("there is no cursor")
	}
	s.SessionId, s.AgentId, s.Cursor, s.Turns = "s", "a-1", got.GetCursor(), got.GetTurns()
	if !proto.Equal(got, s) {
		w.t.Errorf("got  %s\nwant %s", shown(got), shown(s))
	}
}

func TestFold_AppliesEvents(t *testing.T) {
	w := newFolded(t)
	w.pass(frame.ClientToAgent, "", asks("0", "session/new", `{"cwd":"/w"}`))
	w.update(`{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"old"}]}`)
	w.pass(frame.AgentToClient, "", answers("0", `{"sessionId":"s","modes":{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask"}]},"configOptions":[{"id":"b","name":"B","type":"boolean","currentValue":true}],"models":{"currentModelId":"m","availableModels":[{"modelId":"m","name":"M"}]}}`))
	w.expect(`{"mode":"ask","modes":[{"id":"ask","name":"Ask"}],"options":[{"id":"b","name":"B","enabled":true}],"models":[{"value":"m","name":"M"}],"model":"m","commands":[{"name":"old"}]}`)

	w.update(`{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"new"}]}`)
	w.update(`{"sessionUpdate":"current_mode_update","currentModeId":"code"}`)
	w.update(`{"sessionUpdate":"session_info_update","title":"One"}`)
	w.update(`{"sessionUpdate":"session_info_update","updatedAt":"2026"}`)
	w.update(`{"sessionUpdate":"plan","entries":[{"content":"x","priority":"low","status":"pending"}]}`)
	w.update(`{"sessionUpdate":"usage_update","used":3,"size":2,"cost":{"amount":0.5,"currency":"USD"}}`)
	w.update(`{"sessionUpdate":"usage_update","used":1,"size":2}`)
	w.update(`{"sessionUpdate":"current_model_update","currentModelId":"n"}`)
	w.prompt()
	w.pass(frame.AgentToClient, "", answers("100", `{"stopReason":"end_turn","usage":{"totalTokens":3,"inputTokens":1,"outputTokens":2}}`))
	w.prompt()
	w.pass(frame.AgentToClient, "", answers("100", `{"stopReason":"end_turn","usage":{"totalTokens":18446744073709551615,"inputTokens":1,"outputTokens":2,"thoughtTokens":5}}`))
	w.expect(`{"mode":"code","modes":[{"id":"ask","name":"Ask"}],"options":[{"id":"b","name":"B","enabled":true}],"models":[{"value":"m","name":"M"}],"model":"n","commands":[{"name":"new"}],
		"title":"One","plan":[{"content":"x","priority":"low","status":"pending"}],"usage":{"used":"1","size":"2","cost":0.5,"currency":"USD"},"tokens":{"total":"18446744073709551615","input":"2","output":"4","thought":"5"}}`)

	w.update(`{"sessionUpdate":"session_info_update","title":null}`)
	w.update(`{"sessionUpdate":"plan","entries":[]}`)
	w.update(`{"sessionUpdate":"config_option_update","configOptions":[{"id":"model","name":"M","category":"model","type":"select","currentValue":"big","options":[]}]}`)
	for _, mode := range []string{
		`{"sessionUpdate":"config_option_update","configOptions":[{"id":"model","name":"M","category":"model","type":"select","currentValue":"big","options":[]},{"id":"how","name":"H","category":"mode","type":"select","currentValue":"yolo","options":[]}]}`,
		`{"sessionUpdate":"current_mode_update","currentModeId":"plan"}`,
	} {
		w.update(mode)
		if s := w.show(); !strings.Contains(mode, s.GetMode()) || s.GetMode() == "code" {
			t.Errorf("after %s the mode is %q", mode, s.GetMode())
		}
	}
	s := w.show()
	if s.GetTitle() != "" || len(s.GetPlan()) != 0 || s.GetModel() != "big" {
		t.Errorf("title %q, plan %v, model %q", s.GetTitle(), s.GetPlan(), s.GetModel())
	}
	w.pass(frame.ClientToAgent, "", asks("9", "session/delete", `{"sessionId":"s"}`))
	w.pass(frame.AgentToClient, "", answers("9", `{}`))
	if s := w.show(); s.GetModel() != "" || s.GetCursor() != "" || s.GetAgentId() != "a-1" {
		t.Errorf("a deleted session is %s", shown(s))
	}
}

func TestFold_ReadsFormsOfModel(t *testing.T) {
	for _, update := range []string{
		`{"sessionUpdate":"current_model_update","currentModelId":"big"}`,
		`{"sessionUpdate":"currentModelUpdate","modelId":"big"}`,
		`{"sessionUpdate":"current_model_update","model":{"modelId":"big"}}`,
	} {
		w := newFolded(t)
		w.update(update)
		if got := w.show().GetModel(); got != "big" {
			t.Errorf("%s: model %q", update, got)
		}
	}
	w := newFolded(t)
	w.pass(frame.ClientToAgent, "", asks("1", "session/set_model", `{"sessionId":"s","modelId":"big"}`))
	w.pass(frame.AgentToClient, "", answers("1", `{}`))
	if got := w.show().GetModel(); got != "big" {
		t.Errorf("session/set_model: model %q", got)
	}
}

func TestFold_MergesToolCalls(t *testing.T) {
	w := newFolded(t)
	w.prompt()
	w.update(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Edit","name":"edit_file","status":"pending","content":[{"type":"diff","path":"/a","newText":"x"},{"type":"terminal","terminalId":"T"}],"locations":[{"path":"/a"},{"path":"/b","line":1}],"rawInput":{"x":1}}`)
	w.update(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Edit","kind":"edit"}`) // some agents send it twice
	w.update(`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed","rawOutput":"ok"}`)
	w.update(`{"sessionUpdate":"tool_call_update","toolCallId":"u","kind":"execute"}`)
	w.update(`{"sessionUpdate":"tool_call","toolCallId":"v","title":"?"}`)
	w.expect(`{"toolCalls":[` +
		`{"toolCallId":"t","title":"Edit","name":"edit_file","kind":"edit","status":"completed","content":[{"diff":{"path":"/a","newText":"x"}},{"terminalId":"T"}],"locations":[{"path":"/a"},{"path":"/b","line":1}],"rawInput":"{\"x\":1}","rawOutput":"\"ok\"","terminalIds":["T"],"paths":["/a","/b"]},` +
		`{"toolCallId":"u","kind":"execute"},{"toolCallId":"v","title":"?"}],` +
		`"files":[{"path":"/a","reported":1,"action":"FILE_ACTION_WRITE","turn":"1","time":"2026-01-02T12:00:00Z","inContext":true,"heat":1},{"path":"/b","reported":1,"action":"FILE_ACTION_WRITE","turn":"1","time":"2026-01-02T12:00:00Z","inContext":true,"heat":1}],"toolKinds":{"edit":"1","execute":"1","other":"1"},"tools":{"edit_file":"1"}}`)

	s := &supervisorv1.Session{SessionId: "s", Mode: "plan", ToolCalls: []*supervisorv1.ToolCall{{ToolCallId: "t", Status: "failed", Paths: []string{"/z"}}, {ToolCallId: "w"}}}
	w.f.Show("a-1", s)
	if n := len(s.GetToolCalls()); n != 4 {
		t.Fatalf("%d tool calls: %s", n, shown(s))
	}
	first := s.GetToolCalls()[0]
	if first.GetStatus() != "failed" || first.GetTitle() != "Edit" || first.GetRawOutput() != `"ok"` || len(first.GetContent()) != 2 || first.GetPaths()[0] != "/z" || first.GetTerminalIds()[0] != "T" {
		t.Errorf("merged: %s", shown(first))
	}

	// The next turn does not have the ended calls. A repeated id is another call.
	w.prompt()
	ids := func() (out []string) {
		for _, c := range w.show().GetToolCalls() {
			out = append(out, c.GetToolCallId()+c.GetStatus())
		}
		return out
	}
	if got := fmt.Sprint(ids()); got != "[u v]" {
		t.Errorf("tool calls %s", got)
	}
	w.update(`{"sessionUpdate":"tool_call","toolCallId":"t","kind":"edit","status":"pending"}`)
	if got := fmt.Sprint(ids()); got != "[u v tpending]" || w.show().GetToolKinds()["edit"] != 2 {
		t.Errorf("tool calls %s, kinds %v", got, w.show().GetToolKinds())
	}
}

func TestFold_NamesFileOnce(t *testing.T) {
	w := newFolded(t)
	w.update(`{"sessionUpdate":"tool_call","toolCallId":"e","title":"Edit","kind":"edit","locations":[{"path":"/f","line":3},{"path":"/g"},{"path":"/f","line":9}],"content":[{"type":"diff","path":"/f","newText":"1"},{"type":"diff","path":"/f","newText":"2"}]}`)
	if got := w.show().GetToolCalls()[0].GetPaths(); !slices.Equal(got, []string{"/f", "/g"}) {
		t.Errorf("the tool call names %q, want /f and /g once each", got)
	}
}

func TestFold_KeepsEndedToolCallsForOneTurn(t *testing.T) {
	w := newFolded(t)
	known := func() bool {
		s := &supervisorv1.Session{SessionId: "s", ToolCalls: []*supervisorv1.ToolCall{{ToolCallId: "t"}}}
		w.f.Show("a-1", s)
		return s.GetToolCalls()[0].GetTitle() != ""
	}
	w.prompt()
	w.update(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","status":"completed"}`)
	for turn, want := range []bool{true, true, false} {
		if got := known(); got != want {
			t.Errorf("%d turns later: known %v", turn, got)
		}
		w.prompt()
	}
}

func TestFold_DoesNotCountHistory(t *testing.T) {
	w := newFolded(t)
	w.pass(frame.ClientToAgent, "", asks("1", "session/load", `{"sessionId":"s","cwd":"/"}`))
	w.update(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Edit","kind":"edit","name":"e","locations":[{"path":"/a"}]}`)
	w.update(`{"sessionUpdate":"session_info_update","title":"Old"}`)
	w.pass(frame.AgentToClient, "", answers("1", `null`))
	w.expect(`{"title":"Old","toolCalls":[{"toolCallId":"t","title":"Edit","kind":"edit","name":"e","locations":[{"path":"/a"}],"paths":["/a"]}]}`)
}

func TestFold_PendingRequestsAndTouchedFiles(t *testing.T) {
	w := newFolded(t)
	w.pass(frame.AgentToHandler, "fs", asks("1", "fs/read_text_file", `{"sessionId":"s","path":"/a"}`))
	w.pass(frame.AgentToClient, "", asks(`"q"`, "session/request_permission", `{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[]}`))
	w.pass(frame.AgentToClient, "", asks("2", "elicitation/create", `{"sessionId":"s","message":"?"}`))
	w.pass(frame.OursToClient, "", asks(`"OWN"`, "session/request_permission", `{"sessionId":"s","toolCall":{"toolCallId":"acphost-1"},"options":[]}`))
	w.expect(`{"pendingRequests":[{"id":"1","method":"fs/read_text_file","at":"fs","time":"2026-01-02T12:00:00Z"},` +
		`{"id":"\"q\"","method":"session/request_permission","at":"front","time":"2026-01-02T12:00:00Z"},{"id":"2","method":"elicitation/create","at":"front","time":"2026-01-02T12:00:00Z"}]}`)
	w.pass(frame.HandlerToAgent, "fs", answers("1", `{"content":"x"}`))
	w.pass(frame.ClientToAgent, "", answers(`"q"`, `{"outcome":{"outcome":"cancelled"}}`))
	w.pass(frame.ClientToAgent, "", answers("2", `{"action":"cancel"}`))
	w.expect(`{"files":[{"path":"/a","reads":1,"action":"FILE_ACTION_READ","time":"2026-01-02T12:00:00Z","inContext":true,"heat":1}]}`)
	w.pass(frame.AgentToHandler, "fs", asks("1", "fs/write_text_file", `{"sessionId":"s","path":"/b"}`))
	w.pass(frame.HandlerToAgent, "fs", answers("1", `null`))
	w.pass(frame.AgentToHandler, "fs", asks("1", "fs/write_text_file", `{"sessionId":"s","path":"/c"}`))
	w.pass(frame.HandlerToAgent, "fs", fails("1", `{"code":-32603,"message":"no"}`))
	w.pass(frame.AgentToHandler, "fs", asks("1", "fs/read_text_file", `{"sessionId":"s","path":"/a"}`))
	w.pass(frame.HandlerToAgent, "fs", answers("1", `{"content":"x"}`))
	w.expect(`{"files":[{"path":"/b","writes":1,"action":"FILE_ACTION_WRITE","time":"2026-01-02T12:00:00Z","inContext":true,"heat":1},{"path":"/a","reads":2,"action":"FILE_ACTION_READ","time":"2026-01-02T12:00:00Z","inContext":true,"heat":1}]}`)
}

func TestFold_AgentStopClearsPending(t *testing.T) {
	for _, state := range []supervisorv1.AgentState{supervisorv1.AgentState_AGENT_STATE_STOPPED, supervisorv1.AgentState_AGENT_STATE_BACKOFF, supervisorv1.AgentState_AGENT_STATE_FAILED} {
		w := newFolded(t)
		w.pass(frame.AgentToClient, "", asks("1", "_x", `{"sessionId":"s"}`))
		tell := func(id string, state supervisorv1.AgentState) int {
			w.f.Apply(&supervisorv1.Event{AgentId: id, Event: &supervisorv1.Event_Agent{Agent: &supervisorv1.Agent{Id: id, State: state}}})
			return len(w.show().GetPendingRequests())
		}
		if tell("b-1", state) != 1 || tell("a-1", supervisorv1.AgentState_AGENT_STATE_RUNNING) != 1 || tell("a-1", state) != 0 {
			t.Errorf("%v: pending %v", state, w.show().GetPendingRequests())
		}
	}
}

func TestFold_GapMarksIncompleteUntilLoad(t *testing.T) {
	gap := func(agent, session string) *supervisorv1.Event {
		return &supervisorv1.Event{AgentId: agent, SessionId: session, Event: &supervisorv1.Event_Gap{Gap: &supervisorv1.Gap{}}}
	}
	for _, tt := range []struct {
		agent, session string
		want           bool
	}{{"a-1", "s", true}, {"a-1", "", true}, {"", "", true}, {"b-1", "", false}, {"a-1", "other", false}} {
		w := newFolded(t)
		w.update(`{"sessionUpdate":"plan","entries":[]}`)
		w.f.Apply(gap(tt.agent, tt.session))
		if got := w.show().GetIncomplete(); got != tt.want {
			t.Errorf("a gap of agent %q, session %q: incomplete %v", tt.agent, tt.session, got)
		}
		w.pass(frame.ClientToAgent, "", asks("1", "session/load", `{"sessionId":"s","cwd":"/"}`))
		w.pass(frame.AgentToClient, "", answers("1", `{}`))
		if w.show().GetIncomplete() {
			t.Error("it is still incomplete after it was loaded")
		}
	}
}

func TestForget_RemovesSessionsOfAgentOnly(t *testing.T) {
	f := NewFold()
	for _, agent := range []string{"a", "b"} {
		f.Apply(&supervisorv1.Event{AgentId: agent, SessionId: "s", Event: &supervisorv1.Event_CurrentMode{CurrentMode: &supervisorv1.CurrentMode{ModeId: "m"}}})
	}
	f.Forget("a")
	a, b := &supervisorv1.Session{SessionId: "s"}, &supervisorv1.Session{SessionId: "s"}
	f.Show("a", a)
	f.Show("b", b)
	if a.GetMode() != "" || b.GetMode() != "m" || f.sessions.Len() != 1 || f.size <= 0 {
		t.Errorf("a %s, b %s, %d sessions of %d bytes", shown(a), shown(b), f.sessions.Len(), f.size)
	}
	f.Forget("b")
	if f.size != 0 {
		t.Errorf("nothing takes %d bytes", f.size)
	}
}

func TestFold_LimitsSession(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	w := newFolded(t)
	for i := range 1100 {
		long := long
		if i%100 != 99 {
			long = "short"
		}
		w.update(fmt.Sprintf(`{"sessionUpdate":"tool_call","toolCallId":"t%d","kind":"k%d","name":"n%d","locations":[{"path":"/%d"},{"path":"/%s"}],"rawInput":"%s","content":[{"type":"diff","path":"/a","newText":"%[5]s"},{"type":"diff","path":"/b","newText":"y"}]}`, i, i, i, i, long, long))
		w.pass(frame.AgentToClient, "", asks(fmt.Sprint(i), "_x", `{"sessionId":"s"}`))
	}
	w.update(`{"sessionUpdate":"session_info_update","title":"` + long + `"}`)
	plan := `{"sessionUpdate":"plan","entries":[` + strings.Repeat(`{"content":"`+long+`"},`, 9) + `{"content":"x"}]}`
	w.update(plan)
	s := w.show()
	if n := len(s.GetToolCalls()); n > maxTools || n < 100 {
		t.Errorf("%d tool calls", n)
	}
	last := s.GetToolCalls()[len(s.GetToolCalls())-1]
	if last.GetToolCallId() != "t1099" || last.GetRawInput() != "" || len(last.GetContent()) != 1 || last.GetContent()[0].GetDiff().GetPath() != "/b" {
		t.Errorf("the last is %.300s", shown(last))
	}
	if len(s.GetPendingRequests()) != maxPending || s.GetPendingRequests()[0].GetId() != "100" || len(s.GetFiles()) != maxFiles {
		t.Errorf("%d requests, %d files", len(s.GetPendingRequests()), len(s.GetFiles()))
	}
	if len(s.GetToolKinds()) != maxNames || len(s.GetTools()) != maxNames {
		t.Errorf("%d kinds, %d names", len(s.GetToolKinds()), len(s.GetTools()))
	}
	if len(s.GetTitle()) > maxTitle || len(s.GetPlan()) != 2 {
		t.Errorf("a title of %d bytes, %d steps", len(s.GetTitle()), len(s.GetPlan()))
	}
	if proto.Size(s) > 8<<20 {
		t.Errorf("a session takes %d bytes", proto.Size(s))
	}
}

func TestFold_EvictsLeastRecentSession(t *testing.T) {
	f := NewFold()
	mode := func(session string) {
		f.Apply(&supervisorv1.Event{AgentId: "a", SessionId: session, Event: &supervisorv1.Event_CurrentMode{CurrentMode: &supervisorv1.CurrentMode{ModeId: "m"}}})
	}
	mode("first")
	mode("second")
	for i := range maxSessions - 2 {
		mode(fmt.Sprint(i))
	}
	mode("first")
	mode("one more")
	known := func(session string) bool { return f.sessions.At(sessionKey{"a", session}) != nil }
	if f.sessions.Len() != maxSessions || !known("first") || known("second") || !known("one more") {
		t.Errorf("%d sessions, first %v, second %v, last %v", f.sessions.Len(), known("first"), known("second"), known("one more"))
	}
}

func TestFold_LimitsTotalSize(t *testing.T) {
	f := NewFold()
	entry := &supervisorv1.PlanEntry{Content: strings.Repeat("x", 200<<10)}
	for i := range 2000 {
		f.Apply(&supervisorv1.Event{AgentId: "a", SessionId: fmt.Sprint(i), Event: &supervisorv1.Event_Plan{Plan: &supervisorv1.Plan{Entries: []*supervisorv1.PlanEntry{entry}}}})
	}
	if f.size > maxFoldBytes || f.sessions.Len() < 1000 || f.sessions.At(sessionKey{"a", "1999"}) == nil {
		t.Errorf("%d sessions of %d bytes", f.sessions.Len(), f.size)
	}
}

func TestFold_IsSafeForConcurrentUse(t *testing.T) {
	w := newFolded(t)
	var events []*supervisorv1.Event
	for i := range 200 {
		events = append(events, w.wire.pass(frame.AgentToClient, "", updateLine(fmt.Sprintf(`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"s%d","content":[{"type":"terminal","terminalId":"T"}],"locations":[{"path":"/%d"}]}`, i, i)))...)
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 200 {
				if _, err := proto.Marshal(w.show()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, e := range events {
		w.f.Apply(e)
	}
	wg.Wait()
	if got := w.show().GetToolCalls()[0].GetStatus(); got != "s199" {
		t.Errorf("status %q", got)
	}
}

func TestFold_IgnoresEventsWithoutSession(t *testing.T) {
	f := NewFold()
	f.Apply(&supervisorv1.Event{AgentId: "a", Time: timestamppb.Now()})
	f.Apply(&supervisorv1.Event{AgentId: "a", SessionId: strings.Repeat("s", maxKept+1), Event: &supervisorv1.Event_Plan{}})
	f.Apply(nil)
	if f.sessions.Len() != 0 {
		t.Errorf("%d sessions", f.sessions.Len())
	}
}

func TestFold_CrashKeepsTurnCountAndClosesToolCalls(t *testing.T) {
	w := newFolded(t)
	w.prompt()
	w.update(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Sleep","status":"in_progress"}`)
	w.pass(frame.OursToClient, "", `{"jsonrpc":"2.0","id":100,"error":{"code":-32603,"message":"gone","data":{"acphost":{"kind":"crashed","exitCode":1}}}}`)
	if got := w.show(); len(got.GetToolCalls()) != 1 || got.GetTurns() != 1 {
		t.Errorf("after the crash: %s", shown(got))
	}
	w.prompt()
	if got := w.show(); len(got.GetToolCalls()) != 0 || got.GetTurns() != 2 {
		t.Errorf("in the next turn: %s", shown(got))
	}
}

func TestFold_CancelledTurnToolCallsEndWithNextTurn(t *testing.T) {
	w := newFolded(t)
	w.prompt()
	w.update(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Edit","status":"in_progress"}`)
	w.pass(frame.AgentToClient, "", answers("100", `{"stopReason":"cancelled"}`))
	if got := w.show(); len(got.GetToolCalls()) != 1 {
		t.Errorf("after it: %s", shown(got))
	}
	w.prompt()
	if got := w.show(); len(got.GetToolCalls()) != 0 {
		t.Errorf("in the next turn: %s", shown(got))
	}
}

func TestFold_LimitsClosedSessions(t *testing.T) {
	f := NewFold()
	about := func(i int, e *supervisorv1.Event) {
		e.AgentId, e.SessionId = "a", fmt.Sprint(i)
		f.Apply(e)
	}
	title := "work"
	closes := func(i int) {
		about(i, &supervisorv1.Event{Event: &supervisorv1.Event_SessionClosed{SessionClosed: &supervisorv1.SessionClosed{Reason: "session/close"}}})
	}
	opens := func(i int) {
		about(i, &supervisorv1.Event{Event: &supervisorv1.Event_SessionOpened{SessionOpened: &supervisorv1.SessionOpened{}}})
	}
	for i := range maxClosed + 20 {
		opens(i)
		about(i, &supervisorv1.Event{Event: &supervisorv1.Event_SessionInfo{SessionInfo: &supervisorv1.SessionInfo{Title: &title}}})
		switch i {
		case 0: // it stays open
			continue
		case 1: // it is closed, and opened again
			closes(i)
			opens(i)
			continue
		}
		closes(i)
	}
	const first = 20 // of the closed ones that are kept
	for i := range maxClosed + 20 {
		s := &supervisorv1.Session{SessionId: fmt.Sprint(i)}
		f.Show("a", s)
		if kept := s.GetTitle() == title; kept != (i < 2 || i >= first) {
			t.Errorf("session %d is kept: %v", i, kept)
		}
	}
	if n := f.sessions.Len(); n != maxClosed+2 || f.closed.Len() != maxClosed {
		t.Errorf("%d sessions are kept, %d of them closed", n, f.closed.Len())
	}
}
