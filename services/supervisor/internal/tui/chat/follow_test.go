package chat

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
)

// joinScreen is a chat that has joined a session.
func joinScreen(t *testing.T, history, follow string, active bool) *screen {
	t.Helper()
	s := newScreen(t, 80, 24, func(o *Options) {
		o.Agent = &supervisorv1.StartAgentRequest{}
		o.Attach = &Attach{SessionID: "s1", History: history, Follow: follow}
	})
	s.m.Init()
	session := testSession()
	session.TurnActive = active
	s.send(attachedMsg{agent: testAgent(), session: session})
	return s
}

// at sets the time of events: some are before the chat joined, others after.
func (s *screen) at(before time.Duration, events ...*supervisorv1.Event) {
	for _, ev := range events {
		ev.SessionId, ev.Time = "s1", timestamppb.New(s.now.Add(-before))
	}
	s.send(followedMsg{events: events})
}

func begins(text string) *supervisorv1.Event {
	return &supervisorv1.Event{Event: &supervisorv1.Event_TurnStarted{TurnStarted: &supervisorv1.TurnStarted{Prompt: []*supervisorv1.ContentBlock{client.Text(text)}}}}
}

func ends() *supervisorv1.Event {
	return &supervisorv1.Event{Event: &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{StopReason: "end_turn"}}}
}

func (s *screen) has(want ...string) {
	s.t.Helper()
	text := s.printed() + "\n" + s.view()
	for _, w := range want {
		if !strings.Contains(text, w) {
			s.t.Errorf("%q is not shown:\n%s", w, text)
		}
	}
}

func TestFollow_QueuesInputDuringTurnOfOthers(t *testing.T) {
	s := joinScreen(t, HistoryFull, "", false)
	s.at(time.Minute, begins("long ago"), ends())
	s.has("joined the session", "> long ago")
	s.at(-time.Second, begins("theirs"))
	s.has("> theirs", "esc cancels")
	s.write("mine")
	s.press("enter")
	s.has("queued: mine")
	s.at(-time.Second, ends())
	if s.m.turn == nil || s.m.turn.text != "mine" {
		t.Fatalf("the turn is %+v, want one of our own", s.m.turn)
	}
	s.at(-time.Second, begins("mine"), ends())
	if text := s.printed(); strings.Count(text, "> mine") != 1 {
		t.Errorf("our prompt is to be shown once:\n%s", text)
	}
	if s.m.turn != nil {
		t.Error("the turn has not ended")
	}
}

// Both prompt at once, and the other one was faster, as far as the supervisor is; in which order that is learned may be
// any.
func TestFollow_RefusedPromptStaysInInput(t *testing.T) {
	refusal := status.Error(codes.FailedPrecondition, `session "s1" has a turn under way: wait for its end, or cancel it`)
	for name, first := range map[string]bool{"the turn is told first": true, "the refusal is told first": false} {
		t.Run(name, func(t *testing.T) {
			s := joinScreen(t, HistoryFull, "", false)
			s.write("mine")
			s.press("enter")
			if first {
				s.at(-time.Second, begins("theirs"))
			}
			s.send(turnMsg{turn: s.m.turns, err: refusal})
			s.has("has a turn under way")
			if !first {
				if s.m.edit.Text() != "mine" {
					t.Errorf("the input has %q, want what was refused", s.m.edit.Text())
				}
				s.at(-time.Second, begins("theirs"))
				s.press("enter")
			}
			s.has("queued: mine")
			s.at(-time.Second, ends())
			if s.m.turn == nil || s.m.turn.text != "mine" {
				t.Errorf("the turn is %+v, want that of what was refused", s.m.turn)
			}
		})
	}
	t.Run("the turn ends first", func(t *testing.T) {
		s := joinScreen(t, HistoryFull, "", false)
		s.write("mine")
		s.press("enter")
		s.at(-time.Second, begins("theirs"), ends())
		s.send(turnMsg{turn: s.m.turns, err: refusal})
		s.has("has a turn under way")
	})
}

func TestFollow_SessionOfEditorIsReadOnly(t *testing.T) {
	s := joinScreen(t, HistoryFull, "the editor has it", false)
	s.write("mine")
	if cmd := s.press("enter"); cmd != nil || s.m.turn != nil || len(s.m.queue) > 0 {
		t.Error("a prompt was sent")
	}
	if s.has("the editor has it"); s.m.edit.Text() != "mine" {
		t.Errorf("the input has %q", s.m.edit.Text())
	}
	for _, name := range []string{"/new", "/sessions"} {
		joined := joinScreen(t, HistoryFull, "", false)
		joined.write(name)
		joined.press("enter")
		joined.has("begins none")
	}
}

func TestFollow_ShowsHistoryByOption(t *testing.T) {
	asked := func(id string) *supervisorv1.WatchApprovalsResponse {
		return &supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_Asked{Asked: &supervisorv1.Approval{Id: id, SessionId: "s1"}}}
	}
	caughtUp := &supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_CaughtUp{}}
	for history, want := range map[string]int{HistoryFull: 2, HistoryPending: 2, HistoryNone: 1} {
		s := joinScreen(t, history, "", true)
		elsewhere := asked("x")
		elsewhere.GetAsked().SessionId = "s2"
		s.send(questionsMsg{changes: []*supervisorv1.WatchApprovalsResponse{asked("a"), elsewhere, caughtUp, asked("b")}})
		if len(s.m.openQuestions) != want {
			t.Errorf("%s: %d questions are shown, want %d", history, len(s.m.openQuestions), want)
		}
		// The record, or the state of the session, reports the active turn.
		if under := s.m.turn != nil; under != (history != HistoryFull) {
			t.Errorf("%s: a turn is under way: %t", history, under)
		}
	}
	// The history that an agent repeats while it loads a session is in the record, unless another acphost recorded it.
	again := func(text string) *supervisorv1.Event {
		return &supervisorv1.Event{History: true, Event: &supervisorv1.Event_AgentMessage{AgentMessage: &supervisorv1.MessageChunk{Content: client.Text(text)}}}
	}
	s := joinScreen(t, HistoryFull, "", false)
	s.at(time.Minute, again("from elsewhere\n"), begins("recorded"), ends(), again("recorded too\n"))
	s.at(-time.Second, begins("now"))
	text := s.printed()
	if !strings.Contains(text, "from elsewhere") || strings.Contains(text, "recorded too") {
		t.Errorf("of what is repeated is shown:\n%s", text)
	}
}

func TestFollow_ShowsTurnsOfOthers(t *testing.T) {
	s := newScreen(t, 80, 24).ready()
	id := s.m.session.GetSessionId()
	tell := func(ev *supervisorv1.Event) {
		ev.SessionId, ev.Time = id, timestamppb.New(s.now)
		s.send(watchMsg{events: []*supervisorv1.Event{ev}})
	}
	tell(begins("theirs"))
	s.has("> theirs", "esc cancels")
	s.write("mine")
	s.press("enter")
	s.has("queued: mine")
	tell(ends())
	if s.m.turn == nil || s.m.turn.text != "mine" || s.m.turn.others {
		t.Errorf("the turn is %+v, want one of our own", s.m.turn)
	}
}
