package headless_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

func TestWatch_SlowReaderIsDropped(t *testing.T) {
	t.Parallel()
	const pieces = 20000
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	agent := s.Start(p.Demo()).GetId()
	id := s.Open(agent).GetSessionId()
	req := &supervisorv1.WatchSessionRequest{SessionId: id}

	// A separate connection, with small buffers.
	lazy := p.Dial(t, s.PID(), grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
	slow, err := lazy.Sessions.WatchSession(s.Ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	one, two := s.Watch(req), s.Watch(req)
	// All three watchers are up to date when they have received a turn that began after them.
	s.Prompt(id, "repeat").Stopped("end_turn")
	ends := func(e *supervisorv1.Event) bool { return e.GetTurnEnded() != nil }
	lazily := &e2e.Stream{T: t, Next: func() (*supervisorv1.Event, error) {
		m, err := slow.Recv()
		return m.GetEvent(), err
	}}
	for _, watching := range []*e2e.Stream{one, two, lazily} {
		watching.Until("a turn", ends)
	}

	turn := s.Prompt(id, fmt.Sprintf("flood %d", pieces))
	var wg sync.WaitGroup
	for _, watching := range []*e2e.Stream{one, two, turn} {
		wg.Go(func() {
			cursor := ""
			for n := 0; ; {
				e, err := watching.Next()
				if status.Code(err) == codes.ResourceExhausted && watching != turn { // on a busy machine: as a disconnected watcher does
					watching = s.Watch(&supervisorv1.WatchSessionRequest{SessionId: id, Cursor: cursor})
					continue
				}
				if err != nil {
					t.Errorf("one that reads got %v after %d pieces", err, n)
					return
				}
				cursor = e.GetCursor()
				if text := e.GetAgentMessage().GetContent().GetText().GetText(); text != "" {
					if want := fmt.Sprintf("piece %d\n", n); text != want {
						t.Errorf("%q arrived where %q should", text, want)
						return
					}
					n++
				}
				if ends(e) {
					if n != pieces {
						t.Errorf("%d pieces arrived, want %d", n, pieces)
					}
					return
				}
			}
		})
	}
	wg.Wait()
	for err == nil {
		_, err = lazily.Next()
	}
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the slow watcher was cut off with %v, want RESOURCE_EXHAUSTED", err)
	}
	s.Finish()
}

func TestWatch_StartWithinTurn(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, p.Config(t, "limits: {turn_grace_ms: 1}\n"))
	agent := s.Start(p.Demo()).GetId()
	for range 60 {
		id := s.Open(agent).GetSessionId()
		turn := s.Prompt(id, "flood 20")
		turn.Until("the turn's begin", func(e *supervisorv1.Event) bool { return e.GetTurnStarted() != nil })
		// Each watcher becomes up to date at another moment, or when all turns have ended.
		var watching []*e2e.Stream
		for range 3 {
			watching = append(watching, s.Watch(&supervisorv1.WatchSessionRequest{SessionId: id}))
		}
		turn.Stopped("end_turn")
		for _, w := range watching {
			w.Until("the turn's end", func(e *supervisorv1.Event) bool { return e.GetTurnEnded() != nil })
			if w.Said() != turn.Said() || e2e.Kinds(w.Seen)["gap"] > 0 {
				t.Fatalf("a watcher received\n%s", e2e.Listing(w.Seen))
			}
		}
	}
	s.Finish()
}

func TestWatch_ReplayEqualsLive(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	first := p.Serve(t, nil)
	req := p.Demo()
	req.Attended = true
	agent := first.Start(req).GetId()
	id := first.Open(agent).GetSessionId()
	live := first.Watch(&supervisorv1.WatchSessionRequest{SessionId: id})
	answered := first.AnswerAll(first.Ctx)
	first.Prompt(id, "tour").Stopped("end_turn")
	first.Prompt(id, "repeat the last").Stopped("end_turn")
	for range 2 {
		live.Until("a turn's end", func(e *supervisorv1.Event) bool { return e.GetTurnEnded() != nil })
	}
	if k := e2e.Kinds(live.Seen); k["session_opened"] != 1 || k["turn_ended"] != 2 || k["question_asked"] != 3 || k["tool_call"] < 4 || k["gap"] != 0 {
		t.Errorf("live there were %v", k)
	}
	same := func(when string, s *e2e.Server, cursor string, want []*supervisorv1.Event) {
		t.Helper()
		replay := s.Watch(&supervisorv1.WatchSessionRequest{SessionId: id, Cursor: cursor, NoFollow: true})
		var got []*supervisorv1.Event
		for {
			e, err := replay.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", when, e2e.Explain(err))
			}
			got = append(got, e)
		}
		for i := range min(len(got), len(want)) {
			if !proto.Equal(byHandle(got[i]), byHandle(want[i])) {
				t.Fatalf("%s, event %d of %d is\n%v, want\n%v", when, i, len(want), got[i], want[i])
			}
		}
		if len(got) < len(want) {
			t.Errorf("%s there are %d events, want %d; the first that is missing is %v", when, len(got), len(want), want[len(got)])
		}
		for _, e := range got[min(len(got), len(want)):] { // what came after the last turn's end
			if e.GetSessionClosed() == nil && e.GetHandler() == nil && e.GetAgent() == nil {
				t.Errorf("%s there is %v, too", when, e)
			}
		}
	}
	same("afterwards", first, "", live.Seen)
	for _, at := range []int{0, len(live.Seen) / 2, len(live.Seen) - 1} {
		same("behind a cursor", first, live.Seen[at].GetCursor(), live.Seen[at+1:])
	}
	first.Finish()
	<-answered

	second := p.Serve(t, nil)
	same("in the next supervisor", second, "", live.Seen)
	same("behind a cursor in the next supervisor", second, live.Seen[10].GetCursor(), live.Seen[11:])
	strange, err := second.Sessions.WatchSession(second.Ctx, &supervisorv1.WatchSessionRequest{SessionId: id, Cursor: "no such cursor", NoFollow: true})
	if err == nil {
		_, err = strange.Recv()
	}
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("a cursor that there is not was refused with %v, want INVALID_ARGUMENT", err)
	}
	none, err := second.Sessions.WatchSession(second.Ctx, &supervisorv1.WatchSessionRequest{SessionId: "no-such-session", NoFollow: true})
	if err == nil {
		_, err = none.Recv()
	}
	if status.Code(err) != codes.NotFound {
		t.Errorf("a session that there is not was refused with %v, want NOT_FOUND", err)
	}
	second.Finish()
}

