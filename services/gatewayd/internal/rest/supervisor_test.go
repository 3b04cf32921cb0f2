package rest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/delegation"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// supervisor is one that a test plays. It notes what it is asked for, and for whom.
type supervisor struct {
	supervisorv1.UnimplementedAgentServiceServer
	supervisorv1.UnimplementedSessionServiceServer
	supervisorv1.UnimplementedSupervisorStateServiceServer
	supervisorv1.UnimplementedApprovalServiceServer

	mu      sync.Mutex
	asked   []proto.Message
	callers []delegation.Caller
	url     string                   // of a login
	finish  chan struct{}            // a login is done
	events  chan *supervisorv1.Event // of WatchSession and WatchEvents
	lag     atomic.Bool              // the next watcher falls behind after one event
	from    chan string              // cursors from which is watched
}

func (s *supervisor) note(ctx context.Context, req proto.Message) {
	md, _ := metadata.FromIncomingContext(ctx)
	c, _, _ := delegation.Read(md)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.callers = append(s.asked, req), append(s.callers, c)
}

// last is the last request but for those that only look, and its caller.
func (s *supervisor) last() (proto.Message, delegation.Caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[len(s.asked)-1], s.callers[len(s.callers)-1]
}

func demo() *supervisorv1.Agent {
	code := int32(1)
	return &supervisorv1.Agent{Id: "a1", Name: "demo", Preset: "claude", Command: []string{"x"}, Pid: 1 << 40, State: supervisorv1.AgentState_AGENT_STATE_RUNNING,
		StartTime: timestamppb.New(time.Unix(1, 5)), Restarts: 2, Error: &supervisorv1.AgentError{Kind: supervisorv1.ErrorKind_ERROR_KIND_CRASHED, ExitCode: &code},
		Info: &supervisorv1.AgentInfo{ProtocolVersion: 1, Capabilities: &supervisorv1.AgentCapabilities{LoadSession: true}}}
}

func (s *supervisor) ListAgents(ctx context.Context, req *supervisorv1.ListAgentsRequest) (*supervisorv1.ListAgentsResponse, error) {
	s.note(ctx, req)
	return &supervisorv1.ListAgentsResponse{Agents: []*supervisorv1.Agent{demo()}}, nil
}

func (s *supervisor) GetAgent(ctx context.Context, req *supervisorv1.GetAgentRequest) (*supervisorv1.GetAgentResponse, error) {
	s.note(ctx, req)
	if req.GetAgentId() != "a1" {
		return nil, status.Error(codes.NotFound, "agent not found")
	}
	return &supervisorv1.GetAgentResponse{Agent: demo()}, nil
}

func (s *supervisor) StartAgent(ctx context.Context, req *supervisorv1.StartAgentRequest) (*supervisorv1.StartAgentResponse, error) {
	s.note(ctx, req)
	return &supervisorv1.StartAgentResponse{Agent: demo(), Reused: true}, nil
}

func (s *supervisor) StopAgent(ctx context.Context, req *supervisorv1.StopAgentRequest) (*supervisorv1.StopAgentResponse, error) {
	s.note(ctx, req)
	return &supervisorv1.StopAgentResponse{Agent: demo()}, nil
}

