package event

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"google.golang.org/protobuf/proto"
)

// asDecided is a tool call as decisions see it, in the form of events.
func asDecided(tc acp.ToolCall) *supervisorv1.ToolCall {
	return &supervisorv1.ToolCall{
		ToolCallId: tc.ID, Title: tc.Title, Name: tc.Name, Kind: tc.Kind, Status: tc.Status,
		Content: listOf(tc.Content, contentItem), Locations: locations(tc.Locations), RawInput: string(tc.RawInput),
	}
}

// asShown is a tool call as the state of the session shows it, without what follows from its content and its locations.
func asShown(w *folded) *supervisorv1.ToolCall {
	s := w.show()
	if len(s.GetToolCalls()) != 1 {
		w.t.Fatalf("want one tool call, got %s", shown(s))
	}
	c := copyOf(s.GetToolCalls()[0])
	c.Paths, c.TerminalIds = nil, nil
	return c
}

// asAsked returns the tool call in a question whose request contains only the tool call's id.
func asAsked(w *folded) *supervisorv1.PermissionQuestion {
	events := w.wire.pass(frame.AgentToClient, "", asks(`"q"`, "session/request_permission", `{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[]}`))
	q := events[len(events)-1].GetQuestionAsked().GetPermission()
	w.pass(frame.ClientToAgent, "", answers(`"q"`, `{"outcome":{"outcome":"cancelled"}}`))
	return q
}

// agree checks that all folds of a tool call equal the tool call in the session's state.
func agree(w *folded, decided acp.ToolCall) *supervisorv1.ToolCall {
	w.t.Helper()
	got := asShown(w)
	c := asDecided(decided)
	c.RawOutput = got.GetRawOutput() // decisions have no use for it
	if !proto.Equal(c, got) {
		w.t.Errorf("decisions see %s\nthe state is  %s", shown(c), shown(got))
	}
	asked := &supervisorv1.PermissionQuestion{
		ToolCallId: "t", Title: got.GetTitle(), Kind: got.GetKind(), Content: got.GetContent(), Locations: got.GetLocations(), RawInput: got.GetRawInput(),
	}
	if q := asAsked(w); !proto.Equal(q, asked) {
		w.t.Errorf("a question has %s\nthe state is  %s", shown(q), shown(asked))
	}
	return got
}

func TestToolCall_ReportReplacesItsFieldsOnly(t *testing.T) {
	const began = `"title":"Edit","name":"edit_file","kind":"edit","status":"pending","content":[{"type":"diff","path":"/a","newText":"x"}],` +
		`"locations":[{"path":"/a","line":1}],"rawInput":{"p":1},"rawOutput":{"o":1}`
	was := &supervisorv1.ToolCall{ToolCallId: "t", Title: "Edit", Name: "edit_file", Kind: "edit", Status: "pending", RawInput: `{"p":1}`, RawOutput: `{"o":1}`,
		Content:   []*supervisorv1.ToolCallContent{{Item: &supervisorv1.ToolCallContent_Diff{Diff: &supervisorv1.Diff{Path: "/a", NewText: "x"}}}},
		Locations: []*supervisorv1.Location{{Path: "/a", Line: proto.Uint32(1)}}}
	for _, tt := range []struct {
		report string
		want   func(c *supervisorv1.ToolCall) // nil: nothing changes
	}{
		{`"title":null`, nil},
		{`"title":7`, nil},
		{`"title":""`, func(c *supervisorv1.ToolCall) { c.Title = "" }},
		{`"title":"Write"`, func(c *supervisorv1.ToolCall) { c.Title = "Write" }},
		{`"name":null`, nil},
		{`"name":""`, nil},
		{`"name":"write_file"`, func(c *supervisorv1.ToolCall) { c.Name = "write_file" }},
		{`"name":"","_meta":{"toolName":"write_file"}`, func(c *supervisorv1.ToolCall) { c.Name = "write_file" }},
		{`"kind":null`, nil},
		{`"kind":""`, func(c *supervisorv1.ToolCall) { c.Kind = "" }},
		{`"kind":"move"`, func(c *supervisorv1.ToolCall) { c.Kind = "move" }},
		{`"status":null`, nil},
		{`"status":""`, func(c *supervisorv1.ToolCall) { c.Status = "" }},
		{`"status":"completed"`, func(c *supervisorv1.ToolCall) { c.Status = "completed" }},
		{`"content":null`, nil},
		{`"content":{}`, nil},
		{`"content":[]`, func(c *supervisorv1.ToolCall) { c.Content = nil }},
		{`"content":[{"type":"terminal","terminalId":"T"}]`, func(c *supervisorv1.ToolCall) {
			c.Content = []*supervisorv1.ToolCallContent{{Item: &supervisorv1.ToolCallContent_TerminalId{TerminalId: "T"}}}
		}},
		{`"locations":null`, nil},
		{`"locations":"/b"`, nil},
		{`"locations":[]`, func(c *supervisorv1.ToolCall) { c.Locations = nil }},
		{`"locations":[{"path":"/b"}]`, func(c *supervisorv1.ToolCall) { c.Locations = []*supervisorv1.Location{{Path: "/b"}} }},
		{`"rawInput":null`, nil},
		{`"rawInput":{ }`, nil},
		{`"rawInput":""`, func(c *supervisorv1.ToolCall) { c.RawInput = `""` }},
		{`"rawInput":{"p":2}`, func(c *supervisorv1.ToolCall) { c.RawInput = `{"p":2}` }},
		{`"rawOutput":null`, nil},
		{`"rawOutput":{}`, func(c *supervisorv1.ToolCall) { c.RawOutput = `{}` }},
		{`"rawOutput":{"o":2}`, func(c *supervisorv1.ToolCall) { c.RawOutput = `{"o":2}` }},
	} {
		for _, announced := range []string{"tool_call", "tool_call_update"} { // some agents announce a tool call twice
			w := newFolded(t)
			var decided acp.ToolCall
			for _, report := range []string{
				`{"sessionUpdate":"tool_call","toolCallId":"t",` + began + `}`,
				`{"sessionUpdate":"` + announced + `","toolCallId":"t",` + tt.report + `}`,
			} {
				w.update(report)
				decided.Merge([]byte(report))
			}
			want := proto.CloneOf(was)
			if tt.want != nil {
				tt.want(want)
			}
			if got := agree(w, decided); !proto.Equal(got, want) {
				t.Errorf("%s with %s\ngot  %s\nwant %s", announced, tt.report, shown(got), shown(want))
			}
		}
	}
}

