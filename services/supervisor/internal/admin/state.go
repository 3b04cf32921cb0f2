package admin

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// State is what there is to see of a supervisor. Its methods are called concurrently, return messages that nobody
// changes any more, and, but for Terminals and WatchOutput, answer at once.
type State interface {
	// Status is the supervisor as a whole, but for where it is served.
	Status() *supervisorv1.GetStatusResponse
	// Handlers are the handlers, by name.
	Handlers() []*supervisorv1.HandlerStatus
	// Routes are the routes, by method.
	Routes() []*supervisorv1.Route
	// Sessions are the sessions, oldest first.
	Sessions() []*supervisorv1.Session
	// GetSession is one session. agentID may be empty where only one agent has a session of that id. Errors are those of
	// package fault.
	GetSession(agentID, sessionID string) (*supervisorv1.Session, error)
	// Terminals asks the terminal handler for its terminals, oldest first. An error with a gRPC status keeps its code,
	// any other is UNAVAILABLE.
	Terminals(ctx context.Context) ([]*supervisorv1.Terminal, error)
	// WatchOutput sends a terminal's output up to its end, which comes last, or until ctx ends. An error of send is
	// returned as it is; others are those of package fault, or have a gRPC status.
	WatchOutput(ctx context.Context, terminalID string, send func(*supervisorv1.WatchOutputResponse) error) error
	// Grants are the remembered answers in force, oldest first.
	Grants() []*supervisorv1.Grant
}

// stateService answers from a State and tells Events.
type stateService struct {
	supervisorv1.UnimplementedSupervisorStateServiceServer
	state     State
	events    Events    // nil: they cannot be watched
	approvals Approvals // nil: there are none
	server    *Server
}

func (s *stateService) GetStatus(context.Context, *supervisorv1.GetStatusRequest) (*supervisorv1.GetStatusResponse, error) {
	status := proto.CloneOf(s.state.Status())
	status.AdminSocket, status.AdminAddress = s.server.Path(), s.server.Address()
	if status.GetAdminSocket() != "" {
		status.ControlSocket, status.ControlOff = s.server.Control()
	}
	return status, nil
}

func (s *stateService) ListHandlers(context.Context, *supervisorv1.ListHandlersRequest) (*supervisorv1.ListHandlersResponse, error) {
	return &supervisorv1.ListHandlersResponse{Handlers: s.state.Handlers()}, nil
}

func (s *stateService) ListRoutes(context.Context, *supervisorv1.ListRoutesRequest) (*supervisorv1.ListRoutesResponse, error) {
	return &supervisorv1.ListRoutesResponse{Routes: s.state.Routes()}, nil
}

func (s *stateService) ListSessions(context.Context, *supervisorv1.ListSessionsRequest) (*supervisorv1.ListSessionsResponse, error) {
	return &supervisorv1.ListSessionsResponse{Sessions: s.state.Sessions()}, nil
}

func (s *stateService) ListTerminals(ctx context.Context, _ *supervisorv1.ListTerminalsRequest) (*supervisorv1.ListTerminalsResponse, error) {
	terminals, err := s.state.Terminals(ctx)
	if _, ok := status.FromError(err); !ok {
		return nil, status.Errorf(codes.Unavailable, "ask the terminal handler: %v", err)
	}
	return &supervisorv1.ListTerminalsResponse{Terminals: terminals}, err
}

func (s *stateService) ListGrants(context.Context, *supervisorv1.ListGrantsRequest) (*supervisorv1.ListGrantsResponse, error) {
	return &supervisorv1.ListGrantsResponse{Grants: s.state.Grants()}, nil
}

func (s *stateService) GetSession(_ context.Context, req *supervisorv1.GetSessionRequest) (*supervisorv1.GetSessionResponse, error) {
	session, err := s.state.GetSession(req.GetAgentId(), req.GetSessionId())
	return &supervisorv1.GetSessionResponse{Session: session}, err
}

func (s *stateService) WatchEvents(req *supervisorv1.WatchEventsRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchEventsResponse]) error {
	if s.events == nil {
		return status.Error(codes.Unimplemented, "events cannot be watched here")
	}
	shown := withIDs(stream.Context(), s.approvals)
	return s.events.WatchEvents(stream.Context(), req.GetCursor(), func(e *supervisorv1.Event) error {
		return stream.Send(&supervisorv1.WatchEventsResponse{Event: shown(e)})
	})
}

func (s *stateService) WatchOutput(req *supervisorv1.WatchOutputRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchOutputResponse]) error {
	return s.state.WatchOutput(stream.Context(), req.GetTerminalId(), stream.Send)
}
