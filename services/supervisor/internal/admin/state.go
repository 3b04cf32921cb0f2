package admin

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// stateService answers from a State.
type stateService struct {
	supervisorv1.UnimplementedSupervisorStateServiceServer
	state State
}

func (s *stateService) GetStatus(context.Context, *supervisorv1.GetStatusRequest) (*supervisorv1.GetStatusResponse, error) {
	return s.state.Status(), nil
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
	if err != nil {
		if st, ok := status.FromError(err); ok {
			return nil, st.Err()
		}
		return nil, status.Errorf(codes.Unavailable, "ask the terminal handler: %v", err)
	}
	return &supervisorv1.ListTerminalsResponse{Terminals: terminals}, nil
}

func (s *stateService) ListGrants(context.Context, *supervisorv1.ListGrantsRequest) (*supervisorv1.ListGrantsResponse, error) {
	return &supervisorv1.ListGrantsResponse{Grants: s.state.Grants()}, nil
}
