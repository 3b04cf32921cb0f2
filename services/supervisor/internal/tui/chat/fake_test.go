package chat

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/timestamppb"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// fake is a supervisor with one agent, which does what a test has it do.
type fake struct {
	supervisorv1.UnimplementedAgentServiceServer
	supervisorv1.UnimplementedSessionServiceServer
	supervisorv1.UnimplementedSupervisorStateServiceServer
	supervisorv1.UnimplementedApprovalServiceServer

	// turn plays a turn: it sends events, and returns the stop reason. By default it repeats the prompt.
	turn func(ctx context.Context, f *fake, text string, say func(*supervisorv1.Event)) string
	// history has the events that the agent sends while it loads a session.
	history []*supervisorv1.Event

	mu       sync.Mutex
	seq      int
	sessions int
	cancel   context.CancelFunc
	watchers map[chan *supervisorv1.Event]bool
	asking   map[chan *supervisorv1.WatchApprovalsResponse]bool
	open     map[string]*supervisorv1.Approval
	answers  map[string]chan *supervisorv1.AnswerApprovalRequest
	prompts  []*supervisorv1.PromptRequest
}

func newFake() *fake {
	return &fake{
		watchers: map[chan *supervisorv1.Event]bool{}, asking: map[chan *supervisorv1.WatchApprovalsResponse]bool{},
		open: map[string]*supervisorv1.Approval{}, answers: map[string]chan *supervisorv1.AnswerApprovalRequest{},
	}
}

// serve returns a connection to the fake.
func (f *fake) serve(t *testing.T) *grpc.ClientConn {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	s := grpc.NewServer()
	supervisorv1.RegisterAgentServiceServer(s, f)
	supervisorv1.RegisterSessionServiceServer(s, f)
	supervisorv1.RegisterSupervisorStateServiceServer(s, f)
	supervisorv1.RegisterApprovalServiceServer(s, f)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///fake", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return conn
}

// tell sends an event to the watchers.
func (f *fake) tell(ev *supervisorv1.Event) *supervisorv1.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	ev.Cursor = fmt.Sprintf("x-%d", f.seq)
	ev.AgentId = "claude-1"
	ev.Time = timestamppb.Now()
	for w := range f.watchers {
		w <- ev
	}
	return ev
}

// StartAgent blocks until earlier callers are watching, as a slow agent would.
func (f *fake) StartAgent(ctx context.Context, _ *supervisorv1.StartAgentRequest) (*supervisorv1.StartAgentResponse, error) {
	for {
		f.mu.Lock()
		watched := len(f.watchers) > 0 && len(f.asking) > 0
		f.mu.Unlock()
		if watched {
			break
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		runtime.Gosched()
	}
	return &supervisorv1.StartAgentResponse{Agent: testAgent()}, nil
}

func (f *fake) RestartAgent(context.Context, *supervisorv1.RestartAgentRequest) (*supervisorv1.RestartAgentResponse, error) {
	return &supervisorv1.RestartAgentResponse{Agent: testAgent()}, nil
}

func (f *fake) NewSession(context.Context, *supervisorv1.NewSessionRequest) (*supervisorv1.NewSessionResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions++
	s := testSession()
	s.SessionId = fmt.Sprintf("s%d", f.sessions)
	return &supervisorv1.NewSessionResponse{Session: s}, nil
}

func (f *fake) LoadSession(_ context.Context, r *supervisorv1.LoadSessionRequest) (*supervisorv1.LoadSessionResponse, error) {
	for _, ev := range f.history {
		ev.SessionId, ev.History = r.GetSessionId(), true
		f.tell(ev)
	}
	s := testSession()
	s.SessionId = r.GetSessionId()
	return &supervisorv1.LoadSessionResponse{Session: s}, nil
}

func (f *fake) ListStoredSessions(context.Context, *supervisorv1.ListStoredSessionsRequest) (*supervisorv1.ListStoredSessionsResponse, error) {
	return &supervisorv1.ListStoredSessionsResponse{Sessions: []*supervisorv1.StoredSession{
		{SessionId: "old-1", Cwd: "/work/app", Title: "The parser"}, {SessionId: "old-2", Cwd: "/work/app", Title: "The lexer"},
	}}, nil
}

func (f *fake) CloseSession(context.Context, *supervisorv1.CloseSessionRequest) (*supervisorv1.CloseSessionResponse, error) {
	return &supervisorv1.CloseSessionResponse{}, nil
}

func (f *fake) Prompt(r *supervisorv1.PromptRequest, stream grpc.ServerStreamingServer[supervisorv1.PromptResponse]) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	f.mu.Lock()
	f.cancel = cancel
	f.prompts = append(f.prompts, r)
	f.mu.Unlock()
	say := func(ev *supervisorv1.Event) {
		ev.SessionId = r.GetSessionId()
		_ = stream.Send(&supervisorv1.PromptResponse{Event: f.tell(ev)})
	}
	say(&supervisorv1.Event{Event: &supervisorv1.Event_TurnStarted{TurnStarted: &supervisorv1.TurnStarted{Prompt: r.GetPrompt()}}})
	text := r.GetPrompt()[0].GetText().GetText()
	reason := "end_turn"
	if f.turn != nil {
		reason = f.turn(ctx, f, text, say)
	} else {
		say(chunk("You said: " + text))
	}
	say(turnEnd(reason))
	return nil
}

