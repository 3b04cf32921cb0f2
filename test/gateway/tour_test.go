package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

// tourStep is a step of what the demo agent and the TypeScript agent do when they are asked for a tour.
type tourStep struct {
	Update json.RawMessage
}

// tourUpdates are the updates that a tour sends in a folder, with a terminal's id where one is shown.
func tourUpdates(t *testing.T, cwd, terminal string) []json.RawMessage {
	t.Helper()
	script, err := os.ReadFile(filepath.Join("..", "examples", "demoagent", "tour.json"))
	if err != nil {
		t.Fatal(err)
	}
	var steps []tourStep
	if err := json.Unmarshal(bytes.ReplaceAll(bytes.ReplaceAll(script, []byte("${cwd}"), []byte(cwd)), []byte("${terminal}"), []byte(terminal)), &steps); err != nil {
		t.Fatal(err)
	}
	var updates []json.RawMessage
	for _, s := range steps {
		if s.Update != nil {
			updates = append(updates, s.Update)
		}
	}
	return updates
}

type (
	pbEvent   = supervisorv1.Event
	pbBlock   = supervisorv1.ContentBlock
	pbContent = supervisorv1.ToolCallContent
)

// tourEvents are the events that a tour's updates have to become, one for one, written down by hand.
func tourEvents(cwd, terminal string) []*pbEvent {
	chunk := func(id string, b *pbBlock) *supervisorv1.MessageChunk {
		return &supervisorv1.MessageChunk{MessageId: id, Content: b}
	}
	message := func(id string, b *pbBlock) *pbEvent {
		return &pbEvent{Event: &supervisorv1.Event_AgentMessage{AgentMessage: chunk(id, b)}}
	}
	noted := func(b *pbBlock, meta string, a *supervisorv1.Annotations) *pbBlock {
		b.Meta, b.Annotations = meta, a
		return b
	}
	image := func(uri string) *pbBlock {
		return &pbBlock{Content: &supervisorv1.ContentBlock_Image{Image: &supervisorv1.ImageContent{Data: []byte("\x89PNG\r\n\x1a\n"), MimeType: "image/png", Uri: uri}}}
	}
	shows := func(b *pbBlock) *pbContent {
		return &pbContent{Item: &supervisorv1.ToolCallContent_Content{Content: b}}
	}
	diff := func(d *supervisorv1.Diff) *pbContent {
		return &pbContent{Item: &supervisorv1.ToolCallContent_Diff{Diff: d}}
	}
	at := func(name string, line *uint32) *supervisorv1.Location {
		return &supervisorv1.Location{Path: filepath.Join(cwd, name), Line: line}
	}
	calls := func(c *supervisorv1.ToolCallReport) *pbEvent {
		return &pbEvent{Event: &supervisorv1.Event_ToolCall{ToolCall: c}}
	}
	reports := func(c *supervisorv1.ToolCallReport) *pbEvent {
		return &pbEvent{Event: &supervisorv1.Event_ToolCallUpdate{ToolCallUpdate: c}}
	}
	options := func(o ...*supervisorv1.ConfigOption) *pbEvent {
		return &pbEvent{Event: &supervisorv1.Event_ConfigOptions{ConfigOptions: &supervisorv1.ConfigOptions{Options: o}}}
	}
	compacts := func(c *supervisorv1.Compaction) *pbEvent {
		return &pbEvent{Event: &supervisorv1.Event_Compaction{Compaction: c}}
	}
	usage := func(u *supervisorv1.ContextUsage) *pbEvent {
		return &pbEvent{Event: &supervisorv1.Event_Usage{Usage: u}}
	}
	info := func(i *supervisorv1.SessionInfo) *pbEvent {
		return &pbEvent{Event: &supervisorv1.Event_SessionInfo{SessionInfo: i}}
	}
	tourPath := filepath.Join(cwd, "tour.txt")

	return []*pbEvent{
		{Event: &supervisorv1.Event_UserMessage{UserMessage: chunk("u1", noted(e2e.Text("Show me everything."), `{"acme.example/from":"keyboard"}`,
			&supervisorv1.Annotations{Audience: []string{"user", "assistant"}, LastModified: "2026-01-02T03:04:05Z", Priority: proto.Float64(0.5)}))}},
		{Event: &supervisorv1.Event_AgentThought{AgentThought: chunk("t1", e2e.Text("What is there to show?"))}},
		message("m1", noted(e2e.Text("**Text**, for you alone: ü, 日本, \u2028 and <b>&amp;</b>.\n"), "", &supervisorv1.Annotations{Audience: []string{"user"}, Priority: proto.Float64(1)})),
		message("m1", noted(image("file:///pictures/dot.png"), `{"acme.example/width":1}`, &supervisorv1.Annotations{LastModified: "2026-01-02"})),
		message("m1", noted(&pbBlock{Content: &supervisorv1.ContentBlock_Audio{Audio: &supervisorv1.AudioContent{Data: []byte("RIFF\x00\x00\x00\x00"), MimeType: "audio/wav"}}},
			`{"acme.example/seconds":0.5}`, &supervisorv1.Annotations{Priority: proto.Float64(0)})),
		message("m1", noted(&pbBlock{Content: &supervisorv1.ContentBlock_ResourceLink{ResourceLink: &supervisorv1.ResourceLink{
			Uri: "file:///notes/link.md", Name: "link.md", Title: "A link", Description: "Where more is to be read", MimeType: "text/markdown", Size: proto.Int64(9007199254740991),
		}}}, `{"acme.example/r":null}`, &supervisorv1.Annotations{Audience: []string{"assistant"}})),
		message("m1", noted(&pbBlock{Content: &supervisorv1.ContentBlock_Resource{Resource: &supervisorv1.EmbeddedResource{
			Uri: "file:///notes/whole.md", MimeType: "text/markdown", Contents: &supervisorv1.EmbeddedResource_Text{Text: "# Whole\n"},
		}}}, `{"acme.example/outer":1}`, &supervisorv1.Annotations{Priority: proto.Float64(0.25)})),
		message("m1", &pbBlock{Content: &supervisorv1.ContentBlock_Resource{Resource: &supervisorv1.EmbeddedResource{
			Uri: "file:///pictures/raw.bin", MimeType: "application/octet-stream", Contents: &supervisorv1.EmbeddedResource_Blob{Blob: []byte{0, 1, 2, 255}},
		}}}),
		message("", &pbBlock{Content: &supervisorv1.ContentBlock_ResourceLink{ResourceLink: &supervisorv1.ResourceLink{Uri: "https://example.com/", Name: "no more than it must"}}}),
		message("m1", &pbBlock{Content: &supervisorv1.ContentBlock_Other{Other: `{"type":"hologram","beams":[1,2,3]}`}}),
		{Event: &supervisorv1.Event_Plan{Plan: &supervisorv1.Plan{Entries: []*supervisorv1.PlanEntry{
			{Content: "look", Priority: "high", Status: "completed"}, {Content: "work", Priority: "medium", Status: "in_progress"}, {Content: "tell", Priority: "low", Status: "pending"},
		}}}},
		{Event: &supervisorv1.Event_AvailableCommands{AvailableCommands: &supervisorv1.AvailableCommands{Commands: []*supervisorv1.AvailableCommand{
			{Name: "read", Description: "read a file", InputHint: proto.String("PATH")}, {Name: "wait", Description: "wait until the turn is cancelled"},
		}}}},
		{Event: &supervisorv1.Event_CurrentMode{CurrentMode: &supervisorv1.CurrentMode{ModeId: "code"}}},
		options(
			&supervisorv1.ConfigOption{Id: "mode", Name: "Mode", Description: "How much is asked", Category: "mode", Current: &supervisorv1.ConfigOption_Value{Value: "code"}, Choices: []*supervisorv1.ConfigChoice{
				{Value: "ask", Name: "Ask", Description: "Asks before it edits"}, {Value: "code", Name: "Code"},
			}},
			&supervisorv1.ConfigOption{Id: "model", Name: "Model", Category: "model", Current: &supervisorv1.ConfigOption_Value{Value: "maxi"}, Choices: []*supervisorv1.ConfigChoice{
				{Value: "mini", Name: "Mini", Description: "Quick", Group: "Small ones"}, {Value: "maxi", Name: "Maxi", Group: "Large ones"},
			}},
		),
		options(&supervisorv1.ConfigOption{Id: "thorough", Name: "Thorough", Description: "Look twice", Category: "model_config", Current: &supervisorv1.ConfigOption_Enabled{Enabled: true}}),
		info(&supervisorv1.SessionInfo{Title: proto.String("A tour"), UpdatedAt: proto.String("2026-01-02T03:04:05Z")}),
		usage(&supervisorv1.ContextUsage{Used: 53000, Size: 200000, Cost: proto.Float64(0.045), Currency: "USD"}),
		calls(&supervisorv1.ToolCallReport{
			ToolCallId: "call-read", Title: proto.String("Read tour.txt"), Name: proto.String("Read"), Kind: proto.String("read"), Status: proto.String("pending"),
			Locations: []*supervisorv1.Location{at("tour.txt", proto.Uint32(1)), at("other.txt", nil)}, LocationsSet: true,
			Content: []*pbContent{shows(e2e.Text("reading"))}, ContentSet: true,
			RawInput: `{"path":"` + tourPath + `","limit":9007199254740991}`, Meta: `{"acme.example/tool":"reader"}`,
		}),
		reports(&supervisorv1.ToolCallReport{
			ToolCallId: "call-read", Title: proto.String("Read tour.txt, all of it"), Name: proto.String("Read"), Kind: proto.String("read"), Status: proto.String("completed"),
			Locations: []*supervisorv1.Location{at("tour.txt", proto.Uint32(2))}, LocationsSet: true,
			Content: []*pbContent{shows(e2e.Text("one\ntwo\n")), shows(image(""))}, ContentSet: true,
			RawInput: `{"path":"` + tourPath + `"}`, RawOutput: `{"lines":["one","two"]}`, Meta: `{"acme.example/took":1.5}`,
		}),
		calls(&supervisorv1.ToolCallReport{
			ToolCallId: "call-edit", Title: proto.String("Edit tour.txt"), Kind: proto.String("edit"), Status: proto.String("pending"),
			Locations: []*supervisorv1.Location{at("tour.txt", nil)}, LocationsSet: true, ContentSet: true, Content: []*pbContent{
				diff(&supervisorv1.Diff{Path: tourPath, OldText: proto.String("one\ntwo\n"), NewText: "one\nthree\n"}), diff(&supervisorv1.Diff{Path: filepath.Join(cwd, "new.txt"), NewText: "new\n"}),
			},
		}),
		reports(&supervisorv1.ToolCallReport{ToolCallId: "call-edit", Status: proto.String("failed"), RawOutput: `"no more than a tour"`}),
		calls(&supervisorv1.ToolCallReport{ToolCallId: "call-run", Title: proto.String("Run a command"), Kind: proto.String("execute"), Status: proto.String("pending"), RawInput: `{"command":"echo out; exit 3"}`}),
		reports(&supervisorv1.ToolCallReport{ToolCallId: "call-run", Status: proto.String("in_progress"), ContentSet: true, Content: []*pbContent{{Item: &supervisorv1.ToolCallContent_TerminalId{TerminalId: terminal}}}}),
		reports(&supervisorv1.ToolCallReport{ToolCallId: "call-run", Status: proto.String("completed"), RawOutput: `{"exitCode":3}`}),
		reports(&supervisorv1.ToolCallReport{ToolCallId: "call-run", ContentSet: true, LocationsSet: true}),
		{Event: &supervisorv1.Event_Notice{Notice: &supervisorv1.Notice{Severity: "warning", Title: "The disk is nearly full", Description: "A gigabyte is left."}}},
		compacts(&supervisorv1.Compaction{CompactionId: "c1", Status: "in_progress"}),
		{Event: &supervisorv1.Event_CompactionSummary{CompactionSummary: &supervisorv1.CompactionSummaryChunk{CompactionId: "c1", Content: e2e.Text("What was said ")}}},
		compacts(&supervisorv1.Compaction{CompactionId: "c1", Status: "completed", Summary: []*pbBlock{e2e.Text("What was said so far.")}}),
		compacts(&supervisorv1.Compaction{CompactionId: "c2", Status: "failed", Error: "there was no room"}),
		{Event: &supervisorv1.Event_OtherUpdate{OtherUpdate: &supervisorv1.OtherUpdate{Kind: "weather_update"}}},
		message("", e2e.Text("As older agents say it.")),
		calls(&supervisorv1.ToolCallReport{ToolCallId: "call-old", Title: proto.String("As older agents call it"), Kind: proto.String("other"), Status: proto.String("completed")}),
		info(&supervisorv1.SessionInfo{Title: proto.String("")}),
		usage(&supervisorv1.ContextUsage{Used: 0, Size: 200000}),
	}
}

