package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

func newTable(t *testing.T) (table *Table, opened, closed *[]string) {
	t.Helper()
	opened, closed = new([]string), new([]string)
	table = New(Options{
		Agent:      "agent",
		ExtraRoots: []*acpv1.Root{{Path: "/shared", ReadOnly: true}},
		Opened:     func(s string) { *opened = append(*opened, s) },
		Closed:     func(s string) { *closed = append(*closed, s) },
	})
	return table, opened, closed
}

func roots(t *testing.T, table *Table, id string) string {
	t.Helper()
	cc, err := table.Context(id)
	if err != nil {
		t.Fatalf("Context(%q): %v", id, err)
	}
	var out []string
	for _, r := range cc.GetRoots() {
		out = append(out, r.GetPath())
	}
	return strings.Join(out, " ")
}

func TestContext_HasRequestedAndConfiguredRoots(t *testing.T) {
	table, opened, _ := newTable(t)
	table.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/w", AdditionalDirectories: []string{"/x"}})
	table.Opened("1", acp.Opened{SessionID: "s", Mode: "ask"}, false)
	if got, want := roots(t, table, "s"), "/w /x /shared"; got != want {
		t.Errorf("roots = %q, want %q", got, want)
	}
	cc, _ := table.Context("s")
	if cc.GetMode() != "ask" || cc.GetAgent() != "agent" || cc.GetScope() != (*opened)[0] || len(cc.GetScope()) != 32 {
		t.Errorf("context = %v, opened scopes %v", cc, *opened)
	}
}

func TestContext_AssignsIDToOnlyNewSession(t *testing.T) {
	table, opened, closed := newTable(t)
	table.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/w"})
	if got := roots(t, table, "early"); got != "/w /shared" {
		t.Errorf("roots = %q", got)
	}
	before, _ := table.Context("early")
	table.Opened("1", acp.Opened{SessionID: "early"}, false)
	after, err := table.Context("early")
	if err != nil || before.GetScope() != after.GetScope() {
		t.Errorf("the scope changed from %q to %q (%v)", before.GetScope(), after.GetScope(), err)
	}
	if len(*opened) != 1 || len(*closed) != 0 {
		t.Errorf("opened %v, closed %v; want one scope that lives", *opened, *closed)
	}
}

func TestContext_UnknownWithTwoNewSessions(t *testing.T) {
	table, _, _ := newTable(t)
	table.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/a"})
	table.Opening("2", acp.MethodSessionNew, acp.Opening{Cwd: "/b"})
	if cc, err := table.Context("s"); !errors.Is(err, ErrUnknown) {
		t.Errorf("Context = %v, %v; want ErrUnknown", cc, err)
	}
}

func TestOpened_ReusedIDGetsNewScope(t *testing.T) {
	table, _, closed := newTable(t)
	table.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/a"})
	table.Opened("1", acp.Opened{SessionID: "s"}, false)
	first, _ := table.Context("s")
	table.Opening("2", acp.MethodSessionNew, acp.Opening{Cwd: "/b"})
	table.Opened("2", acp.Opened{SessionID: "s"}, false)
	second, _ := table.Context("s")
	if first.GetScope() == second.GetScope() {
		t.Error("two sessions share a scope")
	}
	if len(*closed) != 1 || (*closed)[0] != first.GetScope() {
		t.Errorf("closed %v, want the first scope %q", *closed, first.GetScope())
	}
	if n := len(table.Snapshot()); n != 1 {
		t.Errorf("%d sessions are shown, want 1", n)
	}
}

func TestOpening_LoadReplacesRootsAndMarksHistory(t *testing.T) {
	table, _, _ := newTable(t)
	table.Opening("1", acp.MethodSessionLoad, acp.Opening{SessionID: "s", Cwd: "/a", AdditionalDirectories: []string{"/x"}})
	if !table.Replaying("s") {
		t.Error("a session that is being loaded is not replaying")
	}
	table.Opened("1", acp.Opened{}, false)
	if table.Replaying("s") {
		t.Error("a loaded session is still replaying")
	}
	table.Opening("2", acp.MethodSessionResume, acp.Opening{SessionID: "s", Cwd: "/b"})
	if got, want := roots(t, table, "s"), "/b /shared"; got != want {
		t.Errorf("roots = %q, want %q", got, want)
	}
}

