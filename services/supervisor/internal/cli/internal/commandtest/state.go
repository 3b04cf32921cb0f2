package commandtest

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
)

// State is the state of a fake supervisor, with an agent whose name would break the columns of a table. It has nothing
// else.
type State struct{ admin.State }

// GetStatus implements admin.State.
func (State) GetStatus(context.Context, *supervisorv1.GetStatusRequest) (*supervisorv1.GetStatusResponse, error) {
	return &supervisorv1.GetStatusResponse{
		Pid: 4711, Mode: "observe", StartTime: timestamppb.New(time.Unix(1000, 0)),
		Agent: &supervisorv1.AgentStatus{Name: "gem\tini", State: "running"},
	}, nil
}

// GetSession implements admin.State.
func (State) GetSession(_ context.Context, req *supervisorv1.GetSessionRequest) (*supervisorv1.GetSessionResponse, error) {
	return nil, fault.New(fault.NotFound, "no session %q is open here", req.GetSessionId())
}

// WatchOutput implements admin.State.
func (State) WatchOutput(_ context.Context, id string, _ func(*supervisorv1.WatchOutputResponse) error) error {
	return fault.New(fault.NotFound, "no terminal %q is here", id)
}
