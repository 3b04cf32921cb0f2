package chat

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// screen is a model without a terminal: what it wants done is noted by the name of the message that it would bring, and
// not done.
type screen struct {
	t   *testing.T
	m   *model
	now time.Time
}

func newScreen(t *testing.T, width, height int, change ...func(*Options)) *screen {
	t.Helper()
	o := Options{Agent: &supervisorv1.StartAgentRequest{Preset: "claude"}, Cwd: "/work/app"}
	for _, f := range change {
		f(&o)
	}
	sup := newSupervisor(context.Background(), nil)
	t.Cleanup(sup.close)
	s := &screen{t: t, m: newModel(o, sup), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	s.m.now = func() time.Time { return s.now }
	s.m.o.codes.Draw = func(n int) string { return strings.Repeat("k", n) }
	s.send(tea.WindowSizeMsg{Width: width, Height: height})
	return s
}

// send passes the model a message, and has its output printed.
func (s *screen) send(msg tea.Msg) tea.Cmd {
	cmd := s.m.update(msg)
	s.m.printIfNoRoom() // what settle does before it prints
	return cmd
}

func (s *screen) wait(d time.Duration) { s.now = s.now.Add(d) }

// ready is a chat with a session.
func (s *screen) ready() *screen {
	s.send(startedMsg{agent: testAgent()})
	s.send(openedMsg{session: testSession(), how: "new"})
	s.printed()
	return s
}

// printed returns the text that was printed since the last call, without colors.
func (s *screen) printed() string {
	rows := s.m.out
	s.m.out = nil
	return ansi.Strip(strings.Join(rows, "\n"))
}

func (s *screen) view() string { return ansi.Strip(s.m.View().Content) }

// press presses keys, one after another: "a", "enter", "ctrl+c".
func (s *screen) press(keys ...string) (last tea.Cmd) {
	for _, k := range keys {
		last = s.send(pressed(k))
	}
	return last
}

// write types a text, and waits.
func (s *screen) write(text string) {
	for _, c := range text {
		s.send(tea.KeyPressMsg{Code: c, Text: string(c)})
	}
	s.wait(time.Second)
}

func pressed(name string) tea.KeyPressMsg {
	k := tea.Key{}
	for {
		mod, rest, ok := strings.Cut(name, "+")
		if !ok || rest == "" {
			break
		}
		switch mod {
		case "ctrl":
			k.Mod |= tea.ModCtrl
		case "alt":
			k.Mod |= tea.ModAlt
		case "shift":
			k.Mod |= tea.ModShift
		}
		name = rest
	}
	named := map[string]rune{
		"enter": tea.KeyEnter, "tab": tea.KeyTab, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft,
		"right": tea.KeyRight, "home": tea.KeyHome, "end": tea.KeyEnd, "backspace": tea.KeyBackspace, "delete": tea.KeyDelete, "space": tea.KeySpace,
	}
	if code, ok := named[name]; ok {
		k.Code = code
		if name == "space" {
			k.Text = " "
		}
		return tea.KeyPressMsg(k)
	}
	k.Code = []rune(name)[0]
	if k.Mod == 0 {
		k.Text = name
	}
	return tea.KeyPressMsg(k)
}

func testAgent() *supervisorv1.Agent {
	return &supervisorv1.Agent{
		Id: "claude-1", Name: "claude", State: supervisorv1.AgentState_AGENT_STATE_RUNNING,
		Info: &supervisorv1.AgentInfo{
			Title: "Claude Code", Version: "1.2.3",
			Capabilities: &supervisorv1.AgentCapabilities{LoadSession: true, ListSessions: true, PromptEmbeddedContext: true},
		},
	}
}

func testSession() *supervisorv1.Session {
	return &supervisorv1.Session{
		SessionId: "s1", AgentId: "claude-1", Mode: "ask",
		Modes: []*supervisorv1.SessionMode{{Id: "ask", Name: "Ask"}, {Id: "code", Name: "Code"}, {Id: "plan", Name: "Plan"}},
		Options: []*supervisorv1.ConfigOption{
			{
				Id: "model", Name: "Model", Category: "model", Current: &supervisorv1.ConfigOption_Value{Value: "sonnet"},
				Choices: []*supervisorv1.ConfigChoice{{Value: "sonnet", Name: "Sonnet"}, {Value: "opus", Name: "Opus"}},
			},
			{Id: "web", Name: "Web search", Current: &supervisorv1.ConfigOption_Enabled{Enabled: true}},
		},
		Commands: []*supervisorv1.AvailableCommand{
			{Name: "review", Description: "Review a change", InputHint: proto.String("what")},
			{Name: "help", Description: "The agent's own help"},
		},
		Usage: &supervisorv1.ContextUsage{Used: 12345, Size: 200000, Cost: proto.Float64(0.123), Currency: "USD"},
	}
}

// events of session s1.
func chunk(text string) *supervisorv1.Event {
	return &supervisorv1.Event{SessionId: "s1", AgentId: "claude-1", Event: &supervisorv1.Event_AgentMessage{AgentMessage: &supervisorv1.MessageChunk{Content: textBlock(text)}}}
}

func textBlock(text string) *supervisorv1.ContentBlock {
	return &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: text}}}
}

