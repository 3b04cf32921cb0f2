package main

import (
	"context"

	acp "github.com/coder/acp-go-sdk"
)

// proxy is a proxy between a front and an agent, with coder/acp-go-sdk on both sides. As the agent's client it reads
// files itself; it forwards updates and turns, decoded and encoded again.
type proxy struct {
	agent *acp.ClientSideConnection
	front *acp.AgentSideConnection
	ready chan struct{}
}

// The client's side: what the agent asks.

func (p *proxy) ReadTextFile(ctx context.Context, r acp.ReadTextFileRequest) (acp.ReadTextFileResponse, error) {
	return readFile(ctx, r)
}

func (p *proxy) SessionUpdate(ctx context.Context, n acp.SessionNotification) error {
	<-p.ready
	return p.front.SessionUpdate(ctx, n)
}

func (p *proxy) WriteTextFile(context.Context, acp.WriteTextFileRequest) (acp.WriteTextFileResponse, error) {
	return acp.WriteTextFileResponse{}, acp.NewMethodNotFound("fs/write_text_file")
}

func (p *proxy) RequestPermission(context.Context, acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	return acp.RequestPermissionResponse{}, acp.NewMethodNotFound("session/request_permission")
}

func (p *proxy) CreateTerminal(context.Context, acp.CreateTerminalRequest) (acp.CreateTerminalResponse, error) {
	return acp.CreateTerminalResponse{}, acp.NewMethodNotFound("terminal/create")
}

func (p *proxy) KillTerminal(context.Context, acp.KillTerminalRequest) (acp.KillTerminalResponse, error) {
	return acp.KillTerminalResponse{}, acp.NewMethodNotFound("terminal/kill")
}

func (p *proxy) TerminalOutput(context.Context, acp.TerminalOutputRequest) (acp.TerminalOutputResponse, error) {
	return acp.TerminalOutputResponse{}, acp.NewMethodNotFound("terminal/output")
}

func (p *proxy) ReleaseTerminal(context.Context, acp.ReleaseTerminalRequest) (acp.ReleaseTerminalResponse, error) {
	return acp.ReleaseTerminalResponse{}, acp.NewMethodNotFound("terminal/release")
}

func (p *proxy) WaitForTerminalExit(context.Context, acp.WaitForTerminalExitRequest) (acp.WaitForTerminalExitResponse, error) {
	return acp.WaitForTerminalExitResponse{}, acp.NewMethodNotFound("terminal/wait_for_exit")
}

// The agent's side: what the front asks. The two interfaces share no method.

func (p *proxy) Initialize(ctx context.Context, r acp.InitializeRequest) (acp.InitializeResponse, error) {
	return p.agent.Initialize(ctx, r)
}

func (p *proxy) NewSession(ctx context.Context, r acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	return p.agent.NewSession(ctx, r)
}

func (p *proxy) Prompt(ctx context.Context, r acp.PromptRequest) (acp.PromptResponse, error) {
	return p.agent.Prompt(ctx, r)
}

func (p *proxy) Authenticate(ctx context.Context, r acp.AuthenticateRequest) (acp.AuthenticateResponse, error) {
	return p.agent.Authenticate(ctx, r)
}

func (p *proxy) Cancel(ctx context.Context, r acp.CancelNotification) error {
	return p.agent.Cancel(ctx, r)
}

func (p *proxy) CloseSession(ctx context.Context, r acp.CloseSessionRequest) (acp.CloseSessionResponse, error) {
	return p.agent.CloseSession(ctx, r)
}

func (p *proxy) ListSessions(ctx context.Context, r acp.ListSessionsRequest) (acp.ListSessionsResponse, error) {
	return p.agent.ListSessions(ctx, r)
}

func (p *proxy) ResumeSession(ctx context.Context, r acp.ResumeSessionRequest) (acp.ResumeSessionResponse, error) {
	return p.agent.ResumeSession(ctx, r)
}

func (p *proxy) SetSessionConfigOption(ctx context.Context, r acp.SetSessionConfigOptionRequest) (acp.SetSessionConfigOptionResponse, error) {
	return p.agent.SetSessionConfigOption(ctx, r)
}

func (p *proxy) SetSessionMode(ctx context.Context, r acp.SetSessionModeRequest) (acp.SetSessionModeResponse, error) {
	return p.agent.SetSessionMode(ctx, r)
}