// isUpdate reports whether an event is a session/update.
func isUpdate(e *pbEvent) bool {
	m := e.ProtoReflect()
	set := m.WhichOneof(m.Descriptor().Oneofs().ByName("event"))
	return set != nil && set.Number() < 30 && !e.GetNotice().GetFromAcphost()
}

func TestTour_EveryUpdateArrives(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{
		"of the demo agent":       {e2e.Program("demoagent")},
		"of the TypeScript agent": {"node", e2e.Peer(t, "ts-agent.mjs")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			s := p.Serve(t, nil)
			agent := s.Start(&supervisorv1.StartAgentRequest{Command: command, Cwd: p.Work, Attended: true})
			session := s.Open(agent.GetId())
			answering, stop := context.WithCancel(s.Ctx)
			answered := s.AnswerAll(answering)
			turn := s.Prompt(session.GetSessionId(), "tour")
			end := turn.End()
			stop()
			answers := <-answered

			if end.GetStopReason() != "end_turn" || end.GetError() != nil {
				t.Fatalf("the turn ended with %v", end)
			}
			expectTour(t, p, turn.Seen, agent.GetId(), session.GetSessionId())
			expectTourAnswers(t, turn.Seen, answers)
			expectTourCalls(t, turn.Seen)
			if name == "of the demo agent" {
				want := &supervisorv1.TokenUsage{Total: 1500, Input: 1000, Output: 400, Thought: 100, CachedRead: 50, CachedWrite: 25}
				if !proto.Equal(end.GetUsage(), want) {
					t.Errorf("the turn took %v, want %v", end.GetUsage(), want)
				}
			}
			expectTourSession(s, session.GetSessionId())
			s.Finish()
		})
	}
}

