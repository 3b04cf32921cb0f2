package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	acp "github.com/coder/acp-go-sdk"
)

// What the script works on. The demo that plays the editor makes these files.
const (
	file    = "notes.md"
	outside = "../private/diary.md"
	wrong   = "recieve"
	right   = "receive"
)

// turn is one turn of the script.
type turn struct {
	ctx     context.Context
	conn    *acp.AgentSideConnection
	session acp.SessionId
	cwd     string
}

func (t *turn) play() error {
	if err := t.say("I will look at " + file + " first."); err != nil {
		return err
	}
	text, err := t.read("read", filepath.Join(t.cwd, file))
	if err != nil {
		return err
	}
	if err := t.edit(filepath.Join(t.cwd, file), text, strings.ReplaceAll(text, wrong, right)); err != nil {
		return err
	}
	if err := t.check("grep -n " + right + " " + file); err != nil {
		return err
	}
	if err := t.say("Now something that I should not do."); err != nil {
		return err
	}
	if _, err := t.read("pry", filepath.Join(t.cwd, outside)); err != nil {
		var refused *acp.RequestError
		if !errors.As(err, &refused) {
			return err
		}
	}
	return t.say("The spelling is right now.")
}

// read reads a file, and reports it as a tool call.
func (t *turn) read(id acp.ToolCallId, path string) (string, error) {
	if err := t.update(acp.StartReadToolCall(id, "Read "+filepath.Base(path), path)); err != nil {
		return "", err
	}
	res, err := t.conn.ReadTextFile(t.ctx, acp.ReadTextFileRequest{SessionId: t.session, Path: path})
	if err != nil {
		return "", errors.Join(err, t.end(id, acp.ToolCallStatusFailed, reason(err)))
	}
	return res.Content, t.end(id, acp.ToolCallStatusCompleted, res.Content)
}

// edit asks for permission and writes the file.
func (t *turn) edit(path, before, after string) error {
	const id = "edit"
	diff := []acp.ToolCallContent{acp.ToolDiffContent(path, after, before)}
	if err := t.update(acp.StartToolCall(id, "Edit "+filepath.Base(path), acp.WithStartKind(acp.ToolKindEdit),
		acp.WithStartStatus(acp.ToolCallStatusPending), acp.WithStartContent(diff),
		acp.WithStartLocations([]acp.ToolCallLocation{{Path: path}}))); err != nil {
		return err
	}
	answer, err := t.conn.RequestPermission(t.ctx, acp.RequestPermissionRequest{
		SessionId: t.session,
		ToolCall:  acp.ToolCallUpdate{ToolCallId: id},
		Options: []acp.PermissionOption{
			{OptionId: "yes", Name: "Allow", Kind: acp.PermissionOptionKindAllowOnce},
			{OptionId: "no", Name: "Reject", Kind: acp.PermissionOptionKindRejectOnce},
		},
	})
	if err != nil {
		return fmt.Errorf("ask for permission: %w", err)
	}
	if answer.Outcome.Selected == nil || answer.Outcome.Selected.OptionId != "yes" {
		return t.end(id, acp.ToolCallStatusFailed, "I was not allowed to.")
	}
	if _, err := t.conn.WriteTextFile(t.ctx, acp.WriteTextFileRequest{SessionId: t.session, Path: path, Content: after}); err != nil {
		return errors.Join(err, t.end(id, acp.ToolCallStatusFailed, reason(err)))
	}
	return t.update(acp.UpdateToolCall(id, acp.WithUpdateStatus(acp.ToolCallStatusCompleted)))
}

// check runs a command in a terminal, shows the terminal, and waits for it.
func (t *turn) check(command string) error {
	const id = "run"
	if err := t.update(acp.StartToolCall(id, "Run "+command, acp.WithStartKind(acp.ToolKindExecute),
		acp.WithStartRawInput(map[string]any{"command": command}))); err != nil {
		return err
	}
	term, err := t.conn.CreateTerminal(t.ctx, acp.CreateTerminalRequest{SessionId: t.session, Command: command})
	if err != nil {
		return errors.Join(err, t.end(id, acp.ToolCallStatusFailed, reason(err)))
	}
	if err := t.update(acp.UpdateToolCall(id, acp.WithUpdateStatus(acp.ToolCallStatusInProgress),
		acp.WithUpdateContent([]acp.ToolCallContent{acp.ToolTerminalRef(term.TerminalId)}))); err != nil {
		return err
	}
	exit, err := t.conn.WaitForTerminalExit(t.ctx, acp.WaitForTerminalExitRequest{SessionId: t.session, TerminalId: term.TerminalId})
	if err != nil {
		return fmt.Errorf("wait for %q: %w", command, err)
	}
	out, err := t.conn.TerminalOutput(t.ctx, acp.TerminalOutputRequest{SessionId: t.session, TerminalId: term.TerminalId})
	if err != nil {
		return fmt.Errorf("read the output of %q: %w", command, err)
	}
	if _, err := t.conn.ReleaseTerminal(t.ctx, acp.ReleaseTerminalRequest{SessionId: t.session, TerminalId: term.TerminalId}); err != nil {
		return fmt.Errorf("release the terminal of %q: %w", command, err)
	}
	return t.update(acp.UpdateToolCall(id, acp.WithUpdateStatus(acp.ToolCallStatusCompleted),
		acp.WithUpdateRawOutput(map[string]any{"exitCode": exit.ExitCode, "output": out.Output})))
}

func (t *turn) say(text string) error { return t.update(acp.UpdateAgentMessageText(text)) }

func (t *turn) end(id acp.ToolCallId, status acp.ToolCallStatus, text string) error {
	return t.update(acp.UpdateToolCall(id, acp.WithUpdateStatus(status),
		acp.WithUpdateContent([]acp.ToolCallContent{acp.ToolContent(acp.TextBlock(text))})))
}

func (t *turn) update(u acp.SessionUpdate) error {
	return t.conn.SessionUpdate(t.ctx, acp.SessionNotification{SessionId: t.session, Update: u})
}

// reason is an error in the words of the one who refused.
func reason(err error) string {
	var refused *acp.RequestError
	if errors.As(err, &refused) {
		return fmt.Sprintf("%s (%d)", refused.Message, refused.Code)
	}
	return err.Error()
}