func (s *supervisor) Authenticate(req *supervisorv1.AuthenticateRequest, stream grpc.ServerStreamingServer[supervisorv1.AuthenticateResponse]) error {
	s.note(stream.Context(), req)
	if req.GetMethodId() == "key" {
		return stream.Send(&supervisorv1.AuthenticateResponse{Step: &supervisorv1.AuthenticateResponse_Done{Done: &supervisorv1.Authenticated{MethodId: "key"}}})
	}
	id := "q1"
	if req.GetMethodId() == "older" { // its page is in the answer to authenticate, and needs no answer
		id = ""
	}
	err := stream.Send(&supervisorv1.AuthenticateResponse{Step: &supervisorv1.AuthenticateResponse_Question{Question: &supervisorv1.Approval{
		Id: id, Elicitation: &supervisorv1.Elicitation{Mode: "url", Url: s.url, Message: "Please log in."},
	}}})
	if err != nil {
		return err
	}
	select {
	case <-s.finish:
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
	return stream.Send(&supervisorv1.AuthenticateResponse{Step: &supervisorv1.AuthenticateResponse_Done{Done: &supervisorv1.Authenticated{MethodId: "browser"}}})
}

func session() *supervisorv1.Session {
	return &supervisorv1.Session{SessionId: "s 1/x", AgentId: "a1"}
}

func (s *supervisor) ListSessions(ctx context.Context, req *supervisorv1.ListSessionsRequest) (*supervisorv1.ListSessionsResponse, error) {
	s.note(ctx, req)
	return &supervisorv1.ListSessionsResponse{Sessions: []*supervisorv1.Session{session()}}, nil
}

func (s *supervisor) GetSession(ctx context.Context, req *supervisorv1.GetSessionRequest) (*supervisorv1.GetSessionResponse, error) {
	s.note(ctx, req)
	return &supervisorv1.GetSessionResponse{Session: session()}, nil
}

func (s *supervisor) NewSession(ctx context.Context, req *supervisorv1.NewSessionRequest) (*supervisorv1.NewSessionResponse, error) {
	s.note(ctx, req)
	if req.GetAgentId() == "locked" {
		st, err := status.New(codes.FailedPrecondition, "log in first").WithDetails(&supervisorv1.AgentError{Kind: supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED, Code: -32000})
		if err != nil {
			return nil, err
		}
		return nil, st.Err()
	}
	return &supervisorv1.NewSessionResponse{Session: session()}, nil
}

func (s *supervisor) Prompt(req *supervisorv1.PromptRequest, stream grpc.ServerStreamingServer[supervisorv1.PromptResponse]) error {
	s.note(stream.Context(), req)
	if req.GetSessionId() == "busy" {
		return status.Error(codes.FailedPrecondition, "a turn is in progress")
	}
	if err := stream.Send(&supervisorv1.PromptResponse{Event: &supervisorv1.Event{Cursor: "c1", Event: &supervisorv1.Event_TurnStarted{TurnStarted: &supervisorv1.TurnStarted{}}}}); err != nil {
		return err
	}
	<-stream.Context().Done() // the gateway does not wait for the turn
	return nil
}

func (s *supervisor) CancelPrompt(ctx context.Context, req *supervisorv1.CancelPromptRequest) (*supervisorv1.CancelPromptResponse, error) {
	s.note(ctx, req)
	return &supervisorv1.CancelPromptResponse{TurnActive: true}, nil
}

func (s *supervisor) SetMode(ctx context.Context, req *supervisorv1.SetModeRequest) (*supervisorv1.SetModeResponse, error) {
	s.note(ctx, req)
	return &supervisorv1.SetModeResponse{Session: session()}, nil
}

func question() *supervisorv1.Approval {
	return &supervisorv1.Approval{Id: "q1", Permission: &supervisorv1.PermissionQuestion{Title: "Edit\u2028a", Options: []*supervisorv1.PermissionOption{{OptionId: "yes"}},
		Content: []*supervisorv1.ToolCallContent{{Item: &supervisorv1.ToolCallContent_Diff{Diff: &supervisorv1.Diff{Path: "/a", NewText: "b\nc"}}}}}}
}

func (s *supervisor) ListApprovals(ctx context.Context, req *supervisorv1.ListApprovalsRequest) (*supervisorv1.ListApprovalsResponse, error) {
	s.note(ctx, req)
	return &supervisorv1.ListApprovalsResponse{Approvals: []*supervisorv1.Approval{question()}}, nil
}

func (s *supervisor) AnswerApproval(ctx context.Context, req *supervisorv1.AnswerApprovalRequest) (*supervisorv1.AnswerApprovalResponse, error) {
	s.note(ctx, req)
	return &supervisorv1.AnswerApprovalResponse{Answer: &supervisorv1.ApprovalAnswer{Id: req.GetId(), Outcome: "allowed"}}, nil
}

func (s *supervisor) WatchSession(req *supervisorv1.WatchSessionRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchSessionResponse]) error {
	if req.GetSessionId() == "none" {
		return status.Error(codes.NotFound, "session not found")
	}
	return s.tell(stream.Context(), req.GetCursor(), func(e *supervisorv1.Event) error { return stream.Send(&supervisorv1.WatchSessionResponse{Event: e}) })
}

func (s *supervisor) WatchEvents(req *supervisorv1.WatchEventsRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchEventsResponse]) error {
	return s.tell(stream.Context(), req.GetCursor(), func(e *supervisorv1.Event) error { return stream.Send(&supervisorv1.WatchEventsResponse{Event: e}) })
}

func (s *supervisor) tell(ctx context.Context, cursor string, send func(*supervisorv1.Event) error) error {
	s.from <- cursor
	for {
		select {
		case e := <-s.events:
			if err := send(e); err != nil {
				return err
			}
			if s.lag.CompareAndSwap(true, false) {
				return status.Error(codes.ResourceExhausted, "too slow")
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
