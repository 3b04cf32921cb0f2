package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/coder/acp-go-sdk"
)

func scenes() []script {
	ends := func(reason acp.StopReason) func(*turn, context.Context, string) error {
		return func(t *turn, ctx context.Context, _ string) error {
			t.reason = reason
			return t.say(ctx, "That is all: "+string(reason)+".")
		}
	}
	return []script{
		{"tour", "", "send every kind of update that ACP v1 has, with every field, and ask for everything once", (*turn).tour},
		{"repeat", "TEXT", "say the session's id and TEXT", (*turn).repeat},
		{"meta", "", "say, as JSON, which _meta came when the session was opened, and which with the prompt", (*turn).tellMeta},
		{"blocks", "", "say what the prompt consists of: a line for each block, with the SHA-256 of its content", (*turn).tellBlocks},
		{"settings", "", "say the session's mode, model, effort and whether it is thorough", (*turn).settings},
		{"flood", "COUNT", "send that many pieces of a message at once", (*turn).floodUpdates},
		{"calls", "COUNT", "report that many tool calls at once, each begun and completed", (*turn).reportCalls},
		{"slow", "COUNT MS", "send that many pieces of a message, with so many milliseconds before each", (*turn).slow},
		{"sleep", "[MS]", "be silent for so long, or until the turn is cancelled", (*turn).sleep},
		{"hang", "", "never end, and ignore that the turn is cancelled", (*turn).hang},
		{"crash", "", "start a command in a terminal, and exit with status 3 while it runs", (*turn).crash},
		{"ask", "[PATH]", "ask whether a file may be edited, and say what was answered", (*turn).askScene},
		{"elicit", "[url|SCHEMA]", "put a form to the user, a page, or the form of a JSON Schema, and say what was answered", (*turn).elicit},
		{"error", "CODE [TEXT]", "answer the prompt with an error", (*turn).refuseWith},
		{"max_tokens", "", "end with this stop reason", ends(acp.StopReasonMaxTokens)},
		{"max_turn_requests", "", "end with this stop reason", ends(acp.StopReasonMaxTurnRequests)},
		{"refuse", "", "end with the stop reason refusal", ends(acp.StopReasonRefusal)},
	}
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

func (t *turn) tellBlocks(ctx context.Context, _ string) error {
	var text strings.Builder
	for _, raw := range t.prompt {
		var b struct {
			Type, Text, MimeType string
			Data                 []byte
			Resource             struct {
				URI, MimeType string
				Text          *string
				Blob          []byte
			}
		}
		if err := json.Unmarshal(raw, &b); err != nil {
			return acp.NewInvalidParams(object{"prompt": err.Error()})
		}
		what, content := b.MimeType, b.Data
		switch r := b.Resource; {
		case b.Type == "text":
			content = []byte(b.Text)
		case r.Text != nil:
			what, content = r.MimeType+" text "+r.URI, []byte(*r.Text)
		case b.Type == "resource":
			what, content = r.MimeType+" blob "+r.URI, r.Blob
		}
		fmt.Fprintf(&text, "%s %s %d bytes %x\n", b.Type, what, len(content), sha256.Sum256(content))
	}
	return t.say(ctx, text.String())
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

func (t *turn) reportCalls(ctx context.Context, count string) error {
	n, err := number(count)
	for i := range n {
		id := acp.ToolCallId(fmt.Sprintf("call-%d", i))
		if err = t.update(ctx, acp.StartToolCall(id, fmt.Sprintf("call %d", i), acp.WithStartKind(acp.ToolKindRead), acp.WithStartStatus(acp.ToolCallStatusInProgress))); err != nil {
			break
		}
		if err = t.complete(ctx, id, acp.ToolContent(acp.TextBlock(fmt.Sprintf("result %d", i)))); err != nil {
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
		params := object{"command": "sleep", "args": []string{"600"}}
		created, err := ask[acp.CreateTerminalResponse](ctx, t, acp.ClientMethodTerminalCreate, params)
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
	schema := how
	if how != "url" {
		how = "form"
	}
	if !t.offered(how) {
		return t.report(ctx, "elicit", "", errors.New("the client does not offer it"))
	}
	var got answer
	if strings.HasPrefix(schema, "{") {
		if !json.Valid([]byte(schema)) {
			return acp.NewInvalidParams(object{"schema": "it is no JSON"})
		}
		got.result, got.err = ask[json.RawMessage](ctx, t, acp.ClientMethodElicitationCreate, object{
			"mode": "form", "message": "Please fill this in.", "requestedSchema": json.RawMessage(schema),
		})
	} else {
		answers, err := t.perform(ctx, func(s tourStep) bool { return s.Needs == how })
		if err != nil {
			return err
		}
		got = answers[how]
	}
	var answer elicitation
	if got.err == nil {
		if err := json.Unmarshal(got.result, &answer); err != nil {
			return err
		}
	}
	outcome := answer.Action
	if answer.Content != nil {
		content, _ := json.Marshal(answer.Content) // it came as JSON; so its names are in order
		outcome += " " + string(content)
	}
	return t.report(ctx, "elicit", outcome, got.err)
}

func (t *turn) refuseWith(_ context.Context, rest string) error {
	code, text, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(code)
	if err != nil {
		return acp.NewInvalidParams(object{"code": err.Error()})
	}
	return &acp.RequestError{Code: n, Message: text, Data: object{"scene": "error"}}
}

func number(s string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil || n < 0 {
		return 0, acp.NewInvalidParams(object{"number": s})
	}
	return n, nil
}