// expectTour compares the events of a tour with the messages that were sent.
func expectTour(t *testing.T, p *e2e.Place, seen []*pbEvent, agent, session string) {
	t.Helper()
	var updates []*pbEvent
	terminal, last, cursors := "", seen[0].GetTime().AsTime(), map[string]bool{}
	for i, e := range seen {
		if isUpdate(e) {
			updates = append(updates, e)
		}
		for _, c := range e.GetToolCallUpdate().GetContent() {
			if id := c.GetTerminalId(); id != "" {
				terminal = id
			}
		}
		switch {
		case e.GetAgentId() != agent || e.GetSessionId() != session:
			t.Errorf("%s is of agent %q and session %q, want %q and %q", e2e.Kind(e), e.GetAgentId(), e.GetSessionId(), agent, session)
		case e.GetCursor() == "" && !e.GetNotice().GetFromAcphost(), cursors[e.GetCursor()]:
			t.Errorf("%s, event %d, has the cursor %q, want one of its own", e2e.Kind(e), i, e.GetCursor())
		case e.GetTime() == nil || e.GetTime().AsTime().Before(last):
			t.Errorf("%s, event %d, is of %v, and the one before of %v", e2e.Kind(e), i, e.GetTime().AsTime(), last)
		case e.GetHistory():
			t.Errorf("%s is history", e2e.Kind(e))
		}
		last, cursors[e.GetCursor()] = e.GetTime().AsTime(), true
	}
	if e2e.Kind(seen[0]) != "turn_started" || seen[0].GetTurnStarted().GetPrompt()[0].GetText().GetText() != "tour" {
		t.Errorf("the turn began with %v", seen[0])
	}
	want, raw := tourEvents(p.Work, terminal), tourUpdates(t, p.Work, terminal)
	if len(want) != len(raw) {
		t.Fatalf("the test knows %d events for %d updates", len(want), len(raw))
	}
	// The demo agent sends its commands when a session is opened, possibly a moment later; and reports at the end.
	if len(updates) > 0 && updates[0].GetAvailableCommands() != nil {
		updates = updates[1:]
	}
	if n := len(updates); n > 0 && strings.Contains(updates[n-1].GetRaw(), "report") {
		updates = updates[:n-1]
	}
	if len(updates) != len(want) {
		t.Fatalf("of %d updates %d arrived:\n%s", len(want), len(updates), e2e.Listing(updates))
	}
	for i, got := range updates {
		bare := &pbEvent{Event: got.GetEvent()}
		if !proto.Equal(compact(bare), want[i]) {
			t.Errorf("update %d became\n%s, want\n%s", i, prototext.Format(bare), prototext.Format(want[i]))
		}
		if !e2e.EqualJSON(t, json.RawMessage(got.GetRaw()), raw[i]) {
			t.Errorf("update %d has the raw JSON %s, want %s", i, got.GetRaw(), raw[i])
		}
	}
}

