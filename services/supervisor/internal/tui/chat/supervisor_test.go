package chat

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func watched(kind string, session string) *supervisorv1.Event {
	ev := &supervisorv1.Event{SessionId: session}
	switch kind {
	case "start":
		ev.Event = &supervisorv1.Event_TurnStarted{TurnStarted: &supervisorv1.TurnStarted{}}
	case "end":
		ev.Event = &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{}}
	case "text":
		ev.Event = &supervisorv1.Event_AgentMessage{AgentMessage: &supervisorv1.MessageChunk{}}
	case "agent":
		ev.Event = &supervisorv1.Event_Agent{Agent: &supervisorv1.Agent{}}
	case "opened":
		ev.Event = &supervisorv1.Event_SessionOpened{SessionOpened: &supervisorv1.SessionOpened{}}
	}
	return ev
}

func TestWatch_OmitsOwnTurns(t *testing.T) {
	s := newSupervisor(context.Background(), nil)
	defer s.close()
	kept := func(kinds ...string) string {
		var all []string
		for _, k := range kinds {
			kind, session, _ := strings.Cut(k, "@")
			if !s.drop(watched(kind, session)) {
				all = append(all, k)
			}
		}
		return strings.Join(all, " ")
	}
	if got := kept("text@s1", "start@s1", "text@s1", "end@s1"); got != "text@s1 start@s1 text@s1 end@s1" {
		t.Errorf("of a turn of another caller is kept: %s", got)
	}
	s.promptsSent = 1
	if got := kept("text@s1", "start@s1", "text@s1", "text@s2", "agent@", "opened@s1", "end@s1", "text@s1"); got != "text@s1 text@s2 agent@ opened@s1 text@s1" {
		t.Errorf("of a turn of ours is kept: %s", got)
	}
	s.promptsSent = 1
	s.notBegun("s")
	if got := kept("start@s1", "text@s1"); got != "start@s1 text@s1" {
		t.Errorf("after a prompt that was refused is kept: %s", got)
	}
}

// cutOff cuts off the stream of a prompt.
type cutOff struct {
	supervisorv1.SessionServiceClient
	watch *supervisorv1.WatchSessionRequest
}

type stream[T any] struct {
	grpc.ClientStream
	all []*T
	err error
}

func (s *stream[T]) Recv() (*T, error) {
	if len(s.all) == 0 {
		return nil, s.err
	}
	first := s.all[0]
	s.all = s.all[1:]
	return first, nil
}

func (c *cutOff) Prompt(context.Context, *supervisorv1.PromptRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[supervisorv1.PromptResponse], error) {
	ev := chunk("one\n\n")
	ev.Cursor = "x-7"
	return &stream[supervisorv1.PromptResponse]{
		all: []*supervisorv1.PromptResponse{{Event: ev}}, err: status.Error(codes.ResourceExhausted, "too slow"),
	}, nil
}

func (c *cutOff) WatchSession(_ context.Context, r *supervisorv1.WatchSessionRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[supervisorv1.WatchSessionResponse], error) {
	c.watch = r
	return &stream[supervisorv1.WatchSessionResponse]{
		all: []*supervisorv1.WatchSessionResponse{{Event: chunk("two\n\n")}, {Event: turnEnd("end_turn")}, {Event: chunk("of another turn\n\n")}},
		err: errors.New("it was read on"),
	}, nil
}

// play runs commands and passes their results to the model, until none is left.
func (s *screen) play(cmd tea.Cmd) {
	s.t.Helper()
	todo := []tea.Cmd{cmd}
	for n := 0; len(todo) > 0; n++ {
		if n > 1000 {
			s.t.Fatal("there is no end of commands")
		}
		c := todo[0]
		todo = todo[1:]
		if c == nil {
			continue
		}
		switch msg := c().(type) {
		case nil:
		case tea.BatchMsg:
			todo = append(todo, msg...)
		default:
			todo = append(todo, s.send(msg))
		}
	}
}

