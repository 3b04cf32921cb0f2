package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/coder/acp-go-sdk"
)

// turn is one prompt being worked on.
type turn struct {
	agent   *agent
	session *session
	prompt  []json.RawMessage // its blocks
	meta    json.RawMessage   // its _meta; nil: none
	reason  acp.StopReason    // how it ends, if all goes well
	usage   object            // its usage; nil: not reported
}

// play executes a prompt.
func (t *turn) play(ctx context.Context, prompt string) error {
	name, rest, _ := strings.Cut(prompt, " ")
	scripts := scenes()
	name, isCommand := strings.CutPrefix(name, "/")
	if isCommand {
		scripts = commands()
	}
	for _, s := range scripts {
		if s.name == name {
			return s.play(t, ctx, rest)
		}
	}
	if !isCommand {
		return t.demo(ctx)
	}
	return acp.NewInvalidParams(object{"prompt": "there is no command /" + name})
}

// The file of the demo's turn. The client must create it.
const (
	notes    = "notes.md"
	outside  = "../private/diary.md"
	misspelt = "recieve"
	correct  = "receive"
)

// demo reads a file, requests permission to edit it, edits it, checks the edit with a command, and tries to read a file
// that it must not read.
func (t *turn) demo(ctx context.Context) error {
	path := filepath.Join(t.session.cwd, notes)
	if err := t.say(ctx, "I will look at "+notes+" first."); err != nil {
		return err
	}
	text, err := t.readFile(ctx, "read", path)
	if err != nil {
		return err
	}
	edited, err := t.edit(ctx, path, text, strings.ReplaceAll(text, misspelt, correct))
	if err != nil || !edited {
		return err
	}
	if _, _, err := t.check(ctx, "grep -n "+correct+" "+notes); err != nil {
		return err
	}
	if err := t.say(ctx, "Now something that I should not do."); err != nil {
		return err
	}
	if _, err := t.readFile(ctx, "pry", filepath.Join(t.session.cwd, outside)); err != nil {
		if _, refused := errors.AsType[*acp.RequestError](err); !refused {
			return err
		}
	}
	return t.say(ctx, "The spelling is right now.")
}

// readFile reads a file, with a tool call that is reported to the client.
func (t *turn) readFile(ctx context.Context, call acp.ToolCallId, path string) (string, error) {
	if err := t.update(ctx, acp.StartReadToolCall(call, "Read "+filepath.Base(path), path, acp.WithStartStatus(acp.ToolCallStatusInProgress))); err != nil {
		return "", err
	}
	text, err := t.readText(ctx, path)
	if err != nil {
		return "", t.fail(ctx, call, err)
	}
	return text, t.complete(ctx, call, acp.ToolContent(acp.TextBlock(text)))
}

// edit asks for permission and writes the file. It reports whether it was permitted.
func (t *turn) edit(ctx context.Context, path, before, after string) (bool, error) {
	const call = acp.ToolCallId("edit")
	title := "Edit " + filepath.Base(path)
	content := []acp.ToolCallContent{acp.ToolDiffContent(path, after, before)}
	locations := []acp.ToolCallLocation{{Path: path}}
	if err := t.update(ctx, acp.StartToolCall(call, title, acp.WithStartKind(acp.ToolKindEdit), acp.WithStartStatus(acp.ToolCallStatusPending),
		acp.WithStartLocations(locations), acp.WithStartContent(content))); err != nil {
		return false, err
	}
	outcome, err := t.ask(ctx, acp.ToolCallUpdate{ToolCallId: call}) // the rest is known from the tool call
	if err != nil {
		return false, t.fail(ctx, call, err)
	}
	if outcome != "allow" && outcome != "always" {
		return false, errors.Join(t.markFailed(ctx, call, fmt.Errorf("not permitted: %s", outcome)), t.say(ctx, "Then I leave it as it is."))
	}
	if err := t.writeText(ctx, path, after); err != nil {
		return false, t.fail(ctx, call, err)
	}
	return true, t.complete(ctx, call, content...)
}

// exit is how a command ended.
type exit = acp.WaitForTerminalExitResponse

