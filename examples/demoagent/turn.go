package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/coder/acp-go-sdk"
)

// turn is one prompt being worked on.
type turn struct {
	conn    *acp.AgentSideConnection
	session session
}

// play does what the prompt says.
func (t *turn) play(ctx context.Context, prompt string) error {
	if !strings.HasPrefix(prompt, "/") {
		return t.demo(ctx)
	}
	name, rest, _ := strings.Cut(strings.TrimPrefix(prompt, "/"), " ")
	for _, c := range commands() {
		if c.name == name {
			return c.run(t, ctx, rest)
		}
	}
	return acp.NewInvalidParams(map[string]any{"prompt": fmt.Sprintf("there is no command /%s", name)})
}

// What the demo's turn works on. The workspace has both files.
const (
	menuFile  = "menu.md"
	checkFile = "check.sh"
	outside   = "/etc/passwd"
	misspelt  = "Erl Grey"
	correct   = "Earl Grey"
)

// demo reads a file, asks whether it may edit it, edits it, runs a command and reads what it must not.
func (t *turn) demo(ctx context.Context) error {
	menu := filepath.Join(t.session.cwd, menuFile)
	if err := t.say(ctx, "I'll look at the menu first."); err != nil {
		return err
	}
	text, err := t.readMenu(ctx, menu)
	if err != nil {
		return err
	}
	if !strings.Contains(text, misspelt) {
		return fmt.Errorf("%s has no %q to correct", menu, misspelt)
	}
	if err := t.say(ctx, fmt.Sprintf("%q should be %q. I'll ask before I change it.", misspelt, correct)); err != nil {
		return err
	}
	edited, err := t.editMenu(ctx, menu, text, strings.ReplaceAll(text, misspelt, correct))
	if err != nil || !edited {
		return err
	}
	if err := t.runCheck(ctx); err != nil {
		return err
	}
	if err := t.readOutside(ctx); err != nil {
		return err
	}
	return t.say(ctx, "Done: the menu is correct, and its check passes.")
}

func (t *turn) readMenu(ctx context.Context, path string) (string, error) {
	const call = acp.ToolCallId("read-menu")
	if err := t.update(ctx, acp.StartReadToolCall(call, "Read "+menuFile, path, acp.WithStartStatus(acp.ToolCallStatusInProgress))); err != nil {
		return "", err
	}
	read, err := t.conn.ReadTextFile(ctx, acp.ReadTextFileRequest{SessionId: t.session.id, Path: path})
	if err != nil {
		return "", t.fail(ctx, call, err)
	}
	return read.Content, t.complete(ctx, call, acp.ToolContent(acp.TextBlock(read.Content)))
}

// editMenu reports whether it was allowed to.
func (t *turn) editMenu(ctx context.Context, path, before, after string) (bool, error) {
	const call = acp.ToolCallId("edit-menu")
	title := "Correct " + menuFile
	content := []acp.ToolCallContent{acp.ToolDiffContent(path, after, before)}
	locations := []acp.ToolCallLocation{{Path: path}}
	if err := t.update(ctx, acp.StartToolCall(call, title, acp.WithStartKind(acp.ToolKindEdit), acp.WithStartStatus(acp.ToolCallStatusPending),
		acp.WithStartLocations(locations), acp.WithStartContent(content))); err != nil {
		return false, err
	}
	outcome, err := t.ask(ctx, acp.ToolCallUpdate{
		ToolCallId: call, Title: &title, Kind: acp.Ptr(acp.ToolKindEdit), Status: acp.Ptr(acp.ToolCallStatusPending),
		Locations: locations, Content: content,
	})
	if err != nil {
		return false, t.fail(ctx, call, err)
	}
	if outcome != "allow" && outcome != "always" {
		return false, errors.Join(t.markFailed(ctx, call, fmt.Errorf("not permitted: %s", outcome)), t.say(ctx, "Then I'll leave it as it is."))
	}
	if _, err := t.conn.WriteTextFile(ctx, acp.WriteTextFileRequest{SessionId: t.session.id, Path: path, Content: after}); err != nil {
		return false, t.fail(ctx, call, err)
	}
	return true, t.complete(ctx, call, content...)
}