func toolCall(id, title, kind, state string) *supervisorv1.Event {
	return &supervisorv1.Event{SessionId: "s1", Event: &supervisorv1.Event_ToolCall{ToolCall: &supervisorv1.ToolCallReport{
		ToolCallId: id, Title: &title, Kind: &kind, Status: &state,
	}}}
}

func planOf(steps ...string) *supervisorv1.Event {
	p := &supervisorv1.Plan{}
	for i := 0; i+1 < len(steps); i += 2 {
		p.Entries = append(p.Entries, &supervisorv1.PlanEntry{Status: steps[i], Content: steps[i+1], Priority: "medium"})
	}
	return &supervisorv1.Event{SessionId: "s1", Event: &supervisorv1.Event_Plan{Plan: p}}
}

func turnEnd(reason string) *supervisorv1.Event {
	return &supervisorv1.Event{SessionId: "s1", Event: &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{StopReason: reason}}}
}

func permission(id string) *supervisorv1.Approval {
	return &supervisorv1.Approval{
		Id: id, AgentId: "claude-1", SessionId: "s1",
		Permission: &supervisorv1.PermissionQuestion{
			ToolCallId: "t1", Title: "Run the tests", Kind: "execute", RawInput: `{"command":"go test ./..."}`,
			Options: []*supervisorv1.PermissionOption{
				{OptionId: "once", Kind: "allow_once", Name: "Allow"},
				{OptionId: "always", Kind: "allow_always", Name: "Always allow"},
				{OptionId: "no", Kind: "reject_once", Name: "Reject"},
				{OptionId: "never", Kind: "reject_always", Name: "Never"},
			},
		},
	}
}

// emit sends events of the active turn.
func (s *screen) emit(events ...*supervisorv1.Event) {
	s.t.Helper()
	if s.m.turn == nil {
		s.t.Fatal("no turn is under way")
	}
	s.send(turnMsg{turn: s.m.turn.number, events: events})
}

func (s *screen) asked(all ...*supervisorv1.Approval) {
	var changes []*supervisorv1.WatchApprovalsResponse
	for _, a := range all {
		changes = append(changes, &supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_Asked{Asked: a}})
	}
	s.send(questionsMsg{changes: changes})
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	lines := strings.Split(got, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	testkit.Golden(t, name+".txt", strings.Join(lines, "\n")+"\n")
}

