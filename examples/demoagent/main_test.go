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
	message  strings.Builder
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
		c.message.WriteString(u.AgentMessageChunk.Content.Text.Text)
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
	agent := serve(toAgent, fromAgent, behaviour{exitInitialize: -1}, logger)
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

func TestDemo_EditsRunsTestsAndIsDenied(t *testing.T) {
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

func TestDemo_RejectedEditLeavesFileUnchanged(t *testing.T) {
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

func TestTour_UsesCapabilitiesOfClient(t *testing.T) {
	for name, c := range map[string]struct {
		offer     string
		want, not []string
	}{
		"nothing": {`{}`, []string{"hologram", "weather_update", "agentMessageChunk"}, []string{`"notice"`, "compaction", "thorough", "elicitation/create"}},
		"all": {
			`{"terminal":true,"elicitation":{"form":{},"url":{}},"session":{"notices":{},"compaction":{},"configOptions":{"boolean":{}}}}`,
			[]string{`"notice"`, "compaction_summary_chunk", "thorough", `"mode":"form"`, `"mode":"url"`, "elicitation/complete", `"totalTokens":1500`}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			answer := rawTurn(t, behaviour{exitInitialize: -1}, c.offer, "tour")
			for _, want := range c.want {
				if !strings.Contains(answer, want) {
					t.Errorf("the agent does not send %s", want)
				}
			}
			for _, not := range c.not {
				if strings.Contains(answer, not) {
					t.Errorf("the agent sends %s", not)
				}
			}
			if strings.Contains(answer, "${") {
				t.Errorf("a place is not filled: %s", answer)
			}
		})
	}
}

func TestPrompt_ChoosesStopReason(t *testing.T) {
	for prompt, want := range map[string]string{
		"max_tokens": `"stopReason":"max_tokens"`, "refuse": `"stopReason":"refusal"`, "error -32000 later": `"code":-32000,"message":"later"`,
		"flood 3": "piece 2", "slow 2 1": "piece 1", "repeat after me": ": after me",
		"calls 2": `"toolCallId":"call-1"`, "blocks": "text  6 bytes ",
	} {
		t.Run(prompt, func(t *testing.T) {
			if answer := rawTurn(t, behaviour{exitInitialize: -1}, `{}`, prompt); !strings.Contains(answer, want) {
				t.Errorf("the agent sent %s, want %s in it", answer, want)
			}
		})
	}
}

func TestElicitation_RequiresCapabilityOfClient(t *testing.T) {
	const offer = `{"elicitation":{"form":{},"url":{}}}`
	for prompt, c := range map[string]struct{ offer, want string }{
		"elicit":     {offer, `elicit ok: accept {\"jobs\":3}`},
		"elicit url": {offer, "elicitation/complete"},
		"elicit  ":   {`{}`, "elicit error 0: the client does not offer it"},
	} {
		t.Run(prompt, func(t *testing.T) {
			if answer := rawTurn(t, behaviour{exitInitialize: -1}, c.offer, prompt); !strings.Contains(answer, c.want) {
				t.Errorf("the agent sent %s, want %s in it", answer, c.want)
			}
		})
	}
}

func TestSession_IsStoredForNextProcess(t *testing.T) {
	b := behaviour{exitInitialize: -1, state: t.TempDir()}
	first := start(t, b)
	first.ask("initialize", `{"protocolVersion":1}`)
	id := first.open("/w")
	first.ask("session/prompt", `{"sessionId":"`+id+`","prompt":[{"type":"text","text":"repeat this"}]}`)
	first.ask("session/set_mode", `{"sessionId":"`+id+`","modeId":"code"}`)

	second := start(t, b)
	second.ask("initialize", `{"protocolVersion":1}`)
	if list := second.ask("session/list", `{}`); !strings.Contains(list, id) || !strings.Contains(list, `"title":"repeat this"`) {
		t.Errorf("the list is %s", list)
	}
	loaded := second.ask("session/load", `{"sessionId":"`+id+`","cwd":"/w","mcpServers":[]}`)
	for _, want := range []string{`"currentModeId":"code"`, "user_message_chunk", id + ": this"} {
		if !strings.Contains(loaded, want) {
			t.Errorf("the loaded history is %s, want %s in it", loaded, want)
		}
	}
	forked := second.ask("session/fork", `{"sessionId":"`+id+`","cwd":"/v","mcpServers":[]}`)
	if list := second.ask("session/list", `{"cwd":"/v"}`); strings.Contains(list, id) || !strings.Contains(list, "Fork of") {
		t.Errorf("after %s the list of /v is %s", forked, list)
	}
	second.ask("session/delete", `{"sessionId":"`+id+`"}`)
	if gone := second.ask("session/resume", `{"sessionId":"`+id+`","cwd":"/w"}`); !strings.Contains(gone, "-32002") {
		t.Errorf("after its deletion the session was resumed with %s", gone)
	}
}

func TestSession_RequiresLogin(t *testing.T) {
	b := behaviour{exitInitialize: -1, auth: true, state: t.TempDir()}
	p := start(t, b)
	p.ask("initialize", `{"protocolVersion":1,"clientCapabilities":{"elicitation":{"url":{}}}}`)
	const open = `{"cwd":"/w","mcpServers":[]}`
	if got := p.ask("session/new", open); !strings.Contains(got, "-32000") {
		t.Errorf("without a login the session was opened with %s", got)
	}
	login := p.ask("authenticate", `{"methodId":"browser"}`)
	if !strings.Contains(login, `"requestId":3`) || !strings.Contains(login, "elicitation/complete") {
		t.Errorf("the login sent %s, want its question to name its request", login)
	}
	p.open("/w")
	p.ask("logout", `{}`)
	if got := p.ask("session/new", open); !strings.Contains(got, "-32000") {
		t.Errorf("after the logout the session was opened with %s", got)
	}
}

func TestFeatures_SwitchedOffAreNotOffered(t *testing.T) {
	p := start(t, behaviour{exitInitialize: -1, without: allFeatures()})
	answer := p.ask("initialize", `{"protocolVersion":1}`)
	if strings.Contains(answer, "true") || strings.Contains(answer, "{}") && !strings.Contains(answer, `"sessionCapabilities":{}`) {
		t.Errorf("the agent advertises %s", answer)
	}
	for _, method := range []string{"session/load", "session/resume", "session/list", "session/close", "session/delete", "session/fork", "session/set_mode", "session/set_config_option", "logout"} {
		if got := p.ask(method, `{}`); !strings.Contains(got, "-32601") {
			t.Errorf("%s was answered with %s", method, got)
		}
	}
}

func TestCancel_EndsTurnThatHasJustBegun(t *testing.T) {
	p := start(t, behaviour{exitInitialize: -1, state: t.TempDir()})
	p.ask("initialize", `{"protocolVersion":1}`)
	id := p.open("/w")
	for i := range 100 {
		if i == 50 { // as another session of that id it begins anew
			p.ask("session/load", `{"sessionId":"`+id+`","cwd":"/w","mcpServers":[]}`)
		}
		answer := p.askBefore("session/prompt", `{"sessionId":"`+id+`","prompt":[{"type":"text","text":"/wait"}]}`,
			`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"`+id+`"}}`)
		if !strings.Contains(answer, `"stopReason":"cancelled"`) {
			t.Fatalf("the turn ended with %s", answer)
		}
		if answer := p.ask("session/prompt", `{"sessionId":"`+id+`","prompt":[{"type":"text","text":"repeat"}]}`); !strings.Contains(answer, `"end_turn"`) {
			t.Fatalf("the turn behind one that was cancelled ended with %s", answer)
		}
	}
}

func TestCommands_ReportResultsAndErrors(t *testing.T) {
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
			if got := c.message.String(); got != want {
				t.Errorf("the agent sent %q, want %q", got, want)
			}
		})
	}
}
