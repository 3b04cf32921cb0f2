package render

import (
	"fmt"
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func reported(id, title, status string, content ...*supervisorv1.ToolCallContent) *supervisorv1.Event {
	kind := "execute"
	return &supervisorv1.Event{Event: &supervisorv1.Event_ToolCallUpdate{ToolCallUpdate: &supervisorv1.ToolCallReport{
		ToolCallId: id, Title: &title, Kind: &kind, Status: &status, Content: content, ContentSet: content != nil,
	}}}
}

func shownText(text string) *supervisorv1.ToolCallContent {
	return &supervisorv1.ToolCallContent{Item: &supervisorv1.ToolCallContent_Content{Content: &supervisorv1.ContentBlock{
		Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: text}},
	}}}
}

func shownDiff() *supervisorv1.ToolCallContent {
	old := "a\n"
	return &supervisorv1.ToolCallContent{Item: &supervisorv1.ToolCallContent_Diff{Diff: &supervisorv1.Diff{Path: "f", OldText: &old, NewText: "b\n"}}}
}

func saidText(text string) *supervisorv1.Event {
	return &supervisorv1.Event{Event: &supervisorv1.Event_AgentMessage{AgentMessage: &supervisorv1.MessageChunk{
		Content: &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: text}}},
	}}}
}

func turnEnded(why string) *supervisorv1.Event {
	return &supervisorv1.Event{Event: &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{StopReason: why}}}
}

func callFailed(why string) *supervisorv1.Event {
	return &supervisorv1.Event{Event: &supervisorv1.Event_CallEnded{CallEnded: &supervisorv1.CallEnded{Id: "1", Method: "fs/read_text_file", Error: why}}}
}

