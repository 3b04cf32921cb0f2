package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/coder/acp-go-sdk"
)

// scene is what a prompt plays whose first word is its name.
type scene struct {
	name, args, does string
	play             func(t *turn, ctx context.Context, rest string) error
}

func scenes() []scene {
	ends := func(reason acp.StopReason) func(*turn, context.Context, string) error {
		return func(t *turn, ctx context.Context, _ string) error {
			t.reason = reason
			return t.say(ctx, "That is all: "+string(reason)+".")
		}
	}
	return []scene{
		{"tour", "", "send every kind of update that ACP v1 has, with every field, and ask for everything once", (*turn).tour},
		{"repeat", "TEXT", "say the session's id and TEXT", (*turn).repeat},
		{"meta", "", "say, as JSON, which _meta came when the session was opened, and which with the prompt", (*turn).tellMeta},
		{"settings", "", "say the session's mode, model, effort and whether it is thorough", (*turn).settings},
		{"flood", "COUNT", "send that many pieces of a message at once", (*turn).floodUpdates},
		{"slow", "COUNT MS", "send that many pieces of a message, with so many milliseconds before each", (*turn).slow},
		{"sleep", "[MS]", "be silent for so long, or until the turn is cancelled", (*turn).sleep},
		{"hang", "", "never end, and ignore that the turn is cancelled", (*turn).hang},
		{"crash", "", "start a command in a terminal, and exit with status 3 while it runs", (*turn).crash},
		{"ask", "[PATH]", "ask whether a file may be edited, and say what was answered", (*turn).askScene},
		{"elicit", "[url]", "put a form to the user, or a page, and say what was answered", (*turn).elicit},
		{"error", "CODE [TEXT]", "answer the prompt with an error", (*turn).refuseWith},
		{"max_tokens", "", "end with this stop reason", ends(acp.StopReasonMaxTokens)},
		{"max_turn_requests", "", "end with this stop reason", ends(acp.StopReasonMaxTurnRequests)},
		{"refuse", "", "end with the stop reason refusal", ends(acp.StopReasonRefusal)},
	}
}

func sceneList() string {
	var list strings.Builder
	for _, s := range scenes() {
		fmt.Fprintf(&list, "  %-20s %s\n", strings.TrimSpace(s.name+" "+s.args), s.does)
	}
	return list.String()
}

func (t *turn) repeat(ctx context.Context, text string) error {
	return t.say(ctx, string(t.session.id)+": "+text)
}

func (t *turn) tellMeta(ctx context.Context, _ string) error {
	text, err := json.Marshal(object{"opened": t.session.opened, "prompted": t.meta})
	if err != nil {
		return err
	}
	return t.say(ctx, string(text))
}

func (t *turn) settings(ctx context.Context, _ string) error {
	s := t.session.snapshot().Settings
	return t.say(ctx, fmt.Sprintf("%s, %s, %s, %t", s.Mode, s.Model, s.Effort, s.Thorough))
}

func (t *turn) floodUpdates(ctx context.Context, count string) error {
	n, err := number(count)
	for i := range n {
		if err = t.say(ctx, fmt.Sprintf("piece %d\n", i)); err != nil {
			break
		}
	}
	return err
}

func (t *turn) slow(ctx context.Context, rest string) error {
	count, each, _ := strings.Cut(rest, " ")
	n, err := number(count)
	if err != nil {
		return err
	}
	ms, err := number(each)
	if err != nil {
		return err
	}
	tick := time.NewTicker(time.Duration(max(ms, 1)) * time.Millisecond)
	defer tick.Stop()
	for i := range n {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := t.say(ctx, fmt.Sprintf("piece %d\n", i)); err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) sleep(ctx context.Context, rest string) error {
	if rest == "" {
		return t.wait(ctx, "")
	}
	ms, err := number(rest)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(ms) * time.Millisecond):
		return t.say(ctx, "slept")
	}
}

func (t *turn) hang(ctx context.Context, _ string) error {
	if err := t.say(ctx, "hanging\n\n"); err != nil {
		return err
	}
	select {}
}

func (t *turn) crash(ctx context.Context, _ string) error {
	if t.agent.clientCan().Terminal {
		created, err := t.conn.createTerminal(ctx, acp.CreateTerminalRequest{SessionId: t.session.id, Command: "sleep", Args: []string{"600"}})
		if err != nil {
			return err
		}
		if err := t.update(ctx, acp.StartToolCall("crash", "sleep 600", acp.WithStartKind(acp.ToolKindExecute), acp.WithStartStatus(acp.ToolCallStatusInProgress),
			acp.WithStartContent([]acp.ToolCallContent{acp.ToolTerminalRef(created.TerminalId)}))); err != nil {
			return err
		}
	}
	if err := t.say(ctx, "crashing"); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "demoagent: panic, as told\ndemoagent: these are the last words")
	os.Exit(3)
	return nil
}

func (t *turn) askScene(ctx context.Context, path string) error {
	if path == "" {
		path = t.session.cwd + "/" + notes
	}
	return t.askEdit(ctx, path)
}

func (t *turn) elicit(ctx context.Context, how string) error {
	answer, err := t.form(ctx)
	if how == "url" {
		answer, err = t.page(ctx)
	}
	return t.report(ctx, "elicit", strings.TrimSpace(fmt.Sprint(answer.Action, " ", sorted(answer.Content))), err)
}

func (t *turn) refuseWith(_ context.Context, rest string) error {
	code, text, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(code)
	if err != nil {
		return acp.NewInvalidParams(object{"code": err.Error()})
	}
	return &acp.RequestError{Code: n, Message: text, Data: object{"scene": "error"}}
}

// form puts a form to the user.
func (t *turn) form(ctx context.Context) (elicitation, error) {
	if t.agent.clientCan().Elicitation.Form == nil {
		return elicitation{}, errNotOffered
	}
	return t.conn.createElicitation(ctx, object{
		"sessionId": t.session.id, "toolCallId": "call-form", "mode": "form", "message": "How should it be built?",
		"requestedSchema": object{
			"type": "object", "title": "Build", "required": []string{"target"},
			"properties": object{
				"target": object{"type": "string", "title": "Target", "description": "What is built", "enum": []string{"debug", "release"}, "default": "debug"},
				"jobs":   object{"type": "integer", "title": "Jobs", "minimum": 1, "maximum": 8, "default": 2},
				"clean":  object{"type": "boolean", "title": "Clean first", "default": false},
			},
		},
	})
}

// page asks the user to open one.
func (t *turn) page(ctx context.Context) (elicitation, error) {
	const id = "page-1"
	if t.agent.clientCan().Elicitation.URL == nil {
		return elicitation{}, errNotOffered
	}
	answer, err := t.conn.createElicitation(ctx, object{
		"sessionId": t.session.id, "mode": "url", "message": "Please pay for the tokens.", "url": "https://example.com/pay?turn=1", "elicitationId": id,
	})
	if err != nil {
		return answer, err
	}
	return answer, t.conn.completeElicitation(ctx, id)
}

var errNotOffered = errors.New("the client does not offer it")

func number(s string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil || n < 0 {
		return 0, acp.NewInvalidParams(object{"number": s})
	}
	return n, nil
}