func TestWatchEvents_All(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	events, err := s.State.WatchEvents(s.Ctx, &supervisorv1.WatchEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	watching := &e2e.Stream{T: t, Next: func() (*supervisorv1.Event, error) {
		m, err := events.Recv()
		return m.GetEvent(), err
	}}
	// The watch is active once it has sent an event: a session of another agent.
	other := p.Demo()
	other.Name = "other"
	begun, opener := make(chan error, 1), s.Start(other).GetId()
	go func() {
		_, err := watching.Next()
		begun <- err
	}()
	if !testkit.Poll(func() bool {
		s.Open(opener)
		select {
		case err := <-begun:
			return err == nil
		default:
			return false
		}
	}) {
		t.Fatal("no event was sent")
	}
	agent := s.Start(p.Demo()).GetId()
	watching.Until("the agent runs", func(e *supervisorv1.Event) bool {
		return e.GetAgentId() == agent && e.GetAgent().GetState() == supervisorv1.AgentState_AGENT_STATE_RUNNING
	})
	id := s.Open(agent).GetSessionId()
	opened := watching.Until("the session is open", func(e *supervisorv1.Event) bool { return e.GetAgentId() == agent && e.GetSessionOpened() != nil })
	if o := opened.GetSessionOpened(); opened.GetSessionId() != id || o.GetMethod() != "session/new" || o.GetModeId() != "ask" || len(o.GetModes()) != 2 || len(o.GetOptions()) != 3 || o.GetRoots()[0] != p.Work {
		t.Errorf("the session was opened with %v", opened)
	}
	s.Prompt(id, "repeat").Stopped("end_turn")
	watching.Until("the turn's end", func(e *supervisorv1.Event) bool { return e.GetSessionId() == id && e.GetTurnEnded() != nil })
	if _, err := s.Sessions.CloseSession(s.Ctx, &supervisorv1.CloseSessionRequest{SessionId: id}); err != nil {
		t.Fatal(e2e.Explain(err))
	}
	if closed := watching.Until("the session is closed", func(e *supervisorv1.Event) bool { return e.GetSessionClosed() != nil }).GetSessionClosed(); closed.GetReason() != "session/close" {
		t.Errorf("the session was closed with %v", closed)
	}
	if _, err := s.Agents.StopAgent(s.Ctx, &supervisorv1.StopAgentRequest{AgentId: agent}); err != nil {
		t.Fatal(e2e.Explain(err))
	}
	watching.Until("the agent ended", func(e *supervisorv1.Event) bool {
		return e.GetAgentId() == agent && e.GetAgent().GetState() == supervisorv1.AgentState_AGENT_STATE_STOPPED
	})
	// From a cursor, all events after it are sent again.
	again, err := s.State.WatchEvents(s.Ctx, &supervisorv1.WatchEventsRequest{Cursor: opened.GetCursor()})
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for i < len(watching.Seen) && watching.Seen[i] != opened {
		i++
	}
	for _, want := range watching.Seen[i+1:] {
		m, err := again.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(m.GetEvent(), want) {
			t.Fatalf("again there is\n%v, want\n%v", m.GetEvent(), want)
		}
	}
	s.Finish()
}

func TestWatchTerminal_LiveAndReleased(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	id := s.Open(s.Start(p.Demo()).GetId()).GetSessionId()
	fifo := p.Path("go")
	turn := s.Prompt(id, `/run printf '\033[31mred\033[0m\n'; until [ -e `+fifo+` ]; do sleep 0.01; done; printf 'done\n'; exit 4`)
	shown := turn.Until("the terminal", func(e *supervisorv1.Event) bool { return len(e.GetToolCallUpdate().GetContent()) > 0 })
	terminal := shown.GetToolCallUpdate().GetContent()[0].GetTerminalId()

	output, err := s.State.WatchOutput(s.Ctx, &supervisorv1.WatchOutputRequest{TerminalId: terminal})
	if err != nil {
		t.Fatal(err)
	}
	var data bytes.Buffer
	for !strings.Contains(data.String(), "red") {
		m, err := output.Recv()
		if err != nil {
			t.Fatal(err)
		}
		data.Write(m.GetData())
	}
	p.File(t, "go", "")
	whole := func(output grpc.ServerStreamingClient[supervisorv1.WatchOutputResponse], data *bytes.Buffer) {
		t.Helper()
		for {
			m, err := output.Recv()
			if err != nil {
				t.Fatal(err)
			}
			data.Write(m.GetData())
			if m.GetMissed() != 0 {
				t.Errorf("%d bytes were missed", m.GetMissed())
			}
			if !m.GetEnded() {
				continue
			}
			if m.ExitCode == nil || m.GetExitCode() != 4 {
				t.Errorf("the terminal ended with %v, want status 4", m)
			}
			if _, err := output.Recv(); !errors.Is(err, io.EOF) {
				t.Errorf("after the end arrived %v", err)
			}
			return
		}
	}
	whole(output, &data)
	turn.Stopped("end_turn")
	e2e.ExpectContains(t, "the agent's message", turn.Said(), "run ok: exit 4", "red")
	// The agent has released it.
	after, err := s.State.WatchOutput(s.Ctx, &supervisorv1.WatchOutputRequest{TerminalId: terminal})
	if err != nil {
		t.Fatal(err)
	}
	var later bytes.Buffer
	whole(after, &later)
	if want := "\x1b[31mred\x1b[0m\r\ndone\r\n"; data.String() != want || later.String() != want {
		t.Errorf("the raw output was %q live and %q later, want %q", data.String(), later.String(), want)
	}
	s.Finish()
}

func TestWatch_EditorSessionIsReadOnly(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	sc := p.Fixture(t, nil)
	calls := p.Dial(t, sc.PID())
	ctx := wire.Context(t)
	sessions, err := calls.State.ListSessions(ctx, &supervisorv1.ListSessionsRequest{})
	if err != nil || len(sessions.GetSessions()) != 1 || sessions.GetSessions()[0].GetAgentId() == "" {
		t.Fatalf("the sessions are %v (%v)", sessions, err)
	}
	agents, err := calls.Agents.ListAgents(ctx, &supervisorv1.ListAgentsRequest{})
	if err != nil || len(agents.GetAgents()) != 1 || agents.GetAgents()[0].GetId() != sessions.GetSessions()[0].GetAgentId() || agents.GetAgents()[0].GetInfo().GetName() != "puppet" {
		t.Errorf("the agents are %v (%v)", agents, err)
	}
	events, err := calls.Sessions.WatchSession(ctx, &supervisorv1.WatchSessionRequest{SessionId: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	prompt := sc.Send("session/prompt", map[string]any{"sessionId": "s1", "prompt": []any{map[string]any{"type": "text", "text": "hello"}}})
	asked := sc.Agent.Expect("session/prompt")
	sc.Agent.Write(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}}}`)
	sc.Agent.Reply(asked, map[string]any{"stopReason": "end_turn"})
	prompt.Result(nil)
	watching := &e2e.Stream{T: t, Next: func() (*supervisorv1.Event, error) {
		m, err := events.Recv()
		return m.GetEvent(), err
	}}
	watching.Says("hi")
	watching.Until("the turn's end", func(e *supervisorv1.Event) bool { return e.GetTurnEnded().GetStopReason() == "end_turn" })
	for name, call := range map[string]func() error{
		"start": func() error { _, err := calls.Agents.StartAgent(ctx, p.Demo()); return err },
		"open": func() error {
			_, err := calls.Sessions.NewSession(ctx, &supervisorv1.NewSessionRequest{AgentId: agents.GetAgents()[0].GetId(), Cwd: p.Work})
			return err
		},
		"cancel": func() error {
			_, err := calls.Sessions.CancelPrompt(ctx, &supervisorv1.CancelPromptRequest{SessionId: "s1"})
			return err
		},
		"prompt": func() error {
			events, err := calls.Sessions.Prompt(ctx, &supervisorv1.PromptRequest{SessionId: "s1", Prompt: []*supervisorv1.ContentBlock{e2e.Text("x")}})
			if err == nil {
				_, err = events.Recv()
			}
			return err
		},
	} {
		if err := call(); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%s was refused with %v, want FAILED_PRECONDITION", name, err)
		}
	}
	sc.Finish()
}

// byHandle is an event with a question's handle in the place of its id, which is not kept.
func byHandle(e *supervisorv1.Event) *supervisorv1.Event {
	e = proto.CloneOf(e)
	if q := e.GetQuestionAsked(); q != nil {
		q.Id = cmp.Or(e2e.HandleOf(q.GetId()), q.GetId())
	}
	if q := e.GetQuestionAnswered(); q != nil {
		q.Id = cmp.Or(e2e.HandleOf(q.GetId()), q.GetId())
	}
	return e
}
