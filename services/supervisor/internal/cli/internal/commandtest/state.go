package commandtest

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
)

// State is the state of a supervisor, with an agent whose name would shift the columns of a table.
type State struct{}

func (State) Status() *supervisorv1.GetStatusResponse {
	return &supervisorv1.GetStatusResponse{
		Pid: 4711, Mode: "observe", StartTime: timestamppb.New(time.Unix(1000, 0)),
		Agent: &supervisorv1.AgentStatus{Name: "gem\tini", State: "running"},
	}
}

func (State) Handlers() []*supervisorv1.HandlerStatus                     { return nil }
func (State) Routes() []*supervisorv1.Route                               { return nil }
func (State) Sessions() []*supervisorv1.Session                           { return nil }
func (State) Terminals(context.Context) ([]*supervisorv1.Terminal, error) { return nil, nil }

// Grants implements admin.State.
func (State) Grants() []*supervisorv1.Grant { return nil }

// GetSession implements admin.State.
func (State) GetSession(_, sessionID string) (*supervisorv1.Session, error) {
	return nil, fault.New(fault.NotFound, "no session %q is open here", sessionID)
}

// WatchOutput implements admin.State.
func (State) WatchOutput(_ context.Context, id string, _ func(*supervisorv1.WatchOutputResponse) error) error {
	return fault.New(fault.NotFound, "no terminal %q is here", id)
}
