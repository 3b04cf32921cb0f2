package main

import (
	"context"
	"encoding/json"

	"github.com/coder/acp-go-sdk"
)

// caller asks the client for what ACP lets an agent ask.
type caller struct{ *acp.Connection }

func (c caller) readTextFile(ctx context.Context, p acp.ReadTextFileRequest) (acp.ReadTextFileResponse, error) {
	return acp.SendRequest[acp.ReadTextFileResponse](c.Connection, ctx, acp.ClientMethodFsReadTextFile, p)
}

func (c caller) writeTextFile(ctx context.Context, p acp.WriteTextFileRequest) (acp.WriteTextFileResponse, error) {
	return acp.SendRequest[acp.WriteTextFileResponse](c.Connection, ctx, acp.ClientMethodFsWriteTextFile, p)
}

func (c caller) requestPermission(ctx context.Context, p acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	return acp.SendRequest[acp.RequestPermissionResponse](c.Connection, ctx, acp.ClientMethodSessionRequestPermission, p)
}

func (c caller) createTerminal(ctx context.Context, p acp.CreateTerminalRequest) (acp.CreateTerminalResponse, error) {
	return acp.SendRequest[acp.CreateTerminalResponse](c.Connection, ctx, acp.ClientMethodTerminalCreate, p)
}

func (c caller) terminalOutput(ctx context.Context, p acp.TerminalOutputRequest) (acp.TerminalOutputResponse, error) {
	return acp.SendRequest[acp.TerminalOutputResponse](c.Connection, ctx, acp.ClientMethodTerminalOutput, p)
}

func (c caller) waitForTerminalExit(ctx context.Context, p acp.WaitForTerminalExitRequest) (acp.WaitForTerminalExitResponse, error) {
	return acp.SendRequest[acp.WaitForTerminalExitResponse](c.Connection, ctx, acp.ClientMethodTerminalWaitForExit, p)
}

func (c caller) killTerminal(ctx context.Context, p acp.KillTerminalRequest) error {
	return c.SendRequestNoResult(ctx, acp.ClientMethodTerminalKill, p)
}

func (c caller) releaseTerminal(ctx context.Context, p acp.ReleaseTerminalRequest) error {
	return c.SendRequestNoResult(ctx, acp.ClientMethodTerminalRelease, p)
}

// elicitation is the answer to elicitation/create.
type elicitation struct {
	Action  string         `json:"action"`
	Content map[string]any `json:"content,omitempty"`
}

// createElicitation asks for it with params as they are written out: the library has no type for today's.
func (c caller) createElicitation(ctx context.Context, params map[string]any) (elicitation, error) {
	return acp.SendRequest[elicitation](c.Connection, ctx, acp.ClientMethodElicitationCreate, params)
}

func (c caller) completeElicitation(ctx context.Context, id string) error {
	return c.SendNotification(ctx, acp.ClientMethodElicitationComplete, map[string]any{"elicitationId": id})
}

func (c caller) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	return acp.SendRequest[json.RawMessage](c.Connection, ctx, method, params)
}
