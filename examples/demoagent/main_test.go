package main

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/acp-go-sdk"
)

// client is the other end: it answers from a map of files and from a terminal that has always ended.
type client struct {
	mu       sync.Mutex
	files    map[string]string
	option   acp.PermissionOptionId
	said     strings.Builder
	statuses []string // "TOOL CALL STATUS", in the order they came
	calls    []string // what the agent asked for
}

var _ acp.Client = (*client)(nil)

func (c *client) called(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, name)
}

func (c *client) ReadTextFile(_ context.Context, p acp.ReadTextFileRequest) (acp.ReadTextFileResponse, error) {
	c.called("read " + filepath.Base(p.Path))
	c.mu.Lock()
	defer c.mu.Unlock()
	text, ok := c.files[p.Path]
	if !ok {
		return acp.ReadTextFileResponse{}, &acp.RequestError{Code: -32602, Message: "Path escapes workspace: " + p.Path}
	}
	return acp.ReadTextFileResponse{Content: text}, nil
}

func (c *client) WriteTextFile(_ context.Context, p acp.WriteTextFileRequest) (acp.WriteTextFileResponse, error) {
	c.called("write " + filepath.Base(p.Path))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files[p.Path] = p.Content
	return acp.WriteTextFileResponse{}, nil
}

func (c *client) RequestPermission(context.Context, acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	c.called("ask")
	return acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeSelected(c.option)}, nil
}

func (c *client) SessionUpdate(_ context.Context, n acp.SessionNotification) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch u := n.Update; {
	case u.AgentMessageChunk != nil:
		c.said.WriteString(u.AgentMessageChunk.Content.Text.Text)
	case u.ToolCall != nil:
		c.statuses = append(c.statuses, string(u.ToolCall.ToolCallId)+" "+string(u.ToolCall.Status))
	case u.ToolCallUpdate != nil && u.ToolCallUpdate.Status != nil:
		c.statuses = append(c.statuses, string(u.ToolCallUpdate.ToolCallId)+" "+string(*u.ToolCallUpdate.Status))
	}
	return nil
}

func (c *client) CreateTerminal(_ context.Context, p acp.CreateTerminalRequest) (acp.CreateTerminalResponse, error) {
	c.called("terminal " + strings.Join(append([]string{p.Command}, p.Args...), " "))
	return acp.CreateTerminalResponse{TerminalId: "t1"}, nil
}

func (c *client) KillTerminal(context.Context, acp.KillTerminalRequest) (acp.KillTerminalResponse, error) {
	c.called("kill")
	return acp.KillTerminalResponse{}, nil
}

func (c *client) TerminalOutput(context.Context, acp.TerminalOutputRequest) (acp.TerminalOutputResponse, error) {
	c.called("output")
	return acp.TerminalOutputResponse{Output: "all is well\n"}, nil
}

func (c *client) ReleaseTerminal(context.Context, acp.ReleaseTerminalRequest) (acp.ReleaseTerminalResponse, error) {
	c.called("release")
	return acp.ReleaseTerminalResponse{}, nil
}

func (c *client) WaitForTerminalExit(context.Context, acp.WaitForTerminalExitRequest) (acp.WaitForTerminalExitResponse, error) {
	c.called("wait")
	return acp.WaitForTerminalExitResponse{ExitCode: acp.Ptr(0)}, nil
}

// prompt connects an agent to the client, and plays one turn in a session of the folder /w.
func (c *client) prompt(t *testing.T, text string) acp.StopReason {
	t.Helper()
	toAgent, fromClient := io.Pipe()
	toClient, fromAgent := io.Pipe()
	logger := slog.New(slog.DiscardHandler)
	agent := serve(toAgent, fromAgent, faults{exitInitialize: -1}, logger)
	conn := acp.NewClientSideConnection(c, fromClient, toClient)
	conn.SetLogger(logger)
	t.Cleanup(func() {
		_ = fromClient.Close()
		<-agent.Done()
		_ = fromAgent.Close()
		<-conn.Done()
	})
	if _, err := conn.Initialize(t.Context(), acp.InitializeRequest{ProtocolVersion: 1}); err != nil {
		t.Fatal(err)
	}
	session, err := conn.NewSession(t.Context(), acp.NewSessionRequest{Cwd: "/w", McpServers: []acp.McpServer{}})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := conn.Prompt(t.Context(), acp.PromptRequest{SessionId: session.SessionId, Prompt: []acp.ContentBlock{acp.TextBlock(text)}})
	if err != nil {
		t.Fatal(err)
	}
	return answer.StopReason
}

func TestTheDemoEditsAfterAskingChecksAndMeetsTheWall(t *testing.T) {
	c := &client{files: map[string]string{"/w/notes.md": "to recieve\n"}, option: "allow"}
	if got := c.prompt(t, "Fix the spelling."); got != acp.StopReasonEndTurn {
		t.Errorf("the turn ended with %q, want end_turn", got)
	}
	if got := c.files["/w/notes.md"]; got != "to receive\n" {
		t.Errorf("the file is %q", got)
	}
	want := []string{"read notes.md", "ask", "write notes.md", "terminal grep -n receive notes.md", "wait", "output", "release", "read diary.md"}
	if !slices.Equal(c.calls, want) {
		t.Errorf("the agent asked for\n%q, want\n%q", c.calls, want)
	}
	if last := c.statuses[len(c.statuses)-1]; last != "pry failed" {
		t.Errorf("the last tool call ended with %q, want it refused", last)
	}
}

func TestTheDemoLeavesTheFileAloneWhenItIsRefused(t *testing.T) {
	c := &client{files: map[string]string{"/w/notes.md": "to recieve\n"}, option: "reject"}
	if got := c.prompt(t, "Fix the spelling."); got != acp.StopReasonEndTurn {
		t.Errorf("the turn ended with %q, want end_turn", got)
	}
	if got := c.files["/w/notes.md"]; got != "to recieve\n" {
		t.Errorf("the file is %q", got)
	}
	if len(c.calls) != 2 {
		t.Errorf("the agent asked for %q, want it to stop after the answer", c.calls)
	}
}

func TestCommandsReportResultsAndErrors(t *testing.T) {
	for prompt, want := range map[string]string{
		"/read /w/a":     "read ok: text of a",
		"/read /w/none":  "read error -32602: Path escapes workspace: /w/none",
		"/write /w/b hi": "write ok: done",
		"/ask /w/a":      "ask ok: allow",
		"/run true":      "run ok: exit 0: all is well\n",
		"/flood 8 /w/a":  "flood ok: 8 reads, 72 bytes",
		"/echo hello":    "echo error -32601: Method not found",
	} {
		t.Run(prompt, func(t *testing.T) {
			c := &client{files: map[string]string{"/w/a": "text of a"}, option: "allow"}
			if got := c.prompt(t, prompt); got != acp.StopReasonEndTurn {
				t.Errorf("the turn ended with %q, want end_turn", got)
			}
			if got := c.said.String(); got != want {
				t.Errorf("the agent said %q, want %q", got, want)
			}
		})
	}
}