func (f *fake) CancelPrompt(context.Context, *supervisorv1.CancelPromptRequest) (*supervisorv1.CancelPromptResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cancel != nil {
		f.cancel()
	}
	return &supervisorv1.CancelPromptResponse{TurnActive: f.cancel != nil}, nil
}

func (f *fake) SetMode(_ context.Context, r *supervisorv1.SetModeRequest) (*supervisorv1.SetModeResponse, error) {
	s := testSession()
	s.SessionId, s.Mode = r.GetSessionId(), r.GetModeId()
	return &supervisorv1.SetModeResponse{Session: s}, nil
}

func (f *fake) WatchEvents(_ *supervisorv1.WatchEventsRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchEventsResponse]) error {
	w := make(chan *supervisorv1.Event, 10_000)
	f.mu.Lock()
	f.watchers[w] = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watchers, w)
	}()
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case ev := <-w:
			if err := stream.Send(&supervisorv1.WatchEventsResponse{Event: ev}); err != nil {
				return err
			}
		}
	}
}

// ask asks a question, and waits for the answer.
func (f *fake) ask(ctx context.Context, a *supervisorv1.Approval) *supervisorv1.AnswerApprovalRequest {
	answer := make(chan *supervisorv1.AnswerApprovalRequest, 1)
	f.mu.Lock()
	f.open[a.GetId()] = a
	f.answers[a.GetId()] = answer
	for w := range f.asking {
		w <- &supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_Asked{Asked: a}}
	}
	f.mu.Unlock()
	select {
	case r := <-answer:
		return r
	case <-ctx.Done():
		f.ended(&supervisorv1.ApprovalAnswer{Id: a.GetId(), Outcome: "cancelled", AnsweredBy: "nobody"})
		return nil
	}
}

// ended removes a question from the pending ones; it returns false if the question was not pending.
func (f *fake) ended(a *supervisorv1.ApprovalAnswer) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open[a.GetId()] == nil {
		return false
	}
	delete(f.open, a.GetId())
	a.Time = timestamppb.Now()
	for w := range f.asking {
		w <- &supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_Answered{Answered: a}}
	}
	return true
}

func (f *fake) WatchApprovals(_ *supervisorv1.WatchApprovalsRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchApprovalsResponse]) error {
	w := make(chan *supervisorv1.WatchApprovalsResponse, 100)
	f.mu.Lock()
	f.asking[w] = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.asking, w)
	}()
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case c := <-w:
			if err := stream.Send(c); err != nil {
				return err
			}
		}
	}
}

func (f *fake) AnswerApproval(_ context.Context, r *supervisorv1.AnswerApprovalRequest) (*supervisorv1.AnswerApprovalResponse, error) {
	f.mu.Lock()
	answer := f.answers[r.GetId()]
	f.mu.Unlock()
	a := &supervisorv1.ApprovalAnswer{Id: r.GetId(), Outcome: "allowed", OptionId: r.GetOptionId(), AnsweredBy: r.GetAnsweredBy()}
	if r.GetOptionId() == "no" || r.GetOptionId() == "never" {
		a.Outcome = "denied"
	}
	if !f.ended(a) {
		return nil, status.Error(codes.FailedPrecondition, "it does not wait any more")
	}
	answer <- r
	return &supervisorv1.AnswerApprovalResponse{Answer: a}, nil
}