// compact removes the white space in the raw JSON of an event.
func compact(e *pbEvent) *pbEvent {
	e = proto.Clone(e).(*pbEvent)
	squeeze := func(s *string) {
		var b bytes.Buffer
		if json.Compact(&b, []byte(*s)) == nil {
			*s = b.String()
		}
	}
	for _, c := range []*supervisorv1.ToolCallReport{e.GetToolCall(), e.GetToolCallUpdate()} {
		if c != nil {
			squeeze(&c.RawInput)
			squeeze(&c.RawOutput)
			squeeze(&c.Meta)
		}
	}
	for _, c := range []*supervisorv1.MessageChunk{e.GetUserMessage(), e.GetAgentMessage(), e.GetAgentThought()} {
		if c.GetContent() != nil {
			squeeze(&c.Content.Meta)
			if other, ok := c.Content.Content.(*supervisorv1.ContentBlock_Other); ok {
				squeeze(&other.Other)
			}
		}
	}
	return e
}

// expectTourAnswers compares the questions of a tour, as the turn's stream has them, with the given answers.
func expectTourAnswers(t *testing.T, seen []*pbEvent, given map[string]*supervisorv1.ApprovalAnswer) {
	t.Helper()
	asked, answered := map[string]*supervisorv1.Approval{}, map[string]*supervisorv1.ApprovalAnswer{}
	for _, e := range seen {
		if q := e.GetQuestionAsked(); q != nil {
			asked[q.GetId()] = q
		}
		if a := e.GetQuestionAnswered(); a != nil {
			answered[a.GetId()] = a
		}
	}
	if len(asked) != 3 || len(answered) != 3 || len(given) != 3 {
		t.Fatalf("%d questions were sent and %d answers, and %d were given; want 3 of each", len(asked), len(answered), len(given))
	}
	for id, q := range asked {
		if a := answered[id]; a.GetAnsweredBy() != "tester" || a.GetOutcome() != given[id].GetOutcome() || a.GetTime() == nil {
			t.Errorf("the question %v ended with %v, want %v", q, a, given[id])
		}
		var raw struct{ SessionID string }
		if err := json.Unmarshal([]byte(q.GetRaw()), &raw); err != nil || raw.SessionID != q.GetSessionId() {
			t.Errorf("the question's raw JSON is %s (%v)", q.GetRaw(), err)
		}
		switch e := q.GetElicitation(); {
		case q.GetPermission() != nil:
			p := q.GetPermission()
			if p.GetToolCallId() != "call-edit" || p.GetTitle() != "Edit tour.txt" || p.GetKind() != "edit" || p.GetFromAcphost() || len(p.GetOptions()) != 4 ||
				p.GetOptions()[3].GetKind() != "reject_always" || p.GetOptions()[3].GetName() != "Never" || p.GetContent()[0].GetDiff().GetNewText() != "one\nthree\n" ||
				p.GetLocations()[0].GetLine() != 2 || !strings.Contains(p.GetRawInput(), "tour.txt") {
				t.Errorf("the permission question is %v", p)
			}
		case e.GetMode() == "form":
			if e.GetMessage() != "How should it be built?" || !strings.Contains(e.GetRequestedSchema(), `"debug"`) || e.GetToolCallId() != "call-form" {
				t.Errorf("the form is %v", e)
			}
		case e.GetMode() == "url":
			if e.GetMessage() != "Please pay for the tokens." || e.GetUrl() != "https://example.com/pay?turn=1" || e.GetElicitationId() != "page-1" {
				t.Errorf("the page is %v", e)
			}
		default:
			t.Errorf("there is a question %v", q)
		}
	}
	// The agent reports what it got.
	report := seen[len(seen)-2].GetAgentMessage().GetContent().GetText().GetText()
	for _, want := range []string{`"optionId":"yes"`, `"action":"accept"`, `"target":"release"`, `"content":"two\n"`, `"output":"out\n"`, `"exitCode":3`} {
		if !strings.Contains(report, want) {
			t.Errorf("the agent reports %s, want %s in it", report, want)
		}
	}
}

