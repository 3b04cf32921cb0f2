package main

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// shown is the state of a supervisor, with an agent whose name would shift the columns of a table.
type shown struct{}

func (shown) Status() *supervisorv1.GetStatusResponse {
	return &supervisorv1.GetStatusResponse{
		Pid: 4711, Mode: "observe", StartTime: timestamppb.New(time.Unix(1000, 0)),
		Agent: &supervisorv1.AgentStatus{Name: "gem\tini", State: "running"},
	}
}

func (shown) Handlers() []*supervisorv1.HandlerStatus                     { return nil }
func (shown) Routes() []*supervisorv1.Route                               { return nil }
func (shown) Sessions() []*supervisorv1.Session                           { return nil }
func (shown) Terminals(context.Context) ([]*supervisorv1.Terminal, error) { return nil, nil }
