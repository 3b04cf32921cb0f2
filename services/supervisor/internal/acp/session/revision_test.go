package session

import (
	"testing"
	"time"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"google.golang.org/protobuf/proto"
)

func TestStands_UntilSubjectChanges(t *testing.T) {
	table, _, _ := newTable(t)
	table.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/w"})
	table.Opened("1", acp.Opened{SessionID: "s"}, false)
	asked := time.Now()
	if _, stands := table.Stands("s", table.Subject("s", acp.ToolCall{}), asked); !stands {
		t.Error("a question about no tool call is stale")
	}
	for _, tt := range []struct {
		report  string
		changes bool
	}{
		{`{"toolCallId":"t","title":"a"}`, true},
		{`{"toolCallId":"t","title":"a","status":"in_progress"}`, false},
		{`{"toolCallId":"t","rawInput":{"command":"x"}}`, true},
		{`{"toolCallId":"u","title":"another"}`, false},
		{`{"toolCallId":"t","title":"b"}`, true},
		{`{"toolCallId":"t","title":"a"}`, true},
	} {
		before := table.Subject("s", table.ToolCall("s", []byte(`{"toolCallId":"t"}`)))
		table.ToolCall("s", []byte(tt.report))
		if _, stands := table.Stands("s", before, asked); stands == tt.changes {
			t.Errorf("%s: it is current: %v", tt.report, tt.changes)
		}
	}
}

func TestToolCall_ReusedIDStartsEmpty(t *testing.T) {
	table, _, _ := newTable(t)
	table.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/w"})
	table.Opened("1", acp.Opened{SessionID: "s"}, false)
	const began = `{"sessionUpdate":"tool_call","toolCallId":"t","kind":"read","rawInput":{}}`
	table.ToolCall("s", []byte(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Read a","rawInput":{"path":"/w/a"}}`))
	if tc := table.ToolCall("s", []byte(began)); string(tc.RawInput) != `{"path":"/w/a"}` {
		t.Errorf("reported twice while it runs, it is %+v", tc)
	}
	table.ToolCall("s", []byte(`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed"}`))
	if tc := table.ToolCall("s", []byte(`{"toolCallId":"t","rawInput":{}}`)); tc.Title != "Read a" {
		t.Errorf("a question about it knows %+v", tc)
	}
	if tc := table.ToolCall("s", []byte(began)); tc.Title != "" || string(tc.RawInput) != `{}` || tc.Status != "" {
		t.Errorf("begun anew, it is %+v", tc)
	}
	if st := table.sessions.At("s"); st.toolBytes != st.tools.At("t").Size() {
		t.Errorf("%d bytes are counted for %d", st.toolBytes, st.tools.At("t").Size())
	}
}

func TestStands_AllowsChangesWithinReportGrace(t *testing.T) {
	const (
		whole = `{"toolCallId":"t","title":"Write f","rawInput":{"file_path":"/w/f","content":"x"}}`
		piece = `{"toolCallId":"t","rawInput":{"content":"x"}}`
	)
	for name, tt := range map[string]struct {
		piece, whole, answer time.Duration // after the question
		again                string
		want                 bool
	}{
		"the last pieces come late":                {10 * time.Millisecond, 400 * time.Millisecond, time.Second, whole, true},
		"they come before the question":            {-10 * time.Millisecond, -5 * time.Millisecond, time.Second, whole, true},
		"too late":                                 {10 * time.Millisecond, 501 * time.Millisecond, time.Second, whole, false},
		"the answer arrives before it can be read": {10 * time.Millisecond, 20 * time.Millisecond, 400 * time.Millisecond, whole, false},
		"it stays something else":                  {10 * time.Millisecond, 20 * time.Millisecond, time.Second, piece, false},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			now := began
			table := New(Options{Now: func() time.Time { return now }})
			table.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/w"})
			table.Opened("1", acp.Opened{SessionID: "s"}, false)
			judged := table.Subject("s", table.ToolCall("s", []byte(whole)))
			now = began.Add(tt.piece)
			table.ToolCall("s", []byte(piece))
			now = began.Add(tt.whole)
			table.ToolCall("s", []byte(tt.again))
			now = began.Add(tt.answer)
			if _, got := table.Stands("s", judged, began); got != tt.want {
				t.Errorf("it is current: %v", got)
			}
		})
	}
}

func TestCurrent_UntilSessionOrRootsChange(t *testing.T) {
	table, _, _ := newTable(t)
	table.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/w"})
	table.Opened("1", acp.Opened{SessionID: "s"}, false)
	check := func(cc *acpv1.CallContext, want bool, when string) {
		t.Helper()
		if table.Current(cc) != want {
			t.Errorf("%s: current is %v", when, !want)
		}
	}
	cc, err := table.Context("s")
	if err != nil {
		t.Fatal(err)
	}
	check(cc, true, "at once")
	table.Opening("2", acp.MethodSessionLoad, acp.Opening{SessionID: "s", Cwd: "/w"})
	check(cc, true, "loaded with the same roots")
	table.Opening("3", acp.MethodSessionLoad, acp.Opening{SessionID: "s", Cwd: "/x"})
	check(cc, false, "loaded with others")
	cc, _ = table.Context("s")
	table.Opening("4", acp.MethodSessionNew, acp.Opening{Cwd: "/x"})
	table.Opened("4", acp.Opened{SessionID: "s"}, false)
	check(cc, false, "replaced")
	cc, _ = table.Context("s")
	table.Closed("s")
	check(cc, false, "closed")
}

func TestSnapshot_AcceptsInvalidSessionID(t *testing.T) {
	table, _, _ := newTable(t)
	table.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/w"})
	if _, err := table.Context("\xff"); err != nil { // an early call names it
		t.Fatal(err)
	}
	if _, err := proto.Marshal(table.Snapshot()[0]); err != nil {
		t.Error(err)
	}
}

func TestOpened_FailedLoadKeepsOpenSession(t *testing.T) {
	table, _, closed := newTable(t)
	table.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/w"})
	table.Opened("1", acp.Opened{SessionID: "s"}, false)
	table.Opening("2", acp.MethodSessionLoad, acp.Opening{SessionID: "s", Cwd: "/w"})
	table.Opened("2", acp.Opened{}, true)
	if _, err := table.Context("s"); err != nil || len(*closed) != 0 {
		t.Errorf("the session is gone: %v, closed %v", err, *closed)
	}
}

func TestReplaying_UntilLastLoadIsAnswered(t *testing.T) {
	table, _, _ := newTable(t)
	table.Opening("1", acp.MethodSessionLoad, acp.Opening{SessionID: "s", Cwd: "/w"})
	table.Opening("2", acp.MethodSessionLoad, acp.Opening{SessionID: "s", Cwd: "/w"})
	for id, want := range []bool{true, true, false} {
		if id > 0 {
			table.Opened(string(rune('0'+id)), acp.Opened{}, false)
		}
		if got := table.Replaying("s"); got != want {
			t.Errorf("after %d answers, replaying is %v", id, got)
		}
	}
}