// reported returns a random report.
func reported(r *rand.Rand) string {
	members := []string{`"sessionUpdate":"tool_call_update"`, `"toolCallId":"t"`}
	for _, m := range [][]string{
		{"title", `null`, `""`, `"A"`, `"B"`, `1`},
		{"name", `null`, `""`, `"a"`, `"b"`, `[]`},
		{"kind", `null`, `""`, `"read"`, `"edit"`, `{}`},
		{"status", `null`, `""`, `"pending"`, `"completed"`, `"failed"`, `false`},
		{"content", `null`, `[]`, `[{"type":"diff","path":"/a","newText":"x"}]`, `[{"type":"content","content":{"type":"text","text":"y"}},7]`, `"x"`},
		{"locations", `null`, `[]`, `[{"path":"/a"}]`, `[{"path":"/b","line":2},{}]`, `0`},
		{"rawInput", `null`, `{}`, `{ }`, `[]`, `{"a":1}`, `{"b":{}}`, `"x"`},
		{"rawOutput", `null`, `{}`, `"x"`, `{"a":1}`},
		{"_meta", `null`, `{}`, `{"toolName":"m"}`},
	} {
		if r.IntN(2) == 0 {
			members = append(members, `"`+m[0]+`":`+m[1+r.IntN(len(m)-1)])
		}
	}
	if r.IntN(4) == 0 {
		members[0] = `"sessionUpdate":"tool_call"`
	}
	return "{" + strings.Join(members, ",") + "}"
}

func TestToolCall_MergersAgree(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			w := newFolded(t)
			var decided acp.ToolCall
			var reports []string
			for range 12 {
				report := reported(r)
				reports = append(reports, report)
				if acp.ToolCallEnded(decided.Status) && acp.BeginsToolCall([]byte(report)) {
					decided = acp.ToolCall{} // as package session has it
				}
				w.update(report)
				decided.Merge([]byte(report))
				if agree(w, decided); t.Failed() {
					t.Fatalf("after\n%s", strings.Join(reports, "\n"))
				}
			}
		})
	}
}

func TestToolCall_ReusedIDStartsAnother(t *testing.T) {
	w := newFolded(t)
	w.update(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Edit","kind":"edit","content":[{"type":"diff","path":"/a","newText":"x"}],"rawInput":{"p":1}}`)
	w.update(`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed"}`)
	const again = `{"sessionUpdate":"tool_call","toolCallId":"t","title":"Run"}`
	w.update(again)
	var decided acp.ToolCall
	decided.Merge([]byte(again))
	if got, want := agree(w, decided), (&supervisorv1.ToolCall{ToolCallId: "t", Title: "Run"}); !proto.Equal(got, want) {
		t.Errorf("got %s, want %s", shown(got), shown(want))
	}
}

func TestToolCall_QuestionClearsEmptyFields(t *testing.T) {
	w := newFolded(t)
	w.update(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Edit","content":[{"type":"diff","path":"/a","newText":"x"}],"locations":[{"path":"/a"}]}`)
	for _, ask := range []string{`{"toolCallId":"t","content":[],"locations":[]}`, `{"toolCallId":"t"}`} { // the second: it stays so
		e := w.wire.pass(frame.AgentToClient, "", asks("1", "session/request_permission", `{"sessionId":"s","toolCall":`+ask+`,"options":[]}`))
		q := e[len(e)-1].GetQuestionAsked().GetPermission()
		if want := (&supervisorv1.PermissionQuestion{ToolCallId: "t", Title: "Edit"}); !proto.Equal(q, want) {
			t.Errorf("%s\ngot  %s\nwant %s", ask, shown(q), shown(want))
		}
	}
}

func TestToolCall_ReadsBothNamesOfTerminalOutput(t *testing.T) {
	for _, meta := range []string{
		`{"terminal_output":{"terminal_id":"T","data":"a\n"},"terminal_exit":{"terminal_id":"T","exit_code":1}}`,
		`{"terminal_output_delta":{"terminal_id":"T","data":"a\n"},"terminal_exit":{"terminal_id":"T","exit_code":1}}`,
	} {
		if o := streamed([]byte(meta)); o.GetText() != "a\n" || o.GetTerminalId() != "T" || o.GetExitCode() != 1 || !o.GetEnded() {
			t.Errorf("%s: got %v", meta, o)
		}
	}
	both := `{"terminal_output":{"terminal_id":"T","data":"a"},"terminal_output_delta":{"terminal_id":"T","data":"a"}}`
	if o := streamed([]byte(both)); o.GetText() != "a" {
		t.Errorf("a member with both names is read as %v", o)
	}
}
