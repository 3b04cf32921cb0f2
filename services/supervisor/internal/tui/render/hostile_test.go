package render

import (
	"regexp"
	"strings"
	"testing"
	"unicode"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"google.golang.org/protobuf/proto"
)

// ours are the sequences that this package writes.
var ours = regexp.MustCompile(`\x1b\[(?:[1-9]|3[1-6])?(?:;(?:[1-9]|3[1-6]))*m|\x1b\[0m`)

// harmlessText fails where text holds what a terminal obeys, but for our own colours.
func harmlessText(t *testing.T, text string) {
	t.Helper()
	for i, r := range ours.ReplaceAllString(text, "") {
		if r == '\n' || r == '\t' {
			continue
		}
		if unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			t.Fatalf("%q holds %U at %d", text, r, i)
		}
	}
}

const evil = "a\x1b[2J\x1b]0;title\x07\x1b[1A\rb\u009b31m\u202egnp.exe\u2066\u200f\x00\x08c\x7f\u2028d\U000e0041"

func TestRender_EscapesControlSequences(t *testing.T) {
	text := func(s string) *supervisorv1.ContentBlock {
		return &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: s}}}
	}
	chunk := &supervisorv1.MessageChunk{Content: text(evil)}
	approval := &supervisorv1.Approval{Id: "a/1", Permission: &supervisorv1.PermissionQuestion{
		Title: evil, Kind: evil, Reason: evil, RawInput: `{"command":"rm \u001b[2J\u202e","cwd":"\u001b[2J\u202e\n? x","a\u001b[2J\u202e\n? x":"\u009b\u2066\r\n? x","b":{"` + "\u202e" + `":1}}`,
		Content:   []*supervisorv1.ToolCallContent{{Item: &supervisorv1.ToolCallContent_Content{Content: text(evil)}}},
		Locations: []*supervisorv1.Location{{Path: evil}},
		Options:   []*supervisorv1.PermissionOption{{OptionId: "x", Name: evil}},
	}}
	events := []*supervisorv1.Event{
		{Event: &supervisorv1.Event_UserMessage{UserMessage: chunk}},
		{Event: &supervisorv1.Event_AgentMessage{AgentMessage: chunk}},
		{Event: &supervisorv1.Event_AgentMessage{AgentMessage: &supervisorv1.MessageChunk{Content: &supervisorv1.ContentBlock{
			Content: &supervisorv1.ContentBlock_ResourceLink{ResourceLink: &supervisorv1.ResourceLink{Uri: evil, Name: evil + "x"}}}}}},
		{Event: &supervisorv1.Event_AgentThought{AgentThought: chunk}},
		{Event: &supervisorv1.Event_ToolCall{ToolCall: &supervisorv1.ToolCallReport{
			ToolCallId: "t", Title: proto.String(evil), Status: proto.String(evil), Kind: proto.String(evil), LocationsSet: true, ContentSet: true,
			Locations: []*supervisorv1.Location{{Path: evil, Line: proto.Uint32(3)}},
			Content: []*supervisorv1.ToolCallContent{
				{Item: &supervisorv1.ToolCallContent_Diff{Diff: &supervisorv1.Diff{Path: evil, NewText: evil}}},
				{Item: &supervisorv1.ToolCallContent_Other{Other: evil}},
			},
		}}},
		{Event: &supervisorv1.Event_ToolCallUpdate{ToolCallUpdate: &supervisorv1.ToolCallReport{
			ToolCallId: "t", Status: proto.String("completed"), ContentSet: true,
			Content: []*supervisorv1.ToolCallContent{{Item: &supervisorv1.ToolCallContent_Content{Content: text(evil)}}},
		}}},
		{Event: &supervisorv1.Event_ToolCallUpdate{ToolCallUpdate: &supervisorv1.ToolCallReport{
			ToolCallId: "ran", Status: proto.String("completed"), Title: proto.String("ls"),
			Output: &supervisorv1.ToolOutput{TerminalId: evil, Text: strings.Repeat(evil+"\n", 50), Signal: evil},
		}}},
		{Event: &supervisorv1.Event_Plan{Plan: &supervisorv1.Plan{Entries: []*supervisorv1.PlanEntry{{Content: evil, Status: evil, Priority: evil}}}}},
		{Event: &supervisorv1.Event_AvailableCommands{AvailableCommands: &supervisorv1.AvailableCommands{Commands: []*supervisorv1.AvailableCommand{{Name: evil}}}}},
		{Event: &supervisorv1.Event_CurrentMode{CurrentMode: &supervisorv1.CurrentMode{ModeId: evil}}},
		{Event: &supervisorv1.Event_ConfigOptions{ConfigOptions: &supervisorv1.ConfigOptions{Options: []*supervisorv1.ConfigOption{{Id: "a"}}}}},
		{Event: &supervisorv1.Event_ConfigOptions{ConfigOptions: &supervisorv1.ConfigOptions{Options: []*supervisorv1.ConfigOption{
			{Id: "a", Name: evil, Current: &supervisorv1.ConfigOption_Value{Value: evil}}}}}},
		{Event: &supervisorv1.Event_SessionInfo{SessionInfo: &supervisorv1.SessionInfo{Title: proto.String(evil)}}},
		{Event: &supervisorv1.Event_Notice{Notice: &supervisorv1.Notice{Severity: evil, Title: evil, Description: evil}}},
		{Event: &supervisorv1.Event_Compaction{Compaction: &supervisorv1.Compaction{Status: "failed", Error: evil}}},
		{Event: &supervisorv1.Event_CompactionSummary{CompactionSummary: &supervisorv1.CompactionSummaryChunk{Content: text(evil)}}},
		{Event: &supervisorv1.Event_OtherUpdate{OtherUpdate: &supervisorv1.OtherUpdate{Kind: evil}}},
		{Event: &supervisorv1.Event_QuestionAsked{QuestionAsked: approval}},
		{Event: &supervisorv1.Event_QuestionAsked{QuestionAsked: &supervisorv1.Approval{Id: "a/2", Elicitation: &supervisorv1.Elicitation{Mode: "url", Message: evil, Url: "https://ex\u0430mple.com/" + evil}}}},
		{Event: &supervisorv1.Event_QuestionAnswered{QuestionAnswered: &supervisorv1.ApprovalAnswer{Id: "a/1", Outcome: evil, OptionId: "x", AnsweredBy: evil}}},
		{Event: &supervisorv1.Event_SessionOpened{SessionOpened: &supervisorv1.SessionOpened{Method: evil, Roots: []string{evil}, ModeId: evil}}},
		{Event: &supervisorv1.Event_CallStarted{CallStarted: &supervisorv1.CallStarted{Id: "1", Method: evil, To: evil, Path: evil}}},
		{Event: &supervisorv1.Event_CallEnded{CallEnded: &supervisorv1.CallEnded{Id: "1", Method: evil, Error: evil}}},
		{Event: &supervisorv1.Event_Agent{Agent: &supervisorv1.Agent{Id: evil, State: supervisorv1.AgentState_AGENT_STATE_FAILED, Error: &supervisorv1.AgentError{Message: evil}}}},
		{Event: &supervisorv1.Event_Handler{Handler: &supervisorv1.HandlerChanged{Name: evil, State: "failed", Error: evil}}},
		{Event: &supervisorv1.Event_Gap{Gap: &supervisorv1.Gap{Reason: evil}}},
		{Event: &supervisorv1.Event_SessionClosed{SessionClosed: &supervisorv1.SessionClosed{Reason: evil}}},
		{Event: &supervisorv1.Event_TurnStarted{TurnStarted: &supervisorv1.TurnStarted{Prompt: []*supervisorv1.ContentBlock{text(evil)}}}},
		{Event: &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{Error: &supervisorv1.AgentError{Message: evil, Signal: evil, StderrTail: []string{evil}}}}},
		{Event: &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{StopReason: evil}}},
	}
	for _, o := range []Options{{Prompts: true, Verbose: true}, {Width: 300, Color: true, Markdown: true, Prompts: true, Verbose: true}} {
		r := New(o)
		shown := 0
		for _, ev := range events {
			got := r.Event(ev) + r.Flush()
			harmlessText(t, got)
			if strings.Contains(got, "gnp.exe") || strings.Contains(got, "missing here") {
				shown++
			}
		}
		if shown < len(events)-5 { // some show less than the whole
			t.Errorf("with %+v only %d of %d events show what they hold", o, shown, len(events))
		}
		harmlessText(t, r.Output("t", &supervisorv1.WatchOutputResponse{Data: []byte(evil + "\n"), Ended: true, Signal: evil}))
	}
}

