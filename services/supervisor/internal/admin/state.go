package admin

import (
	"context"
	"math"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/event"
)

// State is what there is to see of a supervisor. Its methods are called concurrently, with requests that keep to the contract,
// return messages that nobody changes any more, and, but for ListTerminals and WatchOutput, answer at once. Errors are those
// of package fault.
type State interface {
	// GetStatus is the supervisor as a whole, but for where it is served.
	GetStatus(ctx context.Context, req *supervisorv1.GetStatusRequest) (*supervisorv1.GetStatusResponse, error)
	// ListHandlers are the handlers, by name.
	ListHandlers(ctx context.Context, req *supervisorv1.ListHandlersRequest) (*supervisorv1.ListHandlersResponse, error)
	// ListRoutes are the routes, by method.
	ListRoutes(ctx context.Context, req *supervisorv1.ListRoutesRequest) (*supervisorv1.ListRoutesResponse, error)
	// ListSessions are the sessions, oldest first.
	ListSessions(ctx context.Context, req *supervisorv1.ListSessionsRequest) (*supervisorv1.ListSessionsResponse, error)
	// GetSession is one session. Its agent may be left out where only one agent has a session of that id.
	GetSession(ctx context.Context, req *supervisorv1.GetSessionRequest) (*supervisorv1.GetSessionResponse, error)
	// ListTerminals asks the terminal handler for its terminals, oldest first. An error with a gRPC status keeps its code,
	// any other is UNAVAILABLE.
	ListTerminals(ctx context.Context, req *supervisorv1.ListTerminalsRequest) (*supervisorv1.ListTerminalsResponse, error)
	// WatchOutput sends a terminal's output up to its end, which comes last, or until ctx ends. An error of send is
	// returned as it is; others may have a gRPC status.
	WatchOutput(ctx context.Context, terminalID string, send func(*supervisorv1.WatchOutputResponse) error) error
	// ListGrants are the remembered answers in force, oldest first.
	ListGrants(ctx context.Context, req *supervisorv1.ListGrantsRequest) (*supervisorv1.ListGrantsResponse, error)
}

// stateService serves a State and Events.
type stateService struct {
	supervisorv1.UnsafeSupervisorStateServiceServer
	State
	events    Events    // nil: they cannot be watched
	approvals Approvals // nil: there are none
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
	if limit := req.GetMaxBatch(); limit > 0 {
		var b batch
		return s.events.WatchBatches(stream.Context(), req.GetCursor(), int(min(limit, math.MaxInt32)), func(events []*event.Shared) error {
			response, err := b.response(events, shown)
			if err != nil {
				return status.Errorf(codes.Internal, "encode an event: %v", err)
			}
			return stream.Send(response)
		})
	}
	return s.events.WatchEvents(stream.Context(), req.GetCursor(), func(e *supervisorv1.Event) error {
		return stream.Send(&supervisorv1.WatchEventsResponse{Event: shown(e)})
	})
}

func (s *stateService) ListFiles(ctx context.Context, req *supervisorv1.ListFilesRequest) (*supervisorv1.ListFilesResponse, error) {
	if s.events == nil {
		return nil, status.Error(codes.Unimplemented, "files cannot be listed here")
	}
	return s.events.ListFiles(ctx, req)
}

func (s *stateService) WatchFiles(req *supervisorv1.WatchFilesRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchFilesResponse]) error {
	if s.events == nil {
		return status.Error(codes.Unimplemented, "files cannot be watched here")
	}
	return s.events.WatchFiles(stream.Context(), req, stream.Send)
}

// batch is a response of WatchEvents that is made of events as they are encoded for all callers.
type batch struct{ wire []byte }

// eventsField is the number of WatchEventsResponse.events.
const eventsField = 2

// response is valid until the next call: gRPC has copied it when it is sent.
func (b *batch) response(events []*event.Shared, shown func(*supervisorv1.Event) *supervisorv1.Event) (*supervisorv1.WatchEventsResponse, error) {
	if cap(b.wire) > 1<<20 { // an event was very large
		b.wire = nil
	}
	b.wire = b.wire[:0]
	for _, e := range events {
		var wire []byte
		var err error
		if own := shown(e.Event); own != e.Event {
			wire, err = proto.Marshal(own)
		} else {
			wire, err = e.Wire()
		}
		if err != nil {
			return nil, err
		}
		b.wire = protowire.AppendTag(b.wire, eventsField, protowire.BytesType)
		b.wire = protowire.AppendBytes(b.wire, wire)
	}
	// Fields that a message does not know are written as they are: so these are not decoded and encoded again.
	response := &supervisorv1.WatchEventsResponse{}
	response.ProtoReflect().SetUnknown(b.wire)
	return response, nil
}

func (s *stateService) WatchOutput(req *supervisorv1.WatchOutputRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchOutputResponse]) error {
	return s.State.WatchOutput(stream.Context(), req.GetTerminalId(), stream.Send)
}