func (t *turn) runCheck(ctx context.Context) error {
	const call = acp.ToolCallId("run-check")
	if err := t.update(ctx, acp.StartToolCall(call, "Run "+checkFile, acp.WithStartKind(acp.ToolKindExecute), acp.WithStartStatus(acp.ToolCallStatusPending),
		acp.WithStartRawInput(map[string]any{"command": "sh " + checkFile}))); err != nil {
		return err
	}
	created, err := t.conn.CreateTerminal(ctx, acp.CreateTerminalRequest{
		SessionId: t.session.id, Command: "sh", Args: []string{checkFile}, Cwd: &t.session.cwd, OutputByteLimit: acp.Ptr(64 << 10),
	})
	if err != nil {
		return t.fail(ctx, call, err)
	}
	if err := t.update(ctx, acp.UpdateToolCall(call, acp.WithUpdateStatus(acp.ToolCallStatusInProgress),
		acp.WithUpdateContent([]acp.ToolCallContent{acp.ToolTerminalRef(created.TerminalId)}))); err != nil {
		return err
	}
	ended, output, err := t.finish(ctx, created.TerminalId)
	if err != nil {
		return t.fail(ctx, call, err)
	}
	if ended.ExitCode == nil || *ended.ExitCode != 0 {
		return t.fail(ctx, call, fmt.Errorf("the check failed: %s", output))
	}
	return t.update(ctx, acp.UpdateToolCall(call, acp.WithUpdateStatus(acp.ToolCallStatusCompleted),
		acp.WithUpdateRawOutput(map[string]any{"exitCode": *ended.ExitCode, "output": output})))
}

// readOutside tries a file that lies outside of the workspace. Being refused is what it expects.
func (t *turn) readOutside(ctx context.Context) error {
	const call = acp.ToolCallId("read-outside")
	if err := t.update(ctx, acp.StartReadToolCall(call, "Read "+outside, outside, acp.WithStartStatus(acp.ToolCallStatusInProgress))); err != nil {
		return err
	}
	read, err := t.conn.ReadTextFile(ctx, acp.ReadTextFileRequest{SessionId: t.session.id, Path: outside})
	if err == nil {
		return t.fail(ctx, call, fmt.Errorf("it was readable: %d bytes", len(read.Content)))
	}
	return errors.Join(t.markFailed(ctx, call, err), t.say(ctx, "I may not read that, and I don't need to."))
}

// finish waits for a terminal's command to end, takes its output and releases it.
func (t *turn) finish(ctx context.Context, terminal string) (acp.WaitForTerminalExitResponse, string, error) {
	ended, err := t.conn.WaitForTerminalExit(ctx, acp.WaitForTerminalExitRequest{SessionId: t.session.id, TerminalId: terminal})
	if err != nil {
		return ended, "", err
	}
	output, err := t.conn.TerminalOutput(ctx, acp.TerminalOutputRequest{SessionId: t.session.id, TerminalId: terminal})
	if err != nil {
		return ended, "", err
	}
	_, err = t.conn.ReleaseTerminal(ctx, acp.ReleaseTerminalRequest{SessionId: t.session.id, TerminalId: terminal})
	return ended, output.Output, err
}

// ask returns the id of the option that was chosen, or "cancelled".
func (t *turn) ask(ctx context.Context, call acp.ToolCallUpdate) (string, error) {
	answer, err := t.conn.RequestPermission(ctx, acp.RequestPermissionRequest{
		SessionId: t.session.id, ToolCall: call,
		Options: []acp.PermissionOption{
			{OptionId: "allow", Name: "Allow", Kind: acp.PermissionOptionKindAllowOnce},
			{OptionId: "always", Name: "Always allow", Kind: acp.PermissionOptionKindAllowAlways},
			{OptionId: "reject", Name: "Reject", Kind: acp.PermissionOptionKindRejectOnce},
		},
	})
	switch {
	case err != nil:
		return "", err
	case answer.Outcome.Selected != nil:
		return string(answer.Outcome.Selected.OptionId), nil
	default:
		return "cancelled", nil
	}
}

// say sends a piece of the agent's message.
func (t *turn) say(ctx context.Context, text string) error {
	return t.update(ctx, acp.UpdateAgentMessageText(text+"\n"))
}

func (t *turn) complete(ctx context.Context, call acp.ToolCallId, content ...acp.ToolCallContent) error {
	return t.update(ctx, acp.UpdateToolCall(call, acp.WithUpdateStatus(acp.ToolCallStatusCompleted), acp.WithUpdateContent(content)))
}

// fail marks a tool call as failed and returns why it did.
func (t *turn) fail(ctx context.Context, call acp.ToolCallId, err error) error {
	return errors.Join(err, t.markFailed(ctx, call, err))
}

// markFailed tells the client that a tool call failed, with the error as its raw output.
func (t *turn) markFailed(ctx context.Context, call acp.ToolCallId, err error) error {
	raw := map[string]any{"error": err.Error()}
	if refused, ok := errors.AsType[*acp.RequestError](err); ok {
		raw = map[string]any{"code": refused.Code, "message": refused.Message, "data": refused.Data}
	}
	return t.update(ctx, acp.UpdateToolCall(call, acp.WithUpdateStatus(acp.ToolCallStatusFailed), acp.WithUpdateRawOutput(raw)))
}

func (t *turn) update(ctx context.Context, u acp.SessionUpdate) error {
	return t.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: t.session.id, Update: u})
}