func TestScreen_MatchesGoldenFiles(t *testing.T) {
	for _, size := range []struct {
		name          string
		width, height int
	}{{"narrow", 40, 20}, {"wide", 100, 30}} {
		t.Run(size.name, func(t *testing.T) {
			s := newScreen(t, size.width, size.height)
			var b strings.Builder
			shot := func(title string) {
				b.WriteString("=== " + title + "\n")
				if text := s.printed(); text != "" {
					b.WriteString(text + "\n--- below\n")
				}
				b.WriteString(s.view() + "\n")
			}
			shot("the agent starts")
			s.send(startedMsg{agent: testAgent()})
			shot("a session is opened")
			s.send(openedMsg{session: testSession(), how: "new"})
			shot("ready")
			s.write("fix the flaky test in the package that we talked about yesterday, please")
			shot("a message is written")
			s.press("enter")
			s.wait(65 * time.Second)
			shot("it was sent")
			s.emit(chunk("I will **look** at it first.\n\nThen I "), planOf("completed", "Find it", "in_progress", "Fix it", "pending", "Run the tests"))
			s.emit(toolCall("t1", "Run the tests", "execute", "in_progress"), toolCall("t2", "main_test.go", "read", "pending"))
			shot("it works")
			s.write("and then")
			s.press("enter")
			shot("a message is queued")
			s.asked(permission("claude-1/7"))
			shot("a question comes")
			s.wait(time.Second)
			shot("the question waits for a key")
			s.send(answeredMsg{id: "claude-1/7", answer: &supervisorv1.ApprovalAnswer{Id: "claude-1/7", Outcome: "allowed", OptionId: "once", AnsweredBy: "cli"}})
			s.emit(toolCall("t1", "Run the tests", "execute", "completed"), chunk("Done."), turnEnd("end_turn"))
			shot("it says that it is done")
			s.write("/")
			shot("commands are completed")
			s.press("ctrl+u")
			s.send(turnMsg{turn: 1, err: errEOF})
			s.emit(turnEnd("end_turn"))
			s.send(turnMsg{turn: 2, err: errEOF})
			shot("the turns are over")
			s.write("/mode")
			s.press("enter", "down")
			shot("a mode is chosen")
			s.press("esc")
			s.asked(&supervisorv1.Approval{Id: "claude-1/8", SessionId: "s1", Elicitation: &supervisorv1.Elicitation{
				Mode: "form", Message: "How should it be built?", RequestedSchema: testSchema,
			}})
			s.wait(time.Second)
			shot("a form, its first field")
			s.press("a", "enter")
			shot("something is wrong with it")
			s.press("b", "enter", "enter", "enter", "enter", "down")
			shot("one of several")
			s.press("enter", "1", "3")
			shot("any of several")
			s.send(questionsMsg{changes: []*supervisorv1.WatchApprovalsResponse{{Change: &supervisorv1.WatchApprovalsResponse_Answered{
				Answered: &supervisorv1.ApprovalAnswer{Id: "claude-1/8", Outcome: "withdrawn", AnsweredBy: "nobody"},
			}}}})
			s.asked(&supervisorv1.Approval{Id: "claude-1/9", Elicitation: &supervisorv1.Elicitation{
				Mode: "url", Message: "Please log in.", Url: "https://example.com/login?state=1",
			}})
			s.wait(time.Second)
			shot("a page to open")
			golden(t, size.name, b.String())
		})
	}
}

func TestScreen_ShowsAgentErrors(t *testing.T) {
	st, err := status.New(codes.FailedPrecondition, "the agent wants somebody to log in").WithDetails(&supervisorv1.AgentError{
		Kind: supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED, Message: "log in",
	})
	if err != nil {
		t.Fatal(err)
	}
	s := newScreen(t, 80, 24)
	s.send(startedMsg{agent: testAgent()})
	s.send(openedMsg{err: st.Err()})
	if got := s.printed(); !strings.Contains(got, "acphost agents login claude") {
		t.Errorf("printed %q, want what to run", got)
	}
	if _, err := s.m.result(); err == nil || !strings.Contains(err.Error(), "log in") {
		t.Errorf("result is %v, want why there was no session", err)
	}
}

func TestSession_UnknownIsNotRetried(t *testing.T) {
	st, err := status.New(codes.NotFound, "the agent does not know the session").WithDetails(&supervisorv1.AgentError{
		Kind: supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND, Message: "the agent does not know the session",
	})
	if err != nil {
		t.Fatal(err)
	}
	s := newScreen(t, 120, 24, func(o *Options) { o.Session = "old" })
	s.send(startedMsg{agent: testAgent()})
	if s.m.loading != "old" {
		t.Fatalf("the session %q is opened, want old", s.m.loading)
	}
	s.send(openedMsg{err: st.Err()})
	if got := s.printed(); !strings.Contains(got, "/sessions shows those") || !strings.Contains(got, "/new begins a new session") {
		t.Errorf("printed %q, want what to do", got)
	}
	s.write("/new")
	s.press("enter")
	if s.m.phase != opening || s.m.loading != "" {
		t.Errorf("/new opens %q in phase %v, want a new session", s.m.loading, s.m.phase)
	}
}

var errEOF = io.EOF

func pasted(text string) tea.Msg { return tea.PasteMsg{Content: text} }

func TestGreeting_MentionsSandbox(t *testing.T) {
	s := newScreen(t, 80, 24, func(o *Options) { o.Where = "in the sandbox (enforce)" })
	s.send(startedMsg{agent: testAgent()})
	s.send(openedMsg{session: testSession(), how: "new"})
	if got := s.printed() + s.view(); !strings.Contains(got, "new session with Claude Code 1.2.3 in the sandbox (enforce)") {
		t.Errorf("shown %q", got)
	}
}