func TestBrief_PrintsShortCallsOnce(t *testing.T) {
	exit := uint32(0)
	ended := &supervisorv1.WatchOutputResponse{Data: []byte("ok\n"), Ended: true, ExitCode: &exit}
	question := &supervisorv1.Approval{Id: "q", Permission: &supervisorv1.PermissionQuestion{
		ToolCallId: "t", Title: "Edit f", Content: []*supervisorv1.ToolCallContent{shownDiff()},
	}}
	for name, c := range map[string]struct {
		show func(*Renderer) []string
		want string
	}{
		"a tool call": {func(r *Renderer) []string {
			return []string{r.Event(reported("t", "Run", "pending")), r.Event(reported("t", "Run it", "in_progress")), r.Event(reported("t", "Run it", "completed"))}
		}, "✓ $ Run it\n"},
		"one that takes a while": {func(r *Renderer) []string {
			return []string{r.Event(reported("t", "Run", "pending")), r.Event(reported("t", "Run", "in_progress")), r.FlushHeld(), r.FlushHeld(), r.Event(reported("t", "Run", "completed"))}
		}, "◐ $ Run\n✓ $ Run\n"},
		"an open call of a cancelled turn": {func(r *Renderer) []string {
			return []string{
				r.Event(reported("t", "Run", "in_progress", shownDiff())), r.FlushHeld(), r.Event(reported("u", "Then", "pending", shownDiff())),
				r.Event(turnEnded("cancelled")),
			}
		}, "◐ $ Run\n    f +1 -1\n    -a\n    +b\n✗ $ Then (cancelled)\nThe turn was cancelled.\n"},
		"one whose question a cancelled turn withdraws": {func(r *Renderer) []string {
			return []string{
				r.Event(&supervisorv1.Event{Event: &supervisorv1.Event_QuestionAsked{QuestionAsked: question}}), r.Event(reported("t", "Edit f", "pending", shownDiff())),
				r.Event(&supervisorv1.Event{Event: &supervisorv1.Event_QuestionAnswered{QuestionAnswered: &supervisorv1.ApprovalAnswer{Id: "q", Outcome: "cancelled"}}}),
				r.Event(turnEnded("cancelled")),
			}
		}, "- cancelled: Edit f\nThe turn was cancelled.\n"},
		"several at once": {func(r *Renderer) []string {
			return []string{r.Event(reported("a", "A", "pending")), r.Event(reported("b", "B", "pending")), r.Event(reported("a", "A", "completed")), r.Event(reported("b", "B", "completed"))}
		}, "✓ $ A\n✓ $ B\n"},
		"one before a message": {func(r *Renderer) []string {
			return []string{r.Event(saidText("First")), r.Event(reported("t", "Run", "pending")), r.Event(saidText("Then")), r.Event(reported("t", "Run", "completed"))}
		}, "First\n\n○ $ Run\n\nThen\n\n✓ $ Run\n"},
		"one whose output is shown": {func(r *Renderer) []string {
			return []string{r.Event(reported("t", "Run", "in_progress")), r.Output("x", ended), r.Event(reported("t", "Run", "completed"))}
		}, "◐ $ Run\n    │ ok\n    │ exit code 0\n✓ $ Run\n"},
		"one that is asked about": {func(r *Renderer) []string {
			return []string{r.Event(reported("t", "Edit f", "pending", shownDiff())), r.Question(question), r.Event(reported("t", "Edit f", "completed", shownDiff()))}
		}, "○ $ Edit f\n    f +1 -1\n    -a\n    +b\n\n? The agent asks: Edit f\n✓ $ Edit f\n"},
		"one that never ends": {func(r *Renderer) []string {
			return []string{r.Event(reported("t", "Run", "in_progress")), r.Flush()}
		}, "◐ $ Run\n"},
		"a failure that the tool call shows": {func(r *Renderer) []string {
			return []string{r.Event(reported("t", "Read", "in_progress")), r.Event(callFailed("no such file")), r.Event(reported("t", "Read", "failed", shownText("no such file (-32603)")))}
		}, "✗ $ Read (failed)\n    no such file (-32603)\n"},
		"a failure without another report": {func(r *Renderer) []string {
			return []string{r.Event(callFailed("no such file")), r.Event(callFailed("no such folder")), r.Event(reported("t", "Read", "completed")), r.Flush()}
		}, "✗ fs/read_text_file: no such file\n✗ fs/read_text_file: no such folder\n✓ $ Read\n"},
		"a failure that acphost gives notice of": {func(r *Renderer) []string {
			notice := &supervisorv1.Event{Event: &supervisorv1.Event_Notice{Notice: &supervisorv1.Notice{Severity: "warning", Title: "Denied", Description: "denied: no rule", FromAcphost: true}}}
			return []string{r.Event(reported("t", "Read", "in_progress")), r.Event(callFailed("denied: no rule")), r.Event(notice), r.Event(reported("t", "Read", "failed", shownText("denied: no rule (-32603)")))}
		}, "◐ $ Read\n! warning (acphost): Denied\n    denied: no rule\n✗ $ Read (failed)\n"},
		"a failure that acphost gave notice of": {func(r *Renderer) []string {
			notice := &supervisorv1.Event{Event: &supervisorv1.Event_Notice{Notice: &supervisorv1.Notice{Severity: "warning", Title: "Denied", Description: "denied: no rule", FromAcphost: true}}}
			return []string{r.Event(notice), r.Event(callFailed("denied: no rule")), r.Event(reported("t", "Read", "failed", shownText("denied: no rule (-32603)"), shownText("another thing")))}
		}, "! warning (acphost): Denied\n    denied: no rule\n✗ $ Read (failed)\n    another thing\n"},
		"a failure that an agent attributes to acphost": {func(r *Renderer) []string {
			notice := &supervisorv1.Event{Event: &supervisorv1.Event_Notice{Notice: &supervisorv1.Notice{Severity: "warning", Title: "Fine", Description: "denied: no rule"}}}
			return []string{r.Event(callFailed("denied: no rule")), r.Event(notice)}
		}, "✗ fs/read_text_file: denied: no rule\n! warning (agent): Fine\n    denied: no rule\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(c.show(New(Options{Brief: true, Asking: true})), ""); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestBrief_LimitsHeldToolCalls(t *testing.T) {
	r := New(Options{Brief: true})
	var text strings.Builder
	const calls = 10_000
	for i := range calls {
		text.WriteString(r.Event(reported(fmt.Sprint(i), fmt.Sprintf("call %d.", i), "pending")))
		if len(r.heldBack) > maxBegun {
			t.Fatalf("%d tool calls are held back", len(r.heldBack))
		}
	}
	text.WriteString(r.Flush())
	for _, i := range []int{0, 1, maxBegun, calls - 1} {
		if n := strings.Count(text.String(), fmt.Sprintf(" call %d.\n", i)); n != 1 {
			t.Errorf("tool call %d is reported %d times", i, n)
		}
	}
}