// expectTourCalls compares the agent's requests to its client with their events.
func expectTourCalls(t *testing.T, seen []*pbEvent) {
	t.Helper()
	open, ended := map[string]*supervisorv1.CallStarted{}, []string{}
	for _, e := range seen {
		if c := e.GetCallStarted(); c != nil {
			open[c.GetId()] = c
		}
		if c := e.GetCallEnded(); c != nil {
			ended = append(ended, c.GetMethod())
			begin := open[c.GetId()]
			if delete(open, c.GetId()); begin.GetMethod() != c.GetMethod() || begin.GetTo() == "" || c.GetError() != "" {
				t.Errorf("%v was answered with %v", begin, c)
			}
			if c.GetMethod() == "terminal/create" && c.GetTerminalId() == "" || c.GetMethod() == "fs/read_text_file" && filepath.Base(begin.GetPath()) != "tour.txt" {
				t.Errorf("%v was answered with %v", begin, c)
			}
		}
	}
	if want := "fs/write_text_file fs/read_text_file terminal/create terminal/wait_for_exit terminal/output terminal/release"; strings.Join(ended, " ") != want || len(open) > 0 {
		t.Errorf("the calls that ended are %q, want %s; open are %v", ended, want, open)
	}
}

// expectTourSession compares the state of a session after a tour with the agent's messages.
func expectTourSession(s *e2e.Server, id string) {
	s.T.Helper()
	resp, err := s.State.GetSession(s.Ctx, &supervisorv1.GetSessionRequest{SessionId: id})
	if err != nil {
		s.T.Fatal(e2e.Explain(err))
	}
	got := resp.GetSession()
	t := s.T
	if got.GetMode() != "code" || got.GetTitle() != "" || got.GetTurns() != 1 || got.GetTurnActive() || got.GetLastStopReason() != "end_turn" || got.GetIncomplete() || got.GetCursor() == "" {
		t.Errorf("the session is %v", got)
	}
	if len(got.GetPlan()) != 3 || len(got.GetCommands()) != 2 || got.GetUsage().GetSize() != 200000 || len(got.GetPendingRequests()) != 0 {
		t.Errorf("the session has the plan %v, the commands %v, the usage %v and the requests %v", got.GetPlan(), got.GetCommands(), got.GetUsage(), got.GetPendingRequests())
	}
	if k := got.GetToolKinds(); k["read"] != 1 || k["edit"] != 1 || k["execute"] != 1 || k["other"] != 1 || len(k) != 4 || got.GetTools()["Read"] != 1 {
		t.Errorf("tool calls are counted %v and %v", k, got.GetTools())
	}
	byID := map[string]*supervisorv1.ToolCall{}
	for _, c := range got.GetToolCalls() {
		byID[c.GetToolCallId()] = c
	}
	if c := byID["call-read"]; c.GetTitle() != "Read tour.txt, all of it" || c.GetName() != "Read" || c.GetStatus() != "completed" || len(c.GetContent()) != 2 || !strings.Contains(c.GetRawOutput(), "two") || c.GetLocations()[0].GetLine() != 2 {
		t.Errorf("the tool call call-read is %v", c)
	}
	if c := byID["call-edit"]; c.GetStatus() != "failed" || len(c.GetContent()) != 2 || c.GetTitle() != "Edit tour.txt" {
		t.Errorf("the tool call call-edit is %v", c)
	}
	if c := byID["call-run"]; c.GetStatus() != "completed" || len(c.GetContent()) != 0 || !strings.Contains(c.GetRawInput(), "echo out") {
		t.Errorf("the tool call call-run is %v", c)
	}
	found := false
	for _, f := range got.GetFiles() {
		if filepath.Base(f.GetPath()) == "tour.txt" {
			found = f.GetReads() == 1 && f.GetWrites() == 1 && f.GetReported() > 0
		}
	}
	if !found {
		t.Errorf("the files that were touched are %v", got.GetFiles())
	}
}