func TestURL_EscapesLookalikeLetters(t *testing.T) {
	if got, want := URL("https://ex\u0430mple.com/ a"), `https://ex\u{430}mple.com/\u{20}a`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOutput_RemovesReverseVideo(t *testing.T) {
	r := New(Options{Width: 40, Color: true, Markdown: true})
	out := r.Output("t", &supervisorv1.WatchOutputResponse{Data: []byte("\x1b[1;7;31m ? \x1b[38;5;7mAllow?\n"), Ended: true})
	for _, m := range regexp.MustCompile(`\x1b\[([0-9;]*)m`).FindAllStringSubmatch(out, -1) {
		for code := range strings.SplitSeq(m[1], ";") {
			if code == "7" {
				t.Errorf("reverse video in %q", out)
			}
		}
	}
	if !strings.Contains(out, "\x1b[1;31m ? Allow?\x1b[0m") {
		t.Errorf("the colour is lost: %q", out)
	}
}

func FuzzScreen(f *testing.F) {
	f.Add([]byte("plain\r\n\x1b[31mred\x1b[0m\rover\n\x1b]8;;http://x\x1b\\link\x1b]8;;\x07\n"), 3)
	f.Add([]byte("0"+strings.Repeat("\x92", 1500)+"\n"), 1) // a character ends at the line's bound, and more follow
	f.Add([]byte("\x1b\x1b[\x1b]\x1bP\x18\x9b\xe2\x82"), 1)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		size = max(size, 1)%64 + 1
		var whole, pieces screen
		var want, got []string
		o := Options{Color: true}
		whole.write(data, func(l []fragment) { want = append(want, painted(o, l)) })
		for rest := data; len(rest) > 0; {
			n := min(size, len(rest))
			pieces.write(append([]byte(nil), rest[:n]...), func(l []fragment) { got = append(got, painted(o, l)) })
			rest = rest[n:]
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("in pieces of %d: %q, whole %q", size, got, want)
		}
		for _, l := range want {
			harmlessText(t, l)
		}
	})
}
