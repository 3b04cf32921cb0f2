package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/coder/acp-go-sdk"
)

// session is what the agent keeps of an ACP session.
type session struct {
	id  acp.SessionId
	cwd string
}

// agent answers what a client asks. Safe for concurrent use, as the SDK calls it.
type agent struct {
	faults faults
	ready  chan struct{} // closed when conn is set: the connection reads before its maker has it
	conn   *acp.AgentSideConnection

	mu       sync.Mutex
	sessions map[acp.SessionId]session
}

var _ acp.Agent = (*agent)(nil)

// Initialize implements acp.Agent.
func (a *agent) Initialize(ctx context.Context, _ acp.InitializeRequest) (acp.InitializeResponse, error) {
	if a.faults.hangInitialize {
		<-ctx.Done()
		return acp.InitializeResponse{}, ctx.Err()
	}
	if a.faults.exitInitialize >= 0 {
		fmt.Fprintln(os.Stderr, "demoagent: exiting, as told")
		os.Exit(a.faults.exitInitialize)
	}
	return acp.InitializeResponse{
		ProtocolVersion: acp.ProtocolVersionNumber,
		AgentInfo:       &acp.Implementation{Name: "demoagent", Title: acp.Ptr("Demo agent"), Version: "1.0.0"},
		AuthMethods:     []acp.AuthMethod{},
	}, nil
}

// NewSession implements acp.Agent.
func (a *agent) NewSession(_ context.Context, p acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	s := session{id: acp.SessionId("demo-" + rand.Text()), cwd: p.Cwd}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sessions[s.id] = s
	return acp.NewSessionResponse{SessionId: s.id}, nil
}

// Prompt implements acp.Agent: it plays the command that the prompt names, or the demo's turn.
func (a *agent) Prompt(ctx context.Context, p acp.PromptRequest) (acp.PromptResponse, error) {
	<-a.ready
	a.mu.Lock()
	s, ok := a.sessions[p.SessionId]
	a.mu.Unlock()
	if !ok {
		return acp.PromptResponse{}, acp.NewInvalidParams(map[string]any{"sessionId": p.SessionId})
	}
	t := &turn{conn: a.conn, session: s}
	err := t.play(ctx, promptText(p.Prompt))
	if ctx.Err() != nil {
		return acp.PromptResponse{StopReason: acp.StopReasonCancelled}, nil //nolint:nilerr // a cancelled turn is no error
	}
	if err != nil {
		var refused *acp.RequestError
		if errors.As(err, &refused) {
			return acp.PromptResponse{}, refused
		}
		return acp.PromptResponse{}, acp.NewInternalError(map[string]any{"error": err.Error()})
	}
	return acp.PromptResponse{StopReason: acp.StopReasonEndTurn}, nil
}

// Cancel implements acp.Agent. The SDK ends the context of the session's Prompt by itself.
func (a *agent) Cancel(context.Context, acp.CancelNotification) error { return nil }

// SetSessionMode implements acp.Agent: there are no modes.
func (a *agent) SetSessionMode(context.Context, acp.SetSessionModeRequest) (acp.SetSessionModeResponse, error) {
	return acp.SetSessionModeResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionSetMode)
}

// SetSessionConfigOption implements acp.Agent: there are no options.
func (a *agent) SetSessionConfigOption(context.Context, acp.SetSessionConfigOptionRequest) (acp.SetSessionConfigOptionResponse, error) {
	return acp.SetSessionConfigOptionResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionSetConfigOption)
}

// Authenticate implements acp.Agent: nobody has to.
func (a *agent) Authenticate(context.Context, acp.AuthenticateRequest) (acp.AuthenticateResponse, error) {
	return acp.AuthenticateResponse{}, nil
}

// ListSessions implements acp.Agent: sessions are not kept.
func (a *agent) ListSessions(context.Context, acp.ListSessionsRequest) (acp.ListSessionsResponse, error) {
	return acp.ListSessionsResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionList)
}

// ResumeSession implements acp.Agent: sessions are not kept.
func (a *agent) ResumeSession(context.Context, acp.ResumeSessionRequest) (acp.ResumeSessionResponse, error) {
	return acp.ResumeSessionResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionResume)
}

// CloseSession implements acp.Agent.
func (a *agent) CloseSession(_ context.Context, p acp.CloseSessionRequest) (acp.CloseSessionResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.sessions, p.SessionId)
	return acp.CloseSessionResponse{}, nil
}

func promptText(blocks []acp.ContentBlock) string {
	var text strings.Builder
	for _, b := range blocks {
		if b.Text != nil {
			text.WriteString(b.Text.Text)
		}
	}
	return text.String()
}
