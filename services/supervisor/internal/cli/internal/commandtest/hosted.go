package commandtest

import (
	"context"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Hosted is a fake of a supervisor that a command runs in its own process. It records calls, and the test sets its
// answers.
type Hosted struct {
	supervisorv1.UnimplementedAgentServiceServer
	supervisorv1.UnimplementedSessionServiceServer
	supervisorv1.UnimplementedApprovalServiceServer
	supervisorv1.UnimplementedSupervisorStateServiceServer

	Can      *supervisorv1.AgentCapabilities
	StartErr error
	OpenErr  error
	// Turn is the turn. send sends an event.
	Turn func(ctx context.Context, send func(*supervisorv1.Event)) error
	// Outputs are the outputs of terminals.
	Outputs map[string][]*supervisorv1.WatchOutputResponse
	// Answer returns the result of an answer. Nil accepts every answer.
	Answer func(*supervisorv1.AnswerApprovalRequest) error

	Mu        sync.Mutex
	Calls     []string
	Metas     []string // _meta of the requests that open a session
	Started   *supervisorv1.StartAgentRequest
	Prompted  *supervisorv1.PromptRequest
	Answers   []*supervisorv1.AnswerApprovalRequest
	Cancelled chan struct{} // closed by the first CancelPrompt
	changes   chan *supervisorv1.WatchApprovalsResponse
	Answered  chan *supervisorv1.AnswerApprovalRequest
	closed    bool

	conn   *grpc.ClientConn
	server *grpc.Server
}

// NewHosted returns a supervisor that answers at once.
func NewHosted(t *testing.T) *Hosted {
	f := &Hosted{
		Can:       &supervisorv1.AgentCapabilities{},
		Cancelled: make(chan struct{}),
		changes:   make(chan *supervisorv1.WatchApprovalsResponse),
		Answered:  make(chan *supervisorv1.AnswerApprovalRequest, 16),
		server:    grpc.NewServer(),
	}
	supervisorv1.RegisterAgentServiceServer(f.server, f)
	supervisorv1.RegisterSessionServiceServer(f.server, f)
	supervisorv1.RegisterApprovalServiceServer(f.server, f)
	supervisorv1.RegisterSupervisorStateServiceServer(f.server, f)
	listener := bufconn.Listen(1 << 20)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = f.server.Serve(listener)
	}()
	conn, err := grpc.NewClient("passthrough:///fake", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	f.conn = conn
	t.Cleanup(func() {
		_ = conn.Close()
		f.server.Stop()
		<-served
	})
	return f
}

func (f *Hosted) Conn() grpc.ClientConnInterface { return f.conn }

func (f *Hosted) Close() {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.closed = true
}

func (f *Hosted) called(what string) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.Calls = append(f.Calls, what)
}

func (f *Hosted) StartAgent(_ context.Context, r *supervisorv1.StartAgentRequest) (*supervisorv1.StartAgentResponse, error) {
	f.called("start")
	f.Started = r
	if f.StartErr != nil {
		return nil, f.StartErr
	}
	return &supervisorv1.StartAgentResponse{Agent: &supervisorv1.Agent{
		Id: "demo-1", Name: "demo", Info: &supervisorv1.AgentInfo{Capabilities: f.Can},
	}}, nil
}

func (f *Hosted) opened(how, meta string) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.Metas = append(f.Metas, how+" "+meta)
}

func (f *Hosted) session() *supervisorv1.Session {
	return &supervisorv1.Session{SessionId: "s1"}
}

func (f *Hosted) NewSession(_ context.Context, r *supervisorv1.NewSessionRequest) (*supervisorv1.NewSessionResponse, error) {
	f.opened("new", r.GetMeta())
	f.called("new " + r.GetAgentId() + " " + r.GetCwd())
	return &supervisorv1.NewSessionResponse{Session: f.session()}, f.OpenErr
}

