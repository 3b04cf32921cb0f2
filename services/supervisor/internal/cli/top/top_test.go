package top

import (
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/timestamppb"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/reach"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(-d)) }

// busy is a moment at which everything happens.
func busy() *snapshot {
	at := &reach.Supervisor{PID: 7}
	price := 0.5
	return &snapshot{
		supervisors: 1,
		agents: items(at, []*supervisorv1.Agent{
			{Id: "claude-1", State: supervisorv1.AgentState_AGENT_STATE_RUNNING, Pid: 9, StartTime: ago(3 * time.Hour), SessionIds: []string{"a", "b", "c"}, Command: []string{"claude", "--acp"}},
		}),
		sessions: items(at, []*supervisorv1.Session{
			{AgentId: "claude-1", SessionId: "a", TurnActive: true, Turns: 1, StartTime: ago(12 * time.Minute)},
			{AgentId: "claude-1", SessionId: "b\x1b[2J", TurnActive: true, Turns: 2, StartTime: ago(9 * time.Second), ToolCalls: []*supervisorv1.ToolCall{
				{Title: "go test ./...", Status: "completed"}, {Title: "edit main.go", Status: "in_progress"}, {Title: "read go.mod", Status: "completed"},
			}, Usage: &supervisorv1.ContextUsage{Used: 50_000, Size: 200_000, Cost: &price, Currency: "USD"}, Tokens: &supervisorv1.TokenUsage{Total: 61_234}},
			{AgentId: "claude-1", SessionId: "c", Turns: 3, LastStopReason: "end_turn", StartTime: ago(72 * time.Hour)},
		}),
		questions: items(at, []*supervisorv1.Approval{
			{Id: "claude-1/4", AgentId: "claude-1", SessionId: "a", Time: ago(90 * time.Second), Permission: &supervisorv1.PermissionQuestion{Title: "run npm publish"}},
		}),
		terminals: items(at, []*supervisorv1.Terminal{
			{TerminalId: "acphost-1", SessionId: "a", Argv: []string{"sleep", "30"}, Running: true, StartTime: ago(time.Minute), OutputBytes: 2048},
		}),
	}
}

func TestSnapshot_ShowsAllObjects(t *testing.T) {
	text := busy().text(now, 0, false)
	for _, want := range []string{
		"1 supervisor, 1 agent, 3 sessions, 1 question, 1 command",
		"claude-1/4  1 min  a        run npm publish\n",
		"claude-1  a           asks     12 min",
		`b\u{1b}[2J  working  9 s     2      25 %     61k     0.50 USD  edit main.go`,
		"c           idle     3 d     3      -        -       -         end_turn",
		"claude-1  running  9    3 h  3         7           claude --acp",
		"acphost-1  a        1 min  2 KiB   sleep 30",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not show %q:\n%s", want, text)
		}
	}
}

func TestScreen_FitsTerminal(t *testing.T) {
	s := &screen{}
	s.Update(busy())
	s.Update(tea.WindowSizeMsg{Width: 60, Height: 8})
	shown := func() []string { return strings.Split(s.View().Content, "\n") }
	for _, line := range shown() {
		if safetext.Width(line) > 60 {
			t.Errorf("a line has %d columns: %q", safetext.Width(line), line)
		}
	}
	if n := len(shown()); n != 8 || !strings.HasSuffix(shown()[7], "lines below: down; q leaves") {
		t.Fatalf("%d lines: %q", n, shown())
	}
	top := shown()[0]
	s.Update(tea.KeyPressMsg{Code: tea.KeyUp})
	if shown()[0] != top {
		t.Errorf("it went above the first line: %q", shown()[0])
	}
	for range 100 {
		s.Update(tea.KeyPressMsg{Code: 'j', Text: "j"})
	}
	if last := shown()[7]; !strings.Contains(last, "lines above: up; q leaves") {
		t.Errorf("the last line is %q", last)
	}
	s.Update(tea.KeyPressMsg{Code: 'g', Text: "g"})
	if shown()[0] != top {
		t.Errorf("g leads to %q", shown()[0])
	}
	if _, cmd := s.Update(tea.KeyPressMsg{Code: 'q', Text: "q"}); cmd == nil {
		t.Error("q does not leave")
	}
}

func TestSnapshot_ShowsErrors(t *testing.T) {
	n := &snapshot{failed: []error{errors.New("supervisor 7 does not say\x1b[2J")}}
	if text := n.text(now, 80, false); !strings.Contains(text, "supervisor 7 does not say") || strings.Contains(text, "\x1b") {
		t.Errorf("it shows %q", text)
	}
	if text := (&snapshot{}).text(now, 80, false); !strings.Contains(text, "no supervisor is running") {
		t.Errorf("it shows %q", text)
	}
}
