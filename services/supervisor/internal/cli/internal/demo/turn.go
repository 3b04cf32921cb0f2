package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// internalError is the JSON-RPC error code for a denied call.
const internalError = -32603

// turn is the state of one prompt.
type turn struct {
	editor    *editor
	story     *story
	workspace workspace
	terminal  string // id of the terminal that was shown to the client
	shown     bool   // the client received the terminal's output
}

func (t *turn) play(ctx context.Context) error {
	started := time.Now()
	if err := t.editor.call(ctx, "initialize", map[string]any{
		"protocolVersion":    1,
		"clientCapabilities": map[string]any{"_meta": map[string]any{"terminal_output": true}, "session": map[string]any{"notices": map[string]any{}}},
	}, nil); err != nil {
		return err
	}
	t.story.ready(time.Since(started))
	var session struct{ SessionID string }
	if err := t.editor.call(ctx, "session/new", map[string]any{"cwd": t.workspace.root, "mcpServers": []any{}}, &session); err != nil {
		return err
	}
	t.story.prompt(prompt)
	if err := t.editor.ask("session/prompt", map[string]any{
		"sessionId": session.SessionID, "prompt": []any{map[string]any{"type": "text", "text": prompt}},
	}); err != nil {
		return err
	}
	done := map[string]bool{}
	for {
		select {
		case u, ok := <-t.editor.updates:
			if !ok {
				return t.editor.wrapError("the turn", errors.New("the supervisor closed its output"))
			}
			if err := t.update(ctx, u, done); err != nil {
				return err
			}
		case a := <-t.editor.answers:
			if a.Error != nil {
				return fmt.Errorf("session/prompt: %s (%d)", a.Error.Message, a.Error.Code)
			}
			// The answer arrives after all updates. The remaining updates are in the channel.
			for len(t.editor.updates) > 0 {
				if err := t.update(ctx, <-t.editor.updates, done); err != nil {
					return err
				}
			}
			return t.complete(done)
		case <-ctx.Done():
			return t.editor.wrapError("the turn", ctx.Err())
		}
	}
}

// complete reports whether all steps of the script were observed.
func (t *turn) complete(done map[string]bool) error {
	for _, id := range []string{"read", "edit", "run", "pry"} {
		if !done[id] {
			return fmt.Errorf("the agent's step %q was not seen to its end", id)
		}
	}
	if !t.shown {
		return errors.New("the editor was not shown what the command wrote")
	}
	return nil
}

func (t *turn) update(ctx context.Context, u update, done map[string]bool) error {
	switch u.Kind {
	case "agent_message_chunk":
		t.story.say(textOf(u.Content))
	case "notice":
		t.story.notice(u.Title)
	case "tool_call":
		if t.terminal == "" {
			t.terminal = terminalOf(u.Content)
		}
		// the update that introduces the terminal repeats a title
		if !strings.Contains(string(u.Content), `"terminal"`) {
			t.story.step(u.Title)
		}
	case "tool_call_update":
		if u.Status == "" && len(u.Content) == 0 {
			t.shown = true // the terminal's output, or its end
		}
		if u.Status == "completed" || u.Status == "failed" {
			done[u.ID] = true
			return t.finished(ctx, u)
		}
	}
	return nil
}

// finished prints the requests of a step after their answers are known.
func (t *turn) finished(ctx context.Context, u update) error {
	switch u.ID {
	case "read":
		return t.request(ctx, "fs/read_text_file", "notes.md", func(event) (string, error) {
			text := textOf(u.Content)
			return fmt.Sprintf("%d lines: %s", strings.Count(text, "\n"), excerpt(text)), expect(text, before)
		})
	case "edit":
		if err := t.request(ctx, permissionMethod, "may I edit notes.md?", func(e event) (string, error) {
			return fmt.Sprintf("%s, by rule %s: %s", e.Verdict, e.Rule, e.Reason), expect(e.Verdict, "allow")
		}); err != nil {
			return err
		}
		return t.request(ctx, "fs/write_text_file", "notes.md, recieve → receive", func(event) (string, error) {
			return "written", expect(u.Status, "completed")
		})
	case "run":
		for _, r := range []struct{ method, about, answer string }{
			{"terminal/create", "grep -n receive notes.md", "started in a terminal, which your editor is shown live"},
			{"terminal/wait_for_exit", "", fmt.Sprintf("exit code %s", exitCode(u))},
			{"terminal/output", "", strings.TrimSpace(u.Output.Output)},
			{"terminal/release", "", "released"},
		} {
			if err := t.request(ctx, r.method, r.about, func(event) (string, error) { return r.answer, nil }); err != nil {
				return err
			}
		}
		return expect(strings.TrimSpace(u.Output.Output), "3:We will receive the parts on Monday.")
	case "pry":
		return t.request(ctx, "fs/read_text_file", "../private/diary.md", func(e event) (string, error) {
			if e.Verdict != "deny" || u.Output.Code != internalError {
				return "", fmt.Errorf("reading a file outside of the workspace was not denied with %d: %s %s", internalError, u.Status, textOf(u.Content))
			}
			return fmt.Sprintf("denied, by rule %s: %s", e.Rule, e.Reason), expect(u.Status, "failed")
		})
	}
	return nil
}

// request waits for the supervisor's log line about a request, and prints it.
func (t *turn) request(ctx context.Context, method, about string, answer func(event) (string, error)) error {
	e, err := t.editor.nextEvent(ctx, method)
	if err != nil {
		return err
	}
	handler := daemon(method, e)
	text, err := answer(e)
	if err != nil {
		return fmt.Errorf("%s, answered by %s: %w", method, handler, err)
	}
	t.story.request(method, about, handler, e.took(), text)
	return nil
}

// daemon returns the name of a handler's program.
func daemon(method string, e event) string {
	switch {
	case method == permissionMethod, e.decided():
		return "permd"
	case e.Handler == "fs":
		return "fsd"
	case e.Handler == "terminal":
		return "termd"
	default:
		return e.Handler
	}
}

func expect(got, want string) error {
	if got != want {
		return fmt.Errorf("expected %q, got %q", want, got)
	}
	return nil
}

func exitCode(u update) string {
	if u.Output.ExitCode == nil {
		return "none"
	}
	return fmt.Sprint(*u.Output.ExitCode)
}

// textOf returns the text of a content block, or of the first one in a tool call's content.
func textOf(content json.RawMessage) string {
	var block struct{ Text string }
	if json.Unmarshal(content, &block) == nil {
		return block.Text
	}
	var items []struct{ Content struct{ Text string } }
	if json.Unmarshal(content, &items) == nil && len(items) > 0 {
		return items[0].Content.Text
	}
	return ""
}

func terminalOf(content json.RawMessage) string {
	var items []struct{ TerminalID string }
	_ = json.Unmarshal(content, &items) // an invalid list has no items
	for _, it := range items {
		if it.TerminalID != "" {
			return it.TerminalID
		}
	}
	return ""
}

func excerpt(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	const limit = 46
	if r := []rune(text); len(r) > limit {
		text = string(r[:limit]) + "…"
	}
	return fmt.Sprintf("%q", text)
}
