package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"strings"

	"github.com/coder/acp-go-sdk"
)

// tourScript has the steps of the tour: each is an update that is sent unchanged, or a request to the client. A step
// that needs a capability is skipped if the client does not offer it.
//
//go:embed tour.json
var tourScript []byte

type tourStep struct {
	Needs  string          `json:"needs"`
	Update json.RawMessage `json:"update"`
	// As is the name of the answer.
	As     string          `json:"as"`
	Call   string          `json:"call"`
	Params json.RawMessage `json:"params"`
	// Completes is the page that has served its purpose with the answer.
	Completes string `json:"completes"`
}

// answer is the client's answer to a step, or its error.
type answer struct {
	result json.RawMessage
	err    error // an *acp.RequestError; nil: there is a result
}

// MarshalJSON implements json.Marshaler.
func (a answer) MarshalJSON() ([]byte, error) {
	if a.err != nil {
		return json.Marshal(object{"error": a.err})
	}
	return json.Marshal(a.result)
}

// tour plays the script, and finally sends the responses to its requests as JSON.
func (t *turn) tour(ctx context.Context, _ string) error {
	answers, err := t.perform(ctx, func(s tourStep) bool { return s.Needs == "" || t.offered(s.Needs) })
	if err != nil {
		return err
	}
	words, err := json.Marshal(object{"report": answers})
	if err != nil {
		return err
	}
	t.usage = object{"totalTokens": 1500, "inputTokens": 1000, "outputTokens": 400, "thoughtTokens": 100, "cachedReadTokens": 50, "cachedWriteTokens": 25}
	return t.say(ctx, string(words))
}

// perform plays some of the script's steps, and returns what was answered.
func (t *turn) perform(ctx context.Context, which func(tourStep) bool) (map[string]answer, error) {
	var steps []tourStep
	if err := json.Unmarshal(tourScript, &steps); err != nil {
		return nil, err
	}
	answers, terminal := map[string]answer{}, ""
	for _, step := range steps {
		if !which(step) {
			continue
		}
		place := strings.NewReplacer("${cwd}", quoted(t.session.cwd), "${terminal}", quoted(terminal))
		if step.Update != nil {
			if err := t.update(ctx, json.RawMessage(place.Replace(string(step.Update)))); err != nil {
				return nil, err
			}
			continue
		}
		params := object{}
		if err := json.Unmarshal([]byte(place.Replace(string(step.Params))), &params); err != nil {
			return nil, err
		}
		result, err := ask[json.RawMessage](ctx, t, step.Call, params)
		if err == nil && step.Completes != "" {
			err = t.agent.completed(ctx, step.Completes)
		}
		if _, refused := errors.AsType[*acp.RequestError](err); err != nil && !refused {
			return nil, err
		}
		answers[step.As] = answer{result, err}
		var made acp.CreateTerminalResponse
		if json.Unmarshal(result, &made) == nil && made.TerminalId != "" {
			terminal = made.TerminalId
		}
	}
	return answers, nil
}

// offered reports whether the client offers what a step needs.
func (t *turn) offered(what string) bool {
	can := t.agent.clientCan()
	return map[string]*struct{}{
		"form": can.Elicitation.Form, "url": can.Elicitation.URL, "notices": can.Session.Notices,
		"compaction": can.Session.Compaction, "boolean": can.Session.ConfigOptions.Boolean,
	}[what] != nil
}

// quoted returns text as it is written between the quotes of a JSON string.
func quoted(text string) string {
	b, _ := json.Marshal(text) // a string always marshals
	return string(b[1 : len(b)-1])
}
