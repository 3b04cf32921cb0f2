// Command demoagent is a scripted coding agent that speaks the Agent Client Protocol, built on coder/acp-go-sdk, so that
// the other end of acphost's wire is not acphost's own code. It plays one turn, whatever the prompt: it reads a file, asks
// before it edits it, runs a command to check the edit, and tries to read a file that is none of its business.
//
// It is a module of its own: nothing else of acphost depends on the SDK.
package main

import (
	"context"
	"fmt"
	"os"

	acp "github.com/coder/acp-go-sdk"
)

func main() {
	a := &agent{connected: make(chan struct{})}
	a.conn = acp.NewAgentSideConnection(a, os.Stdout, os.Stdin)
	close(a.connected)
	<-a.conn.Done()
}

// agent answers one client.
type agent struct {
	conn      *acp.AgentSideConnection
	connected chan struct{} // closed once conn is set
	cwd       string
}

// Initialize implements acp.Agent.
func (a *agent) Initialize(context.Context, acp.InitializeRequest) (acp.InitializeResponse, error) {
	return acp.InitializeResponse{
		ProtocolVersion: acp.ProtocolVersionNumber,
		AgentInfo:       &acp.Implementation{Name: "demoagent", Version: "1"},
	}, nil
}

// NewSession implements acp.Agent.
func (a *agent) NewSession(_ context.Context, r acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	a.cwd = r.Cwd
	return acp.NewSessionResponse{SessionId: "demo"}, nil
}

// Prompt implements acp.Agent.
func (a *agent) Prompt(ctx context.Context, r acp.PromptRequest) (acp.PromptResponse, error) {
	<-a.connected
	t := &turn{ctx: ctx, conn: a.conn, session: r.SessionId, cwd: a.cwd}
	if err := t.play(); err != nil {
		return acp.PromptResponse{}, fmt.Errorf("the turn failed: %w", err)
	}
	return acp.PromptResponse{StopReason: acp.StopReasonEndTurn}, nil
}

// Cancel implements acp.Agent; a turn is over in a moment.
func (a *agent) Cancel(context.Context, acp.CancelNotification) error { return nil }

// Authenticate implements acp.Agent.
func (a *agent) Authenticate(context.Context, acp.AuthenticateRequest) (acp.AuthenticateResponse, error) {
	return acp.AuthenticateResponse{}, nil
}

// CloseSession implements acp.Agent.
func (a *agent) CloseSession(context.Context, acp.CloseSessionRequest) (acp.CloseSessionResponse, error) {
	return acp.CloseSessionResponse{}, nil
}

// ListSessions implements acp.Agent.
func (a *agent) ListSessions(context.Context, acp.ListSessionsRequest) (acp.ListSessionsResponse, error) {
	return acp.ListSessionsResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionList)
}

// ResumeSession implements acp.Agent.
func (a *agent) ResumeSession(context.Context, acp.ResumeSessionRequest) (acp.ResumeSessionResponse, error) {
	return acp.ResumeSessionResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionResume)
}

// SetSessionConfigOption implements acp.Agent.
func (a *agent) SetSessionConfigOption(context.Context, acp.SetSessionConfigOptionRequest) (acp.SetSessionConfigOptionResponse, error) {
	return acp.SetSessionConfigOptionResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionSetConfigOption)
}

// SetSessionMode implements acp.Agent.
func (a *agent) SetSessionMode(context.Context, acp.SetSessionModeRequest) (acp.SetSessionModeResponse, error) {
	return acp.SetSessionModeResponse{}, nil
}