func TestOpened_FailedNewSessionIsRemoved(t *testing.T) {
	table, opened, closed := newTable(t)
	table.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/a"})
	_, _ = table.Context("s") // the agent called before it failed
	table.Opened("1", acp.Opened{}, true)
	if _, err := table.Context("s"); !errors.Is(err, ErrUnknown) {
		t.Errorf("err = %v, want ErrUnknown", err)
	}
	if len(*opened) != 1 || len(*closed) != 1 {
		t.Errorf("opened %v, closed %v", *opened, *closed)
	}
}

func TestTable_ClosesEachScopeOnce(t *testing.T) {
	table, opened, closed := newTable(t)
	for i := range 3 {
		id := fmt.Sprint(i)
		table.Opening(id, acp.MethodSessionNew, acp.Opening{Cwd: "/a"})
		table.Opened(id, acp.Opened{SessionID: "s" + id}, false)
	}
	table.Opening("9", acp.MethodSessionNew, acp.Opening{Cwd: "/a"})
	table.Closed("s1")
	table.CloseAll()
	table.CloseAll()
	if len(*opened) != 4 || len(*closed) != 4 {
		t.Fatalf("opened %d scopes, closed %d; want 4 and 4", len(*opened), len(*closed))
	}
	seen := map[string]bool{}
	for _, s := range *closed {
		if s == "" || seen[s] {
			t.Errorf("scope %q was closed twice, or never opened", s)
		}
		seen[s] = true
	}
}

func TestToolCall_MergesReports(t *testing.T) {
	table, _, _ := newTable(t)
	table.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/a"})
	table.Opened("1", acp.Opened{SessionID: "s"}, false)
	table.ToolCall("s", []byte(`{"toolCallId":"t","title":"Run","kind":"execute","rawInput":{"command":"ls"}}`))
	tc := table.ToolCall("s", []byte(`{"toolCallId":"t"}`))
	if tc.Kind != "execute" || string(tc.RawInput) != `{"command":"ls"}` {
		t.Errorf("got %+v", tc)
	}
	if other := table.ToolCall("elsewhere", []byte(`{"toolCallId":"t"}`)); other.Kind != "" {
		t.Errorf("a tool call of another session was merged: %+v", other)
	}
}

func TestToolCall_LimitsNumberAndSize(t *testing.T) {
	table, _, _ := newTable(t)
	table.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/a"})
	table.Opened("1", acp.Opened{SessionID: "s"}, false)
	for i := range maxToolCalls + 10 {
		table.ToolCall("s", fmt.Appendf(nil, `{"toolCallId":"t%d"}`, i))
	}
	st := table.sessions.At("s")
	if st.tools.Len() != maxToolCalls {
		t.Errorf("%d tool calls are kept, want %d", st.tools.Len(), maxToolCalls)
	}
	big := strings.Repeat("x", maxToolCallBytes/3)
	for i := range 5 {
		table.ToolCall("s", fmt.Appendf(nil, `{"toolCallId":"b%d","rawInput":"%s"}`, i, big))
	}
	if st.toolBytes > maxToolCallBytes+maxToolCallBytes/3 {
		t.Errorf("%d bytes of tool calls are kept, more than %d", st.toolBytes, maxToolCallBytes)
	}
	for id, tc := range st.tools.All() {
		if id != tc.ID {
			t.Errorf("tool call %q is kept as %q", tc.ID, id)
		}
	}
}

func TestPrompted_TurnEndsWithAnswer(t *testing.T) {
	table, _, _ := newTable(t)
	table.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/a"})
	table.Opened("1", acp.Opened{SessionID: "s"}, false)
	table.Prompted("2", "s", false)
	if st := table.Snapshot()[0]; !st.GetTurnActive() || st.GetTurns() != 1 {
		t.Errorf("during the turn: %v", st)
	}
	table.PromptEnded("2", "end_turn")
	table.PromptEnded("2", "again")
	if st := table.Snapshot()[0]; st.GetTurnActive() || st.GetLastStopReason() != "end_turn" {
		t.Errorf("after the turn: %v", st)
	}
}

