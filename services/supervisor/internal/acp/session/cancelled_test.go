package session

import (
	"slices"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

func TestPrompted_KeepsOpenToolCallsUnlessCancelled(t *testing.T) {
	for stop, want := range map[string]int{"end_turn": 1, "cancelled": 0} {
		t.Run(stop, func(t *testing.T) {
			table, _, _ := newTable(t)
			table.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/w"})
			table.Opened("1", acp.Opened{SessionID: "s"}, false)
			table.Prompted("2", "s", false)
			table.ToolCall("s", []byte(`{"toolCallId":"t","title":"Sleep","status":"in_progress"}`))
			table.PromptEnded("2", stop)
			if got := table.Snapshot()[0].GetToolCalls(); len(got) != 1 {
				t.Errorf("after the turn there are %v", got)
			}
			for range 2 {
				table.Prompted("3", "s", false)
				if got := table.Snapshot()[0].GetToolCalls(); len(got) != want {
					t.Errorf("in the next turn there are %v, want %d", got, want)
				}
				table.PromptEnded("3", "end_turn")
			}
			if st := table.sessions.At("s"); want == 0 && st.toolBytes != 0 {
				t.Errorf("%d bytes are counted for nothing", st.toolBytes)
			}
		})
	}
}

func TestSnapshot_NamesFileOnce(t *testing.T) {
	table, _, _ := newTable(t)
	table.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: "/w"})
	table.Opened("1", acp.Opened{SessionID: "s"}, false)
	table.ToolCall("s", []byte(`{"toolCallId":"e","locations":[{"path":"/f"},{"path":"/g"}],"content":[{"type":"diff","path":"/f","newText":"1"},{"type":"diff","path":"/f","newText":"2"}]}`))
	if got := table.Snapshot()[0].GetToolCalls()[0].GetPaths(); !slices.Equal(got, []string{"/f", "/g"}) {
		t.Errorf("the tool call names %q, want /f and /g once each", got)
	}
}