func (f *Hosted) LoadSession(_ context.Context, r *supervisorv1.LoadSessionRequest) (*supervisorv1.LoadSessionResponse, error) {
	f.opened("load", r.GetMeta())
	f.called("load " + r.GetSessionId())
	return &supervisorv1.LoadSessionResponse{Session: f.session()}, f.OpenErr
}

func (f *Hosted) ResumeSession(_ context.Context, r *supervisorv1.ResumeSessionRequest) (*supervisorv1.ResumeSessionResponse, error) {
	f.opened("resume", r.GetMeta())
	f.called("resume " + r.GetSessionId())
	return &supervisorv1.ResumeSessionResponse{Session: f.session()}, f.OpenErr
}

func (f *Hosted) SetMode(_ context.Context, r *supervisorv1.SetModeRequest) (*supervisorv1.SetModeResponse, error) {
	f.called("mode " + r.GetModeId())
	if r.GetModeId() == "none" {
		return nil, status.Error(codes.InvalidArgument, `there is no mode "none"; there are ask and code`)
	}
	return &supervisorv1.SetModeResponse{Session: f.session()}, nil
}

func (f *Hosted) SetModel(_ context.Context, r *supervisorv1.SetModelRequest) (*supervisorv1.SetModelResponse, error) {
	f.called("model " + r.GetModelId())
	return &supervisorv1.SetModelResponse{Session: f.session()}, nil
}

func (f *Hosted) Prompt(r *supervisorv1.PromptRequest, stream grpc.ServerStreamingServer[supervisorv1.PromptResponse]) error {
	f.called("prompt " + r.GetSessionId())
	f.Prompted = r
	if f.Turn == nil {
		return stream.Send(&supervisorv1.PromptResponse{Event: &supervisorv1.Event{Event: &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{StopReason: "end_turn"}}}})
	}
	return f.Turn(stream.Context(), func(ev *supervisorv1.Event) { _ = stream.Send(&supervisorv1.PromptResponse{Event: ev}) })
}

func (f *Hosted) CancelPrompt(context.Context, *supervisorv1.CancelPromptRequest) (*supervisorv1.CancelPromptResponse, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	select {
	case <-f.Cancelled:
	default:
		close(f.Cancelled)
	}
	return &supervisorv1.CancelPromptResponse{TurnActive: true}, nil
}

func (f *Hosted) WatchApprovals(_ *supervisorv1.WatchApprovalsRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchApprovalsResponse]) error {
	f.called("watch approvals")
	if err := stream.Send(&supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_CaughtUp{CaughtUp: &supervisorv1.CaughtUp{}}}); err != nil {
		return err
	}
	for {
		select {
		case c := <-f.changes:
			if err := stream.Send(c); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// Ask sends a question to the watchers.
func (f *Hosted) Ask(a *supervisorv1.Approval) {
	f.changes <- &supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_Asked{Asked: a}}
}

// End ends a question.
func (f *Hosted) End(id, outcome, by string) {
	f.changes <- &supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_Answered{
		Answered: &supervisorv1.ApprovalAnswer{Id: id, Outcome: outcome, AnsweredBy: by},
	}}
}

func (f *Hosted) AnswerApproval(_ context.Context, r *supervisorv1.AnswerApprovalRequest) (*supervisorv1.AnswerApprovalResponse, error) {
	if f.Answer != nil {
		if err := f.Answer(r); err != nil {
			return nil, err
		}
	}
	f.Answered <- r
	return &supervisorv1.AnswerApprovalResponse{Answer: &supervisorv1.ApprovalAnswer{Id: r.GetId()}}, nil
}

func (f *Hosted) WatchOutput(r *supervisorv1.WatchOutputRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchOutputResponse]) error {
	f.called("watch output " + r.GetTerminalId())
	for _, m := range f.Outputs[r.GetTerminalId()] {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	return nil
}

func (f *Hosted) Closed() bool {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return f.closed
}
