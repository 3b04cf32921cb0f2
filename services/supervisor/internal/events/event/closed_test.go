package event

import (
	"testing"

	"google.golang.org/protobuf/encoding/prototext"

	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

func TestDecoder_IgnoresClosedAndNoticeOfAgent(t *testing.T) {
	d := NewDecoder(frame.Agent{ID: "a-1"}, nil)
	closed := AppendClosed(nil, "s", `it "ended"`)
	got := d.Frame(frame.Frame{Direction: frame.OursToClient, Line: closed})
	if len(got) != 1 || got[0].GetSessionId() != "s" || got[0].GetAgentId() != "a-1" || got[0].GetSessionClosed().GetReason() != `it "ended"` {
		t.Errorf("got %v", got)
	}
	for _, d2 := range []frame.Direction{frame.AgentToClient, frame.ClientToAgent, frame.AgentToHandler} {
		if got := d.Frame(frame.Frame{Direction: d2, Line: closed}); len(got) != 0 {
			t.Errorf("from %v the event is %v", d2, got)
		}
	}
	if got := d.Frame(frame.Frame{Direction: frame.OursToClient, Line: AppendClosed(nil, "", "x")}); len(got) != 0 {
		t.Errorf("of no session receives %v", got)
	}
	got = d.Frame(frame.Frame{Direction: frame.OursToClient, Line: AppendNotice(nil, "s", "error", "a title", "more\n\"of\" it")})
	if len(got) != 1 {
		t.Fatalf("got %v", got)
	}
	if n := got[0].GetNotice(); got[0].GetSessionId() != "s" || !n.GetFromAcphost() || n.GetSeverity() != "error" || n.GetTitle() != "a title" || n.GetDescription() != "more\n\"of\" it" {
		t.Errorf("got %s", prototext.Format(got[0]))
	}
}