func TestTurn_ResumesFromRecordAfterCutOff(t *testing.T) {
	s := newScreen(t, 80, 24).ready()
	c := &cutOff{}
	s.m.sup.Sessions = c
	s.m.edit.Set("go")
	s.play(s.press("enter"))
	got := s.printed()
	if !strings.Contains(got, "one") || !strings.Contains(got, "two") || strings.Contains(got, "another") {
		t.Errorf("printed\n%s", got)
	}
	if c.watch.GetCursor() != "x-7" || s.m.turn != nil {
		t.Errorf("it continued from %v; the turn is %+v", c.watch, s.m.turn)
	}
}

func TestPrompt_RefusalIsPrinted(t *testing.T) {
	s := newScreen(t, 80, 24).ready()
	s.write("go")
	s.press("enter")
	s.send(turnMsg{turn: 1, err: status.Error(codes.FailedPrecondition, "a turn is under way")})
	if got := s.printed(); !strings.Contains(got, "a turn is under way") || s.m.turn != nil {
		t.Errorf("printed %q", got)
	}
}

func TestSession_ContinuesAfterCrash(t *testing.T) {
	s := newScreen(t, 80, 24).ready()
	s.write("go")
	s.press("enter")
	s.write("and then")
	s.press("enter")
	s.printed()
	state := func(state supervisorv1.AgentState) *supervisorv1.Event {
		a := testAgent()
		a.State = state
		a.Error = &supervisorv1.AgentError{Kind: supervisorv1.ErrorKind_ERROR_KIND_CRASHED, Message: "it exited with status 3", StderrTail: []string{"the last words"}}
		return &supervisorv1.Event{Event: &supervisorv1.Event_Agent{Agent: a}}
	}
	s.send(watchMsg{events: []*supervisorv1.Event{
		state(supervisorv1.AgentState_AGENT_STATE_BACKOFF),
		{SessionId: "s1", Event: &supervisorv1.Event_SessionClosed{SessionClosed: &supervisorv1.SessionClosed{Reason: "the agent is gone"}}},
	}})
	s.emit(&supervisorv1.Event{Event: &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{Error: &supervisorv1.AgentError{
		Kind: supervisorv1.ErrorKind_ERROR_KIND_CRASHED, Message: "it exited with status 3", StderrTail: []string{"the last words"},
	}}}})
	s.send(turnMsg{turn: 1, err: errEOF})
	got := s.printed()
	if strings.Count(got, "it exited with status 3") != 1 || strings.Count(got, "the last words") != 1 {
		t.Errorf("it is not printed once:\n%s", got)
	}
	if s.m.turn != nil || len(s.m.queue) != 1 {
		t.Fatalf("a queued prompt was sent to an ended agent")
	}
	s.send(watchMsg{events: []*supervisorv1.Event{
		state(supervisorv1.AgentState_AGENT_STATE_RUNNING),
		{SessionId: "s1", Event: &supervisorv1.Event_SessionOpened{SessionOpened: &supervisorv1.SessionOpened{Method: "session/load", ModeId: "plan"}}},
	}})
	if s.m.phase != ready || s.m.session.GetMode() != "plan" || s.m.turn == nil || len(s.m.queue) != 0 {
		t.Errorf("the session does not go on: phase %v, mode %q, %d queued\n%s", s.m.phase, s.m.session.GetMode(), len(s.m.queue), s.printed())
	}
}

func TestAgent_NewRestartsFailedAgent(t *testing.T) {
	s := newScreen(t, 80, 24).ready()
	gone := testAgent()
	gone.State = supervisorv1.AgentState_AGENT_STATE_FAILED
	s.send(watchMsg{events: []*supervisorv1.Event{{Event: &supervisorv1.Event_Agent{Agent: gone}}}})
	if got := s.printed(); !strings.Contains(got, "/new starts it again") {
		t.Errorf("printed %q", got)
	}
	s.write("hello")
	s.press("enter")
	if s.m.turn != nil || s.m.edit.Text() != "hello" {
		t.Error("the input is lost")
	}
	s.press("ctrl+u")
	s.write("/new")
	s.press("enter")
	if s.m.phase != starting {
		t.Errorf("the phase is %v", s.m.phase)
	}
}

