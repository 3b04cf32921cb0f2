package chat

import (
	"io"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestToolCall_OpenAtTurnEndIsPrintedOnce(t *testing.T) {
	answered := func(id, outcome string) tea.Msg {
		return questionsMsg{changes: []*supervisorv1.WatchApprovalsResponse{{Change: &supervisorv1.WatchApprovalsResponse_Answered{
			Answered: &supervisorv1.ApprovalAnswer{Id: id, Outcome: outcome, AnsweredBy: "nobody"},
		}}}}
	}
	edit := func() *supervisorv1.Event {
		ev := toolCall("t1", "Edit f", "edit", "pending")
		call := ev.GetToolCall()
		call.ContentSet, call.Content = true, []*supervisorv1.ToolCallContent{{Item: &supervisorv1.ToolCallContent_Diff{Diff: &supervisorv1.Diff{Path: "f", NewText: "new\n"}}}}
		return ev
	}
	for name, c := range map[string]struct {
		show func(*screen)
		want string
	}{
		"it was asked about, and the question ends first": {func(s *screen) {
			s.asked(permission("claude-1/1"))
			s.send(answered("claude-1/1", "cancelled"))
			s.emit(turnEnd("cancelled"))
		}, "- cancelled: $ go test ./...\nThe turn was cancelled."},
		"it was asked about, and the turn ends first": {func(s *screen) {
			s.asked(permission("claude-1/1"))
			s.emit(turnEnd("cancelled"))
			s.send(answered("claude-1/1", "withdrawn"))
		}, "The turn was cancelled.\n- withdrawn: $ go test ./..."},
		"it was allowed": {func(s *screen) {
			s.asked(permission("claude-1/1"))
			s.send(answered("claude-1/1", "allowed"))
			s.printed()
			s.emit(turnEnd("cancelled"))
		}, "✗ ✎ Edit f (cancelled)\nThe turn was cancelled."},
		"there was no question":     {func(s *screen) { s.emit(turnEnd("cancelled")) }, "✗ ✎ Edit f (cancelled)\nThe turn was cancelled."},
		"the turn is not cancelled": {func(s *screen) { s.emit(turnEnd("refusal")) }, "○ ✎ Edit f\n    f (new) +1 -0\n    +new\nThe agent refuses to go on."},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScreen(t, 100, 40).ready()
			s.write("go")
			s.press("enter")
			s.emit(edit())
			s.printed()
			c.show(s)
			s.send(turnMsg{turn: s.m.turn.number, err: io.EOF})
			if got := strings.TrimSpace(s.printed()); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if s.m.turn != nil || len(s.m.live.tools) > 0 {
				t.Errorf("the turn continues, with %d tool calls", len(s.m.live.tools))
			}
		})
	}
}

func TestToolCall_ExpandsAfterEndAndResize(t *testing.T) {
	s := newScreen(t, 100, 40).ready()
	s.write("go")
	s.press("enter")
	s.emit(toolCall("t1", "Edit f", "edit", "completed"))
	s.printed()
	s.send(tea.WindowSizeMsg{Width: 90, Height: 40})
	s.emit(&supervisorv1.Event{SessionId: "s1", Event: &supervisorv1.Event_ToolCallUpdate{ToolCallUpdate: &supervisorv1.ToolCallReport{
		ToolCallId: "t1", ContentSet: true, Content: []*supervisorv1.ToolCallContent{{Item: &supervisorv1.ToolCallContent_Diff{Diff: &supervisorv1.Diff{Path: "f", NewText: "new\n"}}}},
	}}})
	if got, want := strings.TrimSpace(s.printed()), "✓ ✎ Edit f\n    f (new) +1 -0\n    +new"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if len(s.m.live.tools) > 0 {
		t.Errorf("%d tool calls are under way", len(s.m.live.tools))
	}
}
