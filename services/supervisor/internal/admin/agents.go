package admin

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Agents starts, stops and shows agents. Its methods are called concurrently, with requests that keep to the contract,
// and for callers that may; they end early when their context does. Errors are those of package fault.
type Agents interface {
	// StartAgent starts an agent, or finds the one that runs already.
	StartAgent(ctx context.Context, req *supervisorv1.StartAgentRequest) (*supervisorv1.StartAgentResponse, error)
	// StopAgent ends an agent. An agent is named by its id, or by its name where only one has it, here and below.
	StopAgent(ctx context.Context, agentID string) (*supervisorv1.Agent, error)
	// RestartAgent stops an agent and starts it again.
	RestartAgent(ctx context.Context, agentID string) (*supervisorv1.Agent, error)
	// ListAgents are the agents, oldest first. It answers at once.
	ListAgents() []*supervisorv1.Agent
	// GetAgent is one agent. It answers at once.
	GetAgent(agentID string) (*supervisorv1.Agent, error)
	// Authenticate logs an agent in; send gets each step, the last one is done. An error of send is returned as it is.
	Authenticate(ctx context.Context, req *supervisorv1.AuthenticateRequest, send func(*supervisorv1.AuthenticateResponse) error) error
	// Logout logs an agent out.
	Logout(ctx context.Context, agentID string) error
}

// agentService checks requests and hands them to Agents.
type agentService struct {
	supervisorv1.UnimplementedAgentServiceServer
	agents Agents
}

func (s *agentService) StartAgent(ctx context.Context, req *supervisorv1.StartAgentRequest) (*supervisorv1.StartAgentResponse, error) {
	if err := checkStartAgent(req); err != nil {
		return nil, err
	}
	res, err := s.agents.StartAgent(ctx, req)
	return res, asStatus(err)
}

func checkStartAgent(req *supervisorv1.StartAgentRequest) error {
	command := req.GetCommand()
	switch {
	case (req.GetPreset() == "") == (len(command) == 0):
		return status.Error(codes.InvalidArgument, "preset, command: exactly one of them says what to run")
	case len(command) > 0 && command[0] == "":
		return status.Error(codes.InvalidArgument, "command: its first element, the program, is empty")
	case len(command) > 0 && len(req.GetArgs()) > 0:
		return status.Error(codes.InvalidArgument, "args: they are for a preset; a command has its own")
	}
	return first(
		short("preset", req.GetPreset(), maxName),
		argument("command", command...),
		argument("args", req.GetArgs()...),
		environment("env", req.GetEnv()),
		optional(absolute, "cwd", req.GetCwd()),
		word("name", req.GetName(), maxAgentName),
	)
}

func (s *agentService) StopAgent(ctx context.Context, req *supervisorv1.StopAgentRequest) (*supervisorv1.StopAgentResponse, error) {
	if err := first(agentNamed(req)); err != nil {
		return nil, err
	}
	agent, err := s.agents.StopAgent(ctx, req.GetAgentId())
	if err != nil {
		return nil, asStatus(err)
	}
	return &supervisorv1.StopAgentResponse{Agent: agent}, nil
}

func (s *agentService) RestartAgent(ctx context.Context, req *supervisorv1.RestartAgentRequest) (*supervisorv1.RestartAgentResponse, error) {
	if err := first(agentNamed(req)); err != nil {
		return nil, err
	}
	agent, err := s.agents.RestartAgent(ctx, req.GetAgentId())
	if err != nil {
		return nil, asStatus(err)
	}
	return &supervisorv1.RestartAgentResponse{Agent: agent}, nil
}

func (s *agentService) ListAgents(context.Context, *supervisorv1.ListAgentsRequest) (*supervisorv1.ListAgentsResponse, error) {
	return &supervisorv1.ListAgentsResponse{Agents: s.agents.ListAgents()}, nil
}

func (s *agentService) GetAgent(_ context.Context, req *supervisorv1.GetAgentRequest) (*supervisorv1.GetAgentResponse, error) {
	if err := first(agentNamed(req)); err != nil {
		return nil, err
	}
	agent, err := s.agents.GetAgent(req.GetAgentId())
	if err != nil {
		return nil, asStatus(err)
	}
	return &supervisorv1.GetAgentResponse{Agent: agent}, nil
}

func (s *agentService) Authenticate(req *supervisorv1.AuthenticateRequest, stream grpc.ServerStreamingServer[supervisorv1.AuthenticateResponse]) error {
	if err := first(agentNamed(req), short("method_id", req.GetMethodId(), maxID)); err != nil {
		return err
	}
	return asStatus(s.agents.Authenticate(stream.Context(), req, stream.Send))
}

func (s *agentService) Logout(ctx context.Context, req *supervisorv1.LogoutRequest) (*supervisorv1.LogoutResponse, error) {
	if err := first(agentNamed(req)); err != nil {
		return nil, err
	}
	if err := s.agents.Logout(ctx, req.GetAgentId()); err != nil {
		return nil, asStatus(err)
	}
	return &supervisorv1.LogoutResponse{}, nil
}