func TestStreams_ReopenUntilLimit(t *testing.T) {
	s := newScreen(t, 80, 24).ready()
	gone := status.Error(codes.Unavailable, "gone")
	s.m.begun = true
	for i := range 19 {
		if s.send(watchMsg{err: gone}) == nil {
			t.Fatalf("given up after %d", i)
		}
	}
	if s.send(watchMsg{err: gone}) != nil || s.m.phase != broken {
		t.Errorf("not given up; phase %v", s.m.phase)
	}
}

func TestListSessions_LimitsPages(t *testing.T) {
	sup := newSupervisor(context.Background(), nil)
	defer sup.close()
	for name, list := range map[string]*endless{"of the same page": {cursor: "x", page: 1}, "of empty pages": {page: 0}, "of many": {page: 50}} {
		sup.Sessions = list
		msg, ok := sup.stored("a", "/")().(storedMsg)
		if !ok || msg.err != nil || len(msg.sessions) > maxStored {
			t.Errorf("%s: got %d sessions, %v", name, len(msg.sessions), msg.err)
		}
	}
}

type endless struct {
	supervisorv1.SessionServiceClient
	cursor string
	page   int
	n      int
}

func (e *endless) ListStoredSessions(context.Context, *supervisorv1.ListStoredSessionsRequest, ...grpc.CallOption) (*supervisorv1.ListStoredSessionsResponse, error) {
	e.n++
	r := &supervisorv1.ListStoredSessionsResponse{NextCursor: e.cursor}
	if e.cursor == "" {
		r.NextCursor = fmt.Sprint(e.n)
	}
	for range e.page {
		r.Sessions = append(r.Sessions, &supervisorv1.StoredSession{SessionId: "x"})
	}
	return r, nil
}

func TestOutput_BackpressureOnAgent(t *testing.T) {
	s := newScreen(t, 80, 24).ready()
	s.write("go")
	s.press("enter")
	more := func() tea.Msg { return nil }
	s.m.out = make([]string, maxOut)
	if s.send(turnMsg{turn: 1, next: more, events: []*supervisorv1.Event{chunk("x\n\n")}}); len(s.m.delayedCmds) != 1 {
		t.Fatal("more is read though the terminal has not taken what there is")
	}
	s.m.out = nil
	if cmd := s.send(printedMsg{}); cmd == nil || len(s.m.delayedCmds) != 0 {
		t.Error("nothing more is read though the terminal has taken all")
	}
}

func TestText_UnpromptedIsShownOnPause(t *testing.T) {
	s := newScreen(t, 80, 24).ready()
	s.send(watchMsg{events: []*supervisorv1.Event{chunk("by the way, this")}})
	if got := s.view(); !strings.Contains(got, "by the way,") {
		t.Errorf("the view is\n%s", got)
	}
	s.wait(time.Second)
	s.send(tickMsg{})
	if got := s.printed(); !strings.Contains(got, "by the way, this") {
		t.Errorf("printed %q", got)
	}
}

func TestText_LastWordIsShownOnPause(t *testing.T) {
	s := newScreen(t, 80, 24).ready()
	s.write("go")
	s.press("enter")
	s.emit(chunk("just a mom"))
	s.wait(time.Second)
	s.send(tickMsg{})
	if got := s.view(); !strings.Contains(got, "just a mom") {
		t.Errorf("the view is\n%s", got)
	}
	s.emit(chunk("ent.\n\n"), turnEnd("end_turn"))
	s.send(turnMsg{turn: 1, err: errEOF})
	if got := s.printed(); !strings.Contains(got, "just a moment.") {
		t.Errorf("printed %q", got)
	}
}