// check runs a shell line in a terminal, shows the terminal, and returns the exit status and the output.
func (t *turn) check(ctx context.Context, line string) (ended exit, output string, err error) {
	const call = acp.ToolCallId("run")
	if err := t.update(ctx, acp.StartToolCall(call, "Run "+line, acp.WithStartKind(acp.ToolKindExecute), acp.WithStartStatus(acp.ToolCallStatusPending),
		acp.WithStartRawInput(object{"command": line}))); err != nil {
		return ended, "", err
	}
	created, err := ask[acp.CreateTerminalResponse](ctx, t, acp.ClientMethodTerminalCreate, object{"command": line})
	if err != nil {
		return ended, "", t.fail(ctx, call, err)
	}
	if err := t.update(ctx, acp.UpdateToolCall(call, acp.WithUpdateStatus(acp.ToolCallStatusInProgress),
		acp.WithUpdateContent([]acp.ToolCallContent{acp.ToolTerminalRef(created.TerminalId)}))); err != nil {
		return ended, "", err
	}
	if ended, output, err = t.finish(ctx, created.TerminalId); err != nil {
		return ended, "", t.fail(ctx, call, err)
	}
	return ended, output, t.update(ctx, acp.UpdateToolCall(call, acp.WithUpdateStatus(acp.ToolCallStatusCompleted),
		acp.WithUpdateRawOutput(object{"exitCode": ended.ExitCode, "signal": ended.Signal, "output": output})))
}

// finish waits for a terminal's command to end, reads its output and releases it.
func (t *turn) finish(ctx context.Context, terminal string) (ended exit, output string, err error) {
	at := func() object { return object{"terminalId": terminal} }
	if ended, err = ask[exit](ctx, t, acp.ClientMethodTerminalWaitForExit, at()); err != nil {
		return ended, "", err
	}
	shown, err := ask[acp.TerminalOutputResponse](ctx, t, acp.ClientMethodTerminalOutput, at())
	if err != nil {
		return ended, "", err
	}
	_, err = ask[acp.ReleaseTerminalResponse](ctx, t, acp.ClientMethodTerminalRelease, at())
	return ended, shown.Output, err
}

// ask returns the id of the option that was chosen, or "cancelled".
func (t *turn) ask(ctx context.Context, call acp.ToolCallUpdate) (string, error) {
	answer, err := ask[acp.RequestPermissionResponse](ctx, t, acp.ClientMethodSessionRequestPermission, object{
		"toolCall": call, "options": []acp.PermissionOption{
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
	return t.update(ctx, acp.UpdateAgentMessageText(text))
}

func (t *turn) complete(ctx context.Context, call acp.ToolCallId, content ...acp.ToolCallContent) error {
	return t.update(ctx, acp.UpdateToolCall(call, acp.WithUpdateStatus(acp.ToolCallStatusCompleted), acp.WithUpdateContent(content)))
}

// fail marks a tool call as failed and returns why it did.
func (t *turn) fail(ctx context.Context, call acp.ToolCallId, err error) error {
	return errors.Join(err, t.markFailed(ctx, call, err))
}

// markFailed reports to the client that a tool call failed, as text for a person and as raw output.
func (t *turn) markFailed(ctx context.Context, call acp.ToolCallId, err error) error {
	words, raw := err.Error(), object{"error": err.Error()}
	if refused, ok := errors.AsType[*acp.RequestError](err); ok {
		words = fmt.Sprintf("%s (%d)", refused.Message, refused.Code)
		raw = object{"code": refused.Code, "message": refused.Message}
	}
	return t.update(ctx, acp.UpdateToolCall(call, acp.WithUpdateStatus(acp.ToolCallStatusFailed),
		acp.WithUpdateContent([]acp.ToolCallContent{acp.ToolContent(acp.TextBlock(words))}), acp.WithUpdateRawOutput(raw)))
}

// update sends an update and keeps it in the session's history.
func (t *turn) update(ctx context.Context, u any) error {
	raw, err := json.Marshal(u)
	if err != nil {
		return err
	}
	t.session.remember(raw)
	return t.agent.tell(ctx, t.session.id, json.RawMessage(raw))
}