func TestOpened_FailedLoadRemovesSession(t *testing.T) {
	closed := 0
	table := New(Options{Closed: func(string) { closed++ }})
	table.Opening("1", acp.MethodSessionLoad, acp.Opening{SessionID: "s", Cwd: "/w"})
	table.Opening("2", acp.MethodSessionResume, acp.Opening{SessionID: "s", Cwd: "/w"})
	table.Opened("1", acp.Opened{}, true)
	if len(table.Snapshot()) != 1 {
		t.Error("it ended while another request for it was under way")
	}
	table.Opened("2", acp.Opened{}, true)
	if n := len(table.Snapshot()); n != 0 || closed != 1 {
		t.Errorf("%d sessions, %d ends; want none, and one end", n, closed)
	}
	table.Opening("3", acp.MethodSessionLoad, acp.Opening{SessionID: "s", Cwd: "/w"})
	table.Opened("3", acp.Opened{}, false)
	table.Opening("4", acp.MethodSessionLoad, acp.Opening{SessionID: "s", Cwd: "/w"})
	table.Opened("4", acp.Opened{}, true)
	if len(table.Snapshot()) != 1 {
		t.Error("a session that was there ended because loading it again failed")
	}
}

func TestModeSet_RestoresModeAfterError(t *testing.T) {
	type step func(table *Table)
	sets := func(id, mode string) step { return func(table *Table) { table.SettingMode(id, "s", mode) } }
	answers := func(id string, failed bool) step { return func(table *Table) { table.ModeSet(id, failed) } }
	reports := func(mode string) step { return func(table *Table) { table.Mode("s", mode) } }
	for name, tt := range map[string]struct {
		steps []step
		want  string
	}{
		"refused":                                {[]step{sets("1", "a"), answers("1", true)}, "plan"},
		"taken":                                  {[]step{sets("1", "a"), answers("1", false)}, "a"},
		"two, both refused":                      {[]step{sets("1", "a"), sets("2", "b"), answers("1", true), answers("2", true)}, "plan"},
		"two, both refused, the second first":    {[]step{sets("1", "a"), sets("2", "b"), answers("2", true), answers("1", true)}, "plan"},
		"two, the second refused":                {[]step{sets("1", "a"), sets("2", "b"), answers("1", false), answers("2", true)}, "a"},
		"two, the second refused first":          {[]step{sets("1", "a"), sets("2", "b"), answers("2", true), answers("1", false)}, "a"},
		"two, the first refused":                 {[]step{sets("1", "a"), sets("2", "b"), answers("1", true), answers("2", false)}, "b"},
		"rejected, though the agent reported it": {[]step{sets("1", "a"), reports("a"), answers("1", true)}, "a"},
		"rejected, and another one was reported": {[]step{sets("1", "a"), reports("c"), answers("1", true)}, "c"},
	} {
		t.Run(name, func(t *testing.T) {
			table, _, _ := newTable(t)
			table.Opening("open", acp.MethodSessionNew, acp.Opening{Cwd: "/w"})
			table.Opened("open", acp.Opened{SessionID: "s", Mode: "plan"}, false)
			for _, s := range tt.steps {
				s(table)
			}
			cc, err := table.Context("s")
			if err != nil {
				t.Fatal(err)
			}
			if cc.GetMode() != tt.want {
				t.Errorf("the mode is %q, want %q", cc.GetMode(), tt.want)
			}
		})
	}
}

func TestHome_KeepsFirstRoot(t *testing.T) {
	table := New(Options{})
	table.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/a"})
	if got := table.Home("s"); got != "/a" { // a call that overtakes the answer
		t.Errorf("before the answer: %q", got)
	}
	table.Opened("1", acp.Opened{SessionID: "s"}, false)
	table.Opening("2", acp.MethodSessionLoad, acp.Opening{SessionID: "s", Cwd: "/b"})
	table.Opened("2", acp.Opened{}, false)
	if got := table.Home("s"); got != "/a" {
		t.Errorf("after it was loaded in another folder: %q", got)
	}
	table.Closed("s")
	if got := table.Home("s"); got != "" {
		t.Errorf("after its end: %q", got)
	}
	table.Opening("3", acp.MethodSessionLoad, acp.Opening{SessionID: "s", Cwd: "/b"})
	if got := table.Home("s"); got != "/b" {
		t.Errorf("when it was loaded after its end: %q", got)
	}
}

