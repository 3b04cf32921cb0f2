package admin

import (
	"context"

	"google.golang.org/grpc"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Agents starts, stops and shows agents. Its methods are called concurrently, with requests that keep to the contract,
// and for callers that may; they end early when their context does. Errors are those of package fault.
type Agents interface {
	// StartAgent starts an agent, or finds the one that runs already.
	StartAgent(ctx context.Context, req *supervisorv1.StartAgentRequest) (*supervisorv1.StartAgentResponse, error)
	// StopAgent ends an agent. An agent is named by its id, or by its name where only one has it, here and below.
	StopAgent(ctx context.Context, req *supervisorv1.StopAgentRequest) (*supervisorv1.StopAgentResponse, error)
	// RestartAgent stops an agent and starts it again.
	RestartAgent(ctx context.Context, req *supervisorv1.RestartAgentRequest) (*supervisorv1.RestartAgentResponse, error)
	// ListAgents are the agents, oldest first. It answers at once.
	ListAgents(ctx context.Context, req *supervisorv1.ListAgentsRequest) (*supervisorv1.ListAgentsResponse, error)
	// GetAgent is one agent. It answers at once.
	GetAgent(ctx context.Context, req *supervisorv1.GetAgentRequest) (*supervisorv1.GetAgentResponse, error)
	// Authenticate logs an agent in; send gets each step, the last one is done. An error of send is returned as it is.
	Authenticate(ctx context.Context, req *supervisorv1.AuthenticateRequest, send func(*supervisorv1.AuthenticateResponse) error) error
	// Logout logs an agent out.
	Logout(ctx context.Context, req *supervisorv1.LogoutRequest) (*supervisorv1.LogoutResponse, error)
}

// agentService serves Agents.
type agentService struct {
	supervisorv1.UnsafeAgentServiceServer
	Agents
	approvals Approvals // nil: there are none
}

func (s *agentService) Authenticate(req *supervisorv1.AuthenticateRequest, stream grpc.ServerStreamingServer[supervisorv1.AuthenticateResponse]) error {
	return s.Agents.Authenticate(stream.Context(), req, func(step *supervisorv1.AuthenticateResponse) error {
		return stream.Send(stepWithID(step, s.approvals))
	})
}
