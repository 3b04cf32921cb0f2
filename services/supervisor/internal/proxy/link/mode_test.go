package link

import (
	"context"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"

	"github.com/acphost/acphost/internal/testkit"
)

func TestMode_PolicyGetsEveryForm(t *testing.T) {
	const update = `{"method":"session/update","params":{"sessionId":"s","update":`
	tests := map[string]struct {
		client, agent []string
		want          string
	}{
		"an update of the mode":     {nil, []string{update + `{"sessionUpdate":"current_mode_update","currentModeId":"plan"}}}`}, "plan"},
		"an update of the options":  {nil, []string{update + `{"sessionUpdate":"config_option_update","configOptions":[{"id":"m","category":"model","currentValue":"x"},{"id":"a","category":"mode","currentValue":"yolo"}]}}}`}, "yolo"},
		"in camel case":             {nil, []string{update + `{"sessionUpdate":"configOptionUpdate","configOptions":[{"id":"mode","currentValue":"yolo"}]}}}`}, "yolo"},
		"the answer to a new value": {[]string{`{"id":5,"method":"session/set_config_option","params":{"sessionId":"s","configId":"a","value":"yolo"}}`}, []string{`{"id":5,"result":{"configOptions":[{"id":"a","category":"mode","currentValue":"yolo"}]}}`}, "yolo"},
		"a value that is refused":   {[]string{`{"id":5,"method":"session/set_config_option","params":{"sessionId":"s","configId":"mode","value":"yolo"}}`}, []string{`{"id":5,"error":{"code":-32602,"message":"no"}}`}, "ask"},
		"a mode that is set":        {[]string{`{"id":5,"method":"session/set_mode","params":{"sessionId":"s","modeId":"yolo"}}`}, nil, "yolo"},
		"a mode that is refused":    {[]string{`{"id":5,"method":"session/set_mode","params":{"sessionId":"s","modeId":"yolo"}}`}, []string{`{"id":5,"error":{"code":-32602,"message":"no"}}`}, "ask"},
		"an option that is no mode": {nil, []string{update + `{"sessionUpdate":"config_option_update","configOptions":[{"id":"mode","category":"model","currentValue":"x"}]}}}`}, "ask"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			seen := make(chan *permissionv1.Action, 1)
			r.handler.decide = func(_ context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
				seen <- a
				return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ALLOW}, nil
			}
			r.open(`{}`)
			r.client.send(`{"id":"x","method":"session/load","params":{"sessionId":"s","cwd":"/w"}}`)
			r.agent.next()
			r.agent.send(`{"id":"x","result":{"modes":{"currentModeId":"old"},"configOptions":[{"id":"a","category":"mode","currentValue":"ask"}]}}`)
			r.client.next()
			for _, line := range tt.client {
				r.client.send(line)
				r.agent.want(line)
			}
			for _, line := range tt.agent {
				r.agent.send(line)
				r.client.want(line)
			}
			r.agent.send(askedEdit)
			r.agent.next()
			if got := (<-seen).GetMode(); got != tt.want {
				t.Errorf("the mode is %q, want %q", got, tt.want)
			}
		})
	}
}

// TestTurn_Version2EndsWhenIdle: the answer to the prompt says only that the turn has begun.
func TestTurn_Version2EndsWhenIdle(t *testing.T) {
	r := newRig(t)
	r.open(`{}`)
	state := func(state string) {
		line := `{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update",` + state + `}}}`
		r.agent.send(line)
		r.client.want(line)
	}
	prompting := func(want int) {
		t.Helper()
		if got := r.opts.Sessions.Prompting(); len(got) != want {
			t.Errorf("turns are under way in %q, want in %d sessions", got, want)
		}
	}
	for range 2 {
		r.client.send(`{"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}`)
		r.agent.next()
		r.agent.send(`{"id":1,"result":{"messageId":"m"}}`)
		r.client.want(`{"id":1,"result":{"messageId":"m"}}`)
		prompting(1)
		state(`"state":"running"`)
		state(`"state":"requires_action"`)
		prompting(1)
		r.client.send(`{"method":"session/cancel","params":{"sessionId":"s"}}`)
		r.agent.next()
		// It is recorded just after the agent got the message.
		testkit.Eventually(t, "the turn that was cancelled is known as one", func() bool { return r.opts.Sessions.GivenUp("s") })
		state(`"state":"idle","stopReason":"cancelled"`)
		prompting(0)
		state(`"state":"idle","stopReason":"cancelled"`) // again
		prompting(0)
	}
}

// TestTurn_Version2DraftAcceptsEmptyAnswer: version 1 has no such answer.
func TestTurn_Version2DraftAcceptsEmptyAnswer(t *testing.T) {
	r := newRig(t)
	r.open(`{}`)
	for version, want := range map[string]int{"1": 0, "2": 1} {
		r.client.send(`{"id":0,"method":"initialize","params":{"protocolVersion":` + version + `}}`)
		r.agent.next()
		r.agent.send(`{"id":0,"result":{"protocolVersion":` + version + `}}`)
		r.client.next()
		r.client.send(`{"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}`)
		r.agent.next()
		r.agent.send(`{"id":1,"result":{}}`)
		r.client.want(`{"id":1,"result":{}}`)
		if got := r.opts.Sessions.Prompting(); len(got) != want {
			t.Errorf("version %s: turns are under way in %q, want in %d sessions", version, got, want)
		}
		r.agent.send(`{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle"}}}`)
		r.client.next()
	}
}
