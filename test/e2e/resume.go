package e2e

import (
	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Running waits until an agent runs that was started again n times.
func (s *Server) Running(id string, n uint32) *supervisorv1.Agent {
	s.T.Helper()
	var agent *supervisorv1.Agent
	if !testkit.Poll(func() bool {
		resp, err := s.Agents.GetAgent(s.Ctx, &supervisorv1.GetAgentRequest{AgentId: id})
		agent = resp.GetAgent()
		return err == nil && agent.GetState() == supervisorv1.AgentState_AGENT_STATE_RUNNING && agent.GetRestarts() == n
	}) {
		s.T.Fatalf("the agent is %v, want it running after %d restarts", agent, n)
	}
	return agent
}
