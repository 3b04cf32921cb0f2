package session

import (
	"testing"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"google.golang.org/protobuf/proto"
)

func TestARevisionFollowsWhatAToolCallIsAboutAndNotItsStatus(t *testing.T) {
	b, _, _ := newBook(t)
	b.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/w"})
	b.Opened("1", acp.Opened{SessionID: "s"}, false)
	if b.Revision("s", "t") != 0 {
		t.Error("a tool call that nobody reported has a revision")
	}
	last := uint64(0)
	for _, tt := range []struct {
		report  string
		changes bool
	}{
		{`{"toolCallId":"t"}`, true},
		{`{"toolCallId":"t","title":"a"}`, true},
		{`{"toolCallId":"t","title":"a","status":"in_progress"}`, false},
		{`{"toolCallId":"t","rawInput":{"command":"x"}}`, true},
		{`{"toolCallId":"u","title":"another"}`, false},
		{`{"toolCallId":"t","title":"b"}`, true},
		{`{"toolCallId":"t","title":"a"}`, true},
	} {
		b.ToolCall("s", []byte(tt.report))
		now := b.Revision("s", "t")
		if (now != last) != tt.changes {
			t.Errorf("%s: revision %d after %d", tt.report, now, last)
		}
		last = now
	}
}

func TestAContextIsCurrentUntilItsSessionOrItsRootsChange(t *testing.T) {
	b, _, _ := newBook(t)
	b.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/w"})
	b.Opened("1", acp.Opened{SessionID: "s"}, false)
	check := func(cc *acpv1.CallContext, want bool, when string) {
		t.Helper()
		if b.Current(cc) != want {
			t.Errorf("%s: current is %v", when, !want)
		}
	}
	cc, err := b.Context("s")
	if err != nil {
		t.Fatal(err)
	}
	check(cc, true, "at once")
	b.Opening("2", acp.MethodSessionLoad, acp.Opening{SessionID: "s", Cwd: "/w"})
	check(cc, true, "loaded with the same roots")
	b.Opening("3", acp.MethodSessionLoad, acp.Opening{SessionID: "s", Cwd: "/x"})
	check(cc, false, "loaded with others")
	cc, _ = b.Context("s")
	b.Opening("4", acp.MethodSessionNew, acp.Opening{Cwd: "/x"})
	b.Opened("4", acp.Opened{SessionID: "s"}, false)
	check(cc, false, "replaced")
	cc, _ = b.Context("s")
	b.Closed("s")
	check(cc, false, "closed")
}

func TestASessionWhoseIDIsNotTextCanBeShown(t *testing.T) {
	b, _, _ := newBook(t)
	b.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/w"})
	if _, err := b.Context("\xff"); err != nil { // an early call names it
		t.Fatal(err)
	}
	if _, err := proto.Marshal(b.Snapshot()[0]); err != nil {
		t.Error(err)
	}
}

func TestALoadThatFailsEndsNoSessionThatLives(t *testing.T) {
	b, _, closed := newBook(t)
	b.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/w"})
	b.Opened("1", acp.Opened{SessionID: "s"}, false)
	b.Opening("2", acp.MethodSessionLoad, acp.Opening{SessionID: "s", Cwd: "/w"})
	b.Opened("2", acp.Opened{}, true)
	if _, err := b.Context("s"); err != nil || len(*closed) != 0 {
		t.Errorf("the session is gone: %v, closed %v", err, *closed)
	}
}

func TestHistoryLastsUntilTheLastLoadIsAnswered(t *testing.T) {
	b, _, _ := newBook(t)
	b.Opening("1", acp.MethodSessionLoad, acp.Opening{SessionID: "s", Cwd: "/w"})
	b.Opening("2", acp.MethodSessionLoad, acp.Opening{SessionID: "s", Cwd: "/w"})
	for id, want := range []bool{true, true, false} {
		if id > 0 {
			b.Opened(string(rune('0'+id)), acp.Opened{}, false)
		}
		if got := b.Replaying("s"); got != want {
			t.Errorf("after %d answers, replaying is %v", id, got)
		}
	}
}
