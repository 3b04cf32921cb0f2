package host

import (
	"context"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/event"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// editorsAgent is the one agent of a supervisor that an editor started: it is there to be seen, and is the editor's.
type editorsAgent struct{ host *host }

var _ admin.Agents = editorsAgent{}

func editors(what string) error {
	return fault.New(fault.Precondition, "%s: this supervisor and its agent belong to the editor that started it: use one of your own (acphost serve)", what)
}

// StartAgent implements admin.Agents, as do the methods that follow.
func (editorsAgent) StartAgent(context.Context, *supervisorv1.StartAgentRequest) (*supervisorv1.StartAgentResponse, error) {
	return nil, editors("start an agent")
}

// StopAgent is the editor's to do.
func (editorsAgent) StopAgent(context.Context, string) (*supervisorv1.Agent, error) {
	return nil, editors("stop the agent")
}

// RestartAgent is the editor's to do.
func (editorsAgent) RestartAgent(context.Context, string) (*supervisorv1.Agent, error) {
	return nil, editors("restart the agent")
}

// ListAgents shows the agent.
func (e editorsAgent) ListAgents() []*supervisorv1.Agent {
	var all []*supervisorv1.Agent
	for _, j := range e.host.joints.list() {
		all = append(all, e.show(j))
	}
	return all
}

// GetAgent shows the agent.
func (e editorsAgent) GetAgent(agentID string) (*supervisorv1.Agent, error) {
	for _, j := range e.host.joints.list() {
		if j.identity.ID == agentID || j.identity.Name == agentID {
			return e.show(j), nil
		}
	}
	return nil, fault.New(fault.NotFound, "no agent %q is here: ListAgents shows the one that is", agentID)
}

// Authenticate is the editor's to do.
func (editorsAgent) Authenticate(context.Context, *supervisorv1.AuthenticateRequest, func(*supervisorv1.AuthenticateResponse) error) error {
	return editors("log in")
}

// Logout is the editor's to do.
func (editorsAgent) Logout(context.Context, string) error { return editors("log out") }

func (e editorsAgent) show(j *joint) *supervisorv1.Agent {
	st := j.status()
	a := &supervisorv1.Agent{
		Id:         j.identity.ID,
		Name:       j.identity.Name,
		Command:    j.command,
		Cwd:        j.dir,
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
	if raw := j.link.Reported().Raw; raw != nil {
		a.Info = event.ParseInfo(raw)
	}
	for _, s := range j.book.Snapshot() {
		a.SessionIds = append(a.SessionIds, s.GetSessionId())
	}
	return a
}

// editorsSessions are those of a supervisor that an editor started.
type editorsSessions struct{}

var _ admin.Sessions = editorsSessions{}

// NewSession is the editor's to do, as is all that follows.
func (editorsSessions) NewSession(context.Context, *supervisorv1.NewSessionRequest) (*supervisorv1.Session, error) {
	return nil, editors("open a session")
}

// LoadSession is the editor's to do.
func (editorsSessions) LoadSession(context.Context, *supervisorv1.LoadSessionRequest) (*supervisorv1.Session, error) {
	return nil, editors("load a session")
}

// ResumeSession is the editor's to do.
func (editorsSessions) ResumeSession(context.Context, *supervisorv1.ResumeSessionRequest) (*supervisorv1.Session, error) {
	return nil, editors("resume a session")
}

// ForkSession is the editor's to do.
func (editorsSessions) ForkSession(context.Context, *supervisorv1.ForkSessionRequest) (*supervisorv1.Session, error) {
	return nil, editors("fork a session")
}

// ListStoredSessions is the editor's to ask.
func (editorsSessions) ListStoredSessions(context.Context, *supervisorv1.ListStoredSessionsRequest) (*supervisorv1.ListStoredSessionsResponse, error) {
	return nil, editors("list the agent's sessions")
}

// CloseSession is the editor's to do.
func (editorsSessions) CloseSession(context.Context, *supervisorv1.CloseSessionRequest) (bool, error) {
	return false, editors("close a session")
}

// DeleteSession is the editor's to do.
func (editorsSessions) DeleteSession(context.Context, *supervisorv1.DeleteSessionRequest) error {
	return editors("delete a session")
}

// Prompt is the editor's to do.
func (editorsSessions) Prompt(context.Context, *supervisorv1.PromptRequest, func(*supervisorv1.Event) error) error {
	return editors("prompt")
}

// CancelPrompt is the editor's to do.
func (editorsSessions) CancelPrompt(context.Context, *supervisorv1.CancelPromptRequest) (bool, error) {
	return false, editors("cancel a turn")
}

// SetMode is the editor's to do.
func (editorsSessions) SetMode(context.Context, *supervisorv1.SetModeRequest) (*supervisorv1.Session, error) {
	return nil, editors("set the mode")
}

// SetModel is the editor's to do.
func (editorsSessions) SetModel(context.Context, *supervisorv1.SetModelRequest) (*supervisorv1.Session, error) {
	return nil, editors("set the model")
}

// SetConfigOption is the editor's to do.
func (editorsSessions) SetConfigOption(context.Context, *supervisorv1.SetConfigOptionRequest) (*supervisorv1.Session, error) {
	return nil, editors("set an option")
}
