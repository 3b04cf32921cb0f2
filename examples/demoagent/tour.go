package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"

	"github.com/coder/acp-go-sdk"
)

// tourScript is what the tour does, step by step: an update that is sent as it stands there, or something that the agent
// does. A step that needs something of the client is left out where the client does not offer it.
//
//go:embed tour.json
var tourScript []byte

type tourStep struct {
	Needs  string          `json:"needs"`
	Update json.RawMessage `json:"update"`
	Do     string          `json:"do"`
}

// What the tour works with.
const (
	tourFile    = "tour.txt"
	tourText    = "one\ntwo\n"
	tourCommand = "echo out; exit 3"
)

// tour plays the script, and in the end tells as JSON what each thing that it asked for was answered with.
func (t *turn) tour(ctx context.Context, _ string) error {
	var steps []tourStep
	if err := json.Unmarshal(tourScript, &steps); err != nil {
		return err
	}
	report, terminal := object{}, ""
	for _, step := range steps {
		if step.Needs != "" && !t.offered(step.Needs) {
			continue
		}
		if step.Do != "" {
			outcome, err := t.act(ctx, step.Do, &terminal)
			if refused, ok := errors.AsType[*acp.RequestError](err); ok {
				outcome, err = object{"error": refused}, nil
			}
			if err != nil {
				return err
			}
			report[step.Do] = outcome
			continue
		}
		place := strings.NewReplacer("${cwd}", quoted(t.session.cwd), "${terminal}", quoted(terminal))
		if err := t.update(ctx, json.RawMessage(place.Replace(string(step.Update)))); err != nil {
			return err
		}
	}
	words, err := json.Marshal(object{"report": report})
	if err != nil {
		return err
	}
	t.usage = object{"totalTokens": 1500, "inputTokens": 1000, "outputTokens": 400, "thoughtTokens": 100, "cachedReadTokens": 50, "cachedWriteTokens": 25}
	return t.say(ctx, string(words))
}

// offered says whether the client offers what a step needs.
func (t *turn) offered(what string) bool {
	can := t.agent.clientCan()
	switch what {
	case "form":
		return can.Elicitation.Form != nil
	case "url":
		return can.Elicitation.URL != nil
	case "notices":
		return can.Session.Notices != nil
	case "compaction":
		return can.Session.Compaction != nil
	case "boolean":
		return can.Session.ConfigOptions.Boolean != nil
	}
	return false
}

func (t *turn) act(ctx context.Context, what string, terminal *string) (any, error) {
	id, file := t.session.id, filepath.Join(t.session.cwd, tourFile)
	switch what {
	case "write":
		return t.conn.writeTextFile(ctx, acp.WriteTextFileRequest{SessionId: id, Path: file, Content: tourText})
	case "read":
		return t.conn.readTextFile(ctx, acp.ReadTextFileRequest{SessionId: id, Path: file, Line: acp.Ptr(2), Limit: acp.Ptr(1)})
	case "ask":
		return t.conn.call(ctx, acp.ClientMethodSessionRequestPermission, object{
			"sessionId": id,
			"toolCall": object{
				"toolCallId": "call-edit", "title": "Edit tour.txt", "kind": "edit", "status": "pending",
				"content":   []object{{"type": "diff", "path": file, "oldText": tourText, "newText": "one\nthree\n"}},
				"locations": []object{{"path": file, "line": 2}}, "rawInput": object{"path": file},
			},
			"options": []object{
				{"optionId": "yes", "name": "Yes", "kind": "allow_once"},
				{"optionId": "always", "name": "Always", "kind": "allow_always"},
				{"optionId": "no", "name": "No", "kind": "reject_once"},
				{"optionId": "never", "name": "Never", "kind": "reject_always"},
			},
		})
	case "form":
		return t.form(ctx)
	case "url":
		return t.page(ctx)
	case "terminal":
		made, err := t.conn.createTerminal(ctx, acp.CreateTerminalRequest{SessionId: id, Command: tourCommand, Cwd: &t.session.cwd})
		*terminal = made.TerminalId
		return made, err
	case "wait":
		ended, err := t.conn.waitForTerminalExit(ctx, acp.WaitForTerminalExitRequest{SessionId: id, TerminalId: *terminal})
		if err != nil {
			return nil, err
		}
		output, err := t.conn.terminalOutput(ctx, acp.TerminalOutputRequest{SessionId: id, TerminalId: *terminal})
		return object{"exit": ended, "output": output}, err
	case "release":
		return object{}, t.conn.releaseTerminal(ctx, acp.ReleaseTerminalRequest{SessionId: id, TerminalId: *terminal})
	}
	return nil, errors.New("the tour has no step " + what)
}

// quoted is text as it stands between a JSON string's quotes.
func quoted(text string) string {
	b, _ := json.Marshal(text) // a string always marshals
	return string(b[1 : len(b)-1])
}

// sorted spells an object with its names in order; nothing where there is none.
func sorted(o object) string {
	if o == nil {
		return ""
	}
	b, _ := json.Marshal(o) // it came as JSON
	return string(b)
}
