package admin

import (
	"context"

	"google.golang.org/grpc"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Agents starts, stops and lists agents. Its methods are called concurrently, with validated requests of authorized
// callers; they end early when their context ends. Errors are those of package fault.
type Agents interface {
	// StartAgent starts an agent, or returns the one that is running already.
	StartAgent(ctx context.Context, req *supervisorv1.StartAgentRequest) (*supervisorv1.StartAgentResponse, error)
	// StopAgent ends an agent. Here and below, an agent is named by its id, or by its name if the name is unique.
	StopAgent(ctx context.Context, req *supervisorv1.StopAgentRequest) (*supervisorv1.StopAgentResponse, error)
	// RestartAgent stops an agent and starts it again.
	RestartAgent(ctx context.Context, req *supervisorv1.RestartAgentRequest) (*supervisorv1.RestartAgentResponse, error)
	// ListAgents returns the agents, oldest first. It does not block.
	ListAgents(ctx context.Context, req *supervisorv1.ListAgentsRequest) (*supervisorv1.ListAgentsResponse, error)
	// GetAgent returns one agent. It does not block.
	GetAgent(ctx context.Context, req *supervisorv1.GetAgentRequest) (*supervisorv1.GetAgentResponse, error)
	// Authenticate logs an agent in. It calls send with each step; the last step is done. It returns an error of send
	// unchanged.
	Authenticate(ctx context.Context, req *supervisorv1.AuthenticateRequest, send func(*supervisorv1.AuthenticateResponse) error) error
	// Logout logs an agent out.
	Logout(ctx context.Context, req *supervisorv1.LogoutRequest) (*supervisorv1.LogoutResponse, error)
}

// agentService serves Agents.
type agentService struct {
	supervisorv1.UnsafeAgentServiceServer
	Agents
	approvals Approvals // nil: no approvals
}

func (s *agentService) Authenticate(req *supervisorv1.AuthenticateRequest, stream grpc.ServerStreamingServer[supervisorv1.AuthenticateResponse]) error {
	return s.Agents.Authenticate(stream.Context(), req, func(step *supervisorv1.AuthenticateResponse) error {
		return stream.Send(stepWithID(step, s.approvals))
	})
}
