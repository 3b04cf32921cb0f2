package host

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
)

// editorsOwn is the reason why programs cannot start agents or open sessions at a supervisor that an editor started.
const editorsOwn = "this supervisor and its agent belong to the editor that started it: use one of your own (acphost serve)"

// editorsAgent implements admin.Agents for a supervisor that an editor started: it returns the one agent.
type editorsAgent struct {
	admin.Agents // nil: admin rejects its other methods, since Options.ReadOnly is editorsOwn
	host         *host
}

// ListAgents returns the agent.
func (e editorsAgent) ListAgents(context.Context, *supervisorv1.ListAgentsRequest) (*supervisorv1.ListAgentsResponse, error) {
	r := &supervisorv1.ListAgentsResponse{}
	for _, la := range e.host.agents.list() {
		r.Agents = append(r.Agents, e.show(la))
	}
	return r, nil
}

// GetAgent returns the agent.
func (e editorsAgent) GetAgent(_ context.Context, r *supervisorv1.GetAgentRequest) (*supervisorv1.GetAgentResponse, error) {
	for _, la := range e.host.agents.list() {
		if id := r.GetAgentId(); la.identity.ID == id || la.identity.Name == id {
			return &supervisorv1.GetAgentResponse{Agent: e.show(la)}, nil
		}
	}
	return nil, fault.New(fault.NotFound, "no agent %q is here: ListAgents shows the one that is", r.GetAgentId())
}

func (e editorsAgent) show(la *linkedAgent) *supervisorv1.Agent {
	st := la.status()
	a := &supervisorv1.Agent{
		Id:         la.identity.ID,
		Name:       la.identity.Name,
		Command:    st.GetCommand(),
		Cwd:        la.dir,
		State:      supervisorv1.AgentState_AGENT_STATE_STARTING,
		Pid:        st.GetPid(),
		StartTime:  timestamppb.New(e.host.started),
		StderrTail: st.GetStderrTail(),
		Attended:   !e.host.opts.Unattended,
	}
	switch st.GetState() {
	case "running":
		a.State = supervisorv1.AgentState_AGENT_STATE_RUNNING
	case "exited":
		a.State = supervisorv1.AgentState_AGENT_STATE_STOPPED
	}
	if raw := la.Reported().Raw; raw != nil {
		a.Info = event.ParseInfo(raw)
	}
	for _, s := range la.table.Snapshot() {
		a.SessionIds = append(a.SessionIds, s.GetSessionId())
	}
	return a
}