func TestTable_ReportsChanges(t *testing.T) {
	changes := 0
	table := New(Options{Changed: func() { changes++ }, TurnEnded: func(string) { changes += 100 }, Closed: func(string) { changes += 1000 }})
	for i, step := range []struct {
		do      func()
		changes int // at least
	}{
		{func() { table.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/w"}) }, 1},
		{func() { _, _ = table.Context("early") }, 1},
		{func() { table.Opened("1", acp.Opened{SessionID: "s"}, false) }, 1},
		{func() { table.SetProtocolVersion(2) }, 1},
		{func() { table.Prompted("2", "s", false) }, 1},
		{func() { table.Cancelled("s") }, 1},
		{func() { table.Mode("s", "code") }, 1},
		{func() { table.SettingMode("3", "s", "ask") }, 1},
		{func() { table.ModeSet("3", true) }, 1},
		{func() { table.PromptEnded("2", "end_turn") }, 101},
		{func() { table.Prompted("4", "s", false); table.PromptAccepted("4") }, 1},
		{func() { table.Idle("s", "end_turn") }, 101},
		{func() { table.Closed("s") }, 1001},
	} {
		before := changes
		step.do()
		if got := changes - before; got < step.changes || got%100 == 0 {
			t.Errorf("step %d: notified of %d, want at least %d", i, got, step.changes)
		}
	}
	before := changes
	table.Updated([]byte("s"), 1)
	table.Read("scope", "/w/a", "digest")
	if changes != before {
		t.Error("a change without effect on decisions was reported")
	}
}

// TestTable_ReportsChangeBeforeTurnEnd: counters of a turn must not be used after its end.
func TestTable_ReportsChangeBeforeTurnEnd(t *testing.T) {
	changes, before := 0, 0
	table := New(Options{
		Changed:   func() { changes++ },
		TurnEnded: func(string) { before = changes },
	})
	table.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/w"})
	table.Opened("1", acp.Opened{SessionID: "s"}, false)
	table.Prompted("2", "s", false)
	was := changes
	table.PromptEnded("2", "end_turn")
	if before != was+1 {
		t.Errorf("notified of %d changes before the end of the turn, want 1", before-was)
	}
}

func TestPrompting_NewestTurnIsFirst(t *testing.T) {
	table, _, _ := newTable(t)
	for _, id := range []string{"s", "t", "u"} {
		table.Opening(id, acp.MethodSessionNew, acp.Opening{Cwd: "/w"})
		table.Opened(id, acp.Opened{SessionID: id}, false)
	}
	for _, c := range []struct {
		session string
		want    []string
	}{{"t", []string{"t"}}, {"u", []string{"u", "t"}}, {"s", []string{"s", "u", "t"}}, {"t", []string{"t", "s", "u"}}} {
		table.Prompted("prompt of "+c.session+fmt.Sprint(len(c.want)), c.session, false)
		if got := table.Prompting(); !slices.Equal(got, c.want) {
			t.Errorf("after a prompt of %s: got %q, want %q", c.session, got, c.want)
		}
	}
}

func TestPrompted_OnlyOwnPromptsOverlap(t *testing.T) {
	const client, foreign = false, true
	table, _, _ := newTable(t)
	for _, id := range []string{"s", "t"} {
		table.Opening(id, acp.MethodSessionNew, acp.Opening{Cwd: "/w"})
		table.Opened(id, acp.Opened{SessionID: id}, false)
	}
	n := 0
	prompts := func(session string, own, want bool) (id string) {
		t.Helper()
		n++
		id = fmt.Sprint(n)
		if begins := table.Prompted(id, session, own); begins != want {
			t.Errorf("prompt %s of %s, foreign %t: it begins a turn %t, want %t", id, session, own, begins, want)
		}
		return id
	}
	first := prompts("s", client, true)
	second := prompts("s", client, true)
	prompts("s", foreign, false)
	other := prompts("t", foreign, true)
	prompts("t", foreign, false)
	prompts("t", client, false)
	table.PromptEnded(first, "end_turn")
	prompts("s", foreign, false)
	table.PromptEnded(second, "end_turn")
	prompts("s", foreign, true)
	table.PromptEnded(other, "")
	prompts("t", client, true)
}
