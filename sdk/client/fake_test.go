package client_test

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
)

// supervisor plays a supervisor on its own socket.
type supervisor struct {
	supervisorv1.UnimplementedSupervisorStateServiceServer
	supervisorv1.UnimplementedAgentServiceServer
	supervisorv1.UnimplementedSessionServiceServer
	supervisorv1.UnimplementedApprovalServiceServer

	capabilities *supervisorv1.AgentCapabilities
	// turn sends the events of Prompt, and record the events of WatchSession after a cursor; both end with an error or
	// nil.
	turn   func(send func(*supervisorv1.Event)) error
	record func(cursor string, send func(*supervisorv1.Event)) error
	// events returns the responses of WatchEvents to a request.
	events func(*supervisorv1.WatchEventsRequest) []*supervisorv1.WatchEventsResponse
	// output is the output of a terminal.
	output []*supervisorv1.WatchOutputResponse

	mu       sync.Mutex
	answered chan struct{} // closed by an answer
	calls    []string
}

// serve has s listen on a socket, and returns its path.
func serve(t testing.TB, s *supervisor) string {
	t.Helper()
	path := filepath.Join(testkit.ShortDir(t), "admin.sock")
	stop, err := s.listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return path
}

func (s *supervisor) listen(path string) (stop func(), err error) {
	s.answered = make(chan struct{})
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	supervisorv1.RegisterSupervisorStateServiceServer(server, s)
	supervisorv1.RegisterAgentServiceServer(server, s)
	supervisorv1.RegisterSessionServiceServer(server, s)
	supervisorv1.RegisterApprovalServiceServer(server, s)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
	return func() {
		server.Stop()
		<-served
	}, nil
}

func (s *supervisor) called(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, what)
}

func (s *supervisor) GetStatus(context.Context, *supervisorv1.GetStatusRequest) (*supervisorv1.GetStatusResponse, error) {
	return &supervisorv1.GetStatusResponse{Pid: 4711, ControlOff: "it is played"}, nil
}

func (s *supervisor) StartAgent(_ context.Context, r *supervisorv1.StartAgentRequest) (*supervisorv1.StartAgentResponse, error) {
	if r.GetPreset() == "" {
		failed, err := status.New(codes.NotFound, "start it: there is no such command").WithDetails(
			&supervisorv1.AgentError{Kind: supervisorv1.ErrorKind_ERROR_KIND_COMMAND_NOT_FOUND})
		if err != nil {
			return nil, err
		}
		return nil, failed.Err()
	}
	return &supervisorv1.StartAgentResponse{Agent: &supervisorv1.Agent{
		Id: "claude-1", Name: "claude", Info: &supervisorv1.AgentInfo{Capabilities: s.capabilities},
	}}, nil
}

func (s *supervisor) NewSession(context.Context, *supervisorv1.NewSessionRequest) (*supervisorv1.NewSessionResponse, error) {
	s.called("new")
	return &supervisorv1.NewSessionResponse{Session: &supervisorv1.Session{AgentId: "claude-1", SessionId: "s1"}}, nil
}

func (s *supervisor) LoadSession(context.Context, *supervisorv1.LoadSessionRequest) (*supervisorv1.LoadSessionResponse, error) {
	s.called("load")
	return &supervisorv1.LoadSessionResponse{Session: &supervisorv1.Session{SessionId: "s1"}}, nil
}

func (s *supervisor) ResumeSession(context.Context, *supervisorv1.ResumeSessionRequest) (*supervisorv1.ResumeSessionResponse, error) {
	s.called("resume")
	return &supervisorv1.ResumeSessionResponse{Session: &supervisorv1.Session{SessionId: "s1"}}, nil
}

func (s *supervisor) Prompt(_ *supervisorv1.PromptRequest, stream grpc.ServerStreamingServer[supervisorv1.PromptResponse]) error {
	return s.turn(func(e *supervisorv1.Event) { _ = stream.Send(&supervisorv1.PromptResponse{Event: e}) })
}

func (s *supervisor) CancelPrompt(context.Context, *supervisorv1.CancelPromptRequest) (*supervisorv1.CancelPromptResponse, error) {
	s.called("cancel")
	return &supervisorv1.CancelPromptResponse{}, nil
}

func (s *supervisor) WatchEvents(r *supervisorv1.WatchEventsRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchEventsResponse]) error {
	for _, response := range s.events(r) {
		if err := stream.Send(response); err != nil {
			return err
		}
	}
	return status.Error(codes.ResourceExhausted, "too slow")
}

func (s *supervisor) WatchSession(r *supervisorv1.WatchSessionRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchSessionResponse]) error {
	return s.record(r.GetCursor(), func(e *supervisorv1.Event) { _ = stream.Send(&supervisorv1.WatchSessionResponse{Event: e}) })
}

func (s *supervisor) WatchOutput(_ *supervisorv1.WatchOutputRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchOutputResponse]) error {
	for _, piece := range s.output {
		if err := stream.Send(piece); err != nil {
			return err
		}
	}
	return nil
}

func (s *supervisor) AnswerApproval(_ context.Context, r *supervisorv1.AnswerApprovalRequest) (*supervisorv1.AnswerApprovalResponse, error) {
	if r.GetOptionId() == "late" {
		failed, err := status.New(codes.FailedPrecondition, "question claude-1/7 does not wait any more").WithDetails(
			&supervisorv1.ApprovalAnswer{Id: r.GetId(), Outcome: "denied", AnsweredBy: "front"})
		if err != nil {
			return nil, err
		}
		return nil, failed.Err()
	}
	close(s.answered)
	return &supervisorv1.AnswerApprovalResponse{Answer: &supervisorv1.ApprovalAnswer{Id: r.GetId(), Outcome: "allowed", OptionId: r.GetOptionId(), AnsweredBy: r.GetAnsweredBy()}}, nil
}

func agentMessage(text string) *supervisorv1.Event {
	return &supervisorv1.Event{Cursor: text, Event: &supervisorv1.Event_AgentMessage{AgentMessage: &supervisorv1.MessageChunk{Content: client.Text(text)}}}
}

func begins() *supervisorv1.Event {
	return &supervisorv1.Event{Event: &supervisorv1.Event_TurnStarted{TurnStarted: &supervisorv1.TurnStarted{}}}
}

func ends(end *supervisorv1.TurnEnded) *supervisorv1.Event {
	return &supervisorv1.Event{Event: &supervisorv1.Event_TurnEnded{TurnEnded: end}}
}

func asks(id string) *supervisorv1.Event {
	return &supervisorv1.Event{Event: &supervisorv1.Event_QuestionAsked{QuestionAsked: &supervisorv1.Approval{
		Id: id, Permission: &supervisorv1.PermissionQuestion{
			Title: "Run make", Options: []*supervisorv1.PermissionOption{{OptionId: "yes", Kind: "allow_once"}, {OptionId: "no", Kind: "reject_once"}},
		},
	}}}
}
