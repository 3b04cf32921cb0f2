package admin

import (
	"context"
	"math"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
)

// State reads the state of a supervisor. Its methods are called concurrently, with validated requests. They return
// messages that do not change any more. All except ListTerminals, GetUsage and WatchOutput do not block. Errors are
// those of package fault.
type State interface {
	// GetStatus returns the supervisor's status, without the addresses that serve it.
	GetStatus(ctx context.Context, req *supervisorv1.GetStatusRequest) (*supervisorv1.GetStatusResponse, error)
	// ListHandlers returns the handlers, by name.
	ListHandlers(ctx context.Context, req *supervisorv1.ListHandlersRequest) (*supervisorv1.ListHandlersResponse, error)
	// ListRoutes returns the routes, by method.
	ListRoutes(ctx context.Context, req *supervisorv1.ListRoutesRequest) (*supervisorv1.ListRoutesResponse, error)
	// ListSessions returns the sessions, oldest first.
	ListSessions(ctx context.Context, req *supervisorv1.ListSessionsRequest) (*supervisorv1.ListSessionsResponse, error)
	// GetSession returns one session. The agent may be empty if the session id is unique.
	GetSession(ctx context.Context, req *supervisorv1.GetSessionRequest) (*supervisorv1.GetSessionResponse, error)
	// ListTerminals asks the terminal handler for its terminals, oldest first. An error with a gRPC status keeps its
	// code; any other is UNAVAILABLE.
	ListTerminals(ctx context.Context, req *supervisorv1.ListTerminalsRequest) (*supervisorv1.ListTerminalsResponse, error)
	// WatchOutput sends a terminal's output until its end, which is sent last, or until ctx ends. It returns an error
	// of send unchanged; other errors may have a gRPC status.
	WatchOutput(ctx context.Context, terminalID string, send func(*supervisorv1.WatchOutputResponse) error) error
	// GetUsage sums up the recorded usage of agents.
	GetUsage(ctx context.Context, req *supervisorv1.GetUsageRequest) (*supervisorv1.GetUsageResponse, error)
	// ListGrants returns the remembered answers in force, oldest first.
	ListGrants(ctx context.Context, req *supervisorv1.ListGrantsRequest) (*supervisorv1.ListGrantsResponse, error)
}

// Files reads which files agents work with. Its methods are called concurrently and return when their context ends, or
// when a send fails (with its error).
type Files interface {
	// ListFiles lists the files that agents work with.
	ListFiles(ctx context.Context, req *supervisorv1.ListFilesRequest) (*supervisorv1.ListFilesResponse, error)
	// WatchFiles sends all files that agents work with first, then changes.
	WatchFiles(ctx context.Context, req *supervisorv1.WatchFilesRequest, send func(*supervisorv1.WatchFilesResponse) error) error
}

// stateService serves a State, Events and Files.
type stateService struct {
	supervisorv1.UnsafeSupervisorStateServiceServer
	State
	events    Events    // nil: events cannot be watched
	files     Files     // nil: files are unknown
	approvals Approvals // nil: no approvals
	server    *Server
}

func (s *stateService) GetStatus(ctx context.Context, req *supervisorv1.GetStatusRequest) (*supervisorv1.GetStatusResponse, error) {
	status, err := s.State.GetStatus(ctx, req)
	if err != nil {
		return nil, err
	}
	status = proto.CloneOf(status)
	status.AdminSocket, status.AdminAddress = s.server.Path(), s.server.Address()
	if status.GetAdminSocket() != "" {
		status.ControlSocket, status.ControlOff = s.server.Control()
	}
	return status, nil
}

func (s *stateService) ListTerminals(ctx context.Context, req *supervisorv1.ListTerminalsRequest) (*supervisorv1.ListTerminalsResponse, error) {
	terminals, err := s.State.ListTerminals(ctx, req)
	if _, ok := status.FromError(err); !ok {
		return nil, status.Errorf(codes.Unavailable, "ask the terminal handler: %v", err)
	}
	return terminals, err
}

func (s *stateService) WatchEvents(req *supervisorv1.WatchEventsRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchEventsResponse]) error {
	if s.events == nil {
		return status.Error(codes.Unimplemented, "events cannot be watched here")
	}
	shown := withIDs(stream.Context(), s.approvals)
	limit := int(min(req.GetMaxBatch(), math.MaxInt32))
	return s.events.WatchEvents(stream.Context(), req.GetCursor(), limit, func(events []event.Encoded) error {
		pieces := make([][]byte, 0, 4)
		for _, e := range events {
			field := e.Field
			if own := shown(e.Event); own != e.Event || field == nil {
				var err error
				if field, err = event.Encode(own); err != nil {
					return status.Errorf(codes.Internal, "encode an event: %v", err)
				}
			}
			if limit > 0 {
				pieces = event.Join(pieces, field)
			} else if err := stream.SendMsg(encodedOf(event.Single(field)...)); err != nil {
				return err
			}
		}
		if limit == 0 {
			return nil
		}
		return stream.SendMsg(encodedOf(pieces...))
	})
}

func (s *stateService) ListFiles(ctx context.Context, req *supervisorv1.ListFilesRequest) (*supervisorv1.ListFilesResponse, error) {
	if s.files == nil {
		return nil, status.Error(codes.Unimplemented, "files cannot be listed here")
	}
	return s.files.ListFiles(ctx, req)
}

func (s *stateService) WatchFiles(req *supervisorv1.WatchFilesRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchFilesResponse]) error {
	if s.files == nil {
		return status.Error(codes.Unimplemented, "files cannot be watched here")
	}
	return s.files.WatchFiles(stream.Context(), req, stream.Send)
}

func (s *stateService) WatchOutput(req *supervisorv1.WatchOutputRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchOutputResponse]) error {
	return s.State.WatchOutput(stream.Context(), req.GetTerminalId(), stream.Send)
}
