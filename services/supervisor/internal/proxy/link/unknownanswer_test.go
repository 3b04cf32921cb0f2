package link

import (
	"context"
	"testing"

	"github.com/acphost/acphost/internal/proc"
)

func TestLink_DropsUnknownAgentAnswers(t *testing.T) {
	r := newRig(t)
	r.open(`{}`)
	r.client.send(promptS)
	r.agent.want(promptS)
	ended := `{"jsonrpc":"2.0","id":"turn","result":{"stopReason":"end_turn"}}`
	unread := `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what was that?"}}` // belongs to no request
	r.agent.send(`{"jsonrpc":"2.0","id":"nobody","result":{}}`, ended, ended, `{"jsonrpc":"2.0","id":"turn","error":{"code":1,"message":"no"}}`, unread)
	r.client.want(ended)
	r.client.want(unread)
	if got := r.Counters().GetRefusedMessages(); got != 3 {
		t.Errorf("%d messages are counted as refused, want 3", got)
	}
}

func TestLink_AnswersRequestWithNullID(t *testing.T) {
	r := newRig(t)
	r.open(`{}`)
	for range 2 { // the id is free again
		ask, no := `{"jsonrpc":"2.0","id":null,"method":"_z/ask"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}`
		r.agent.send(ask)
		r.client.want(ask)
		r.client.send(no)
		r.agent.want(no)
	}
}

func TestQueue_AcceptsNothingAfterWait(t *testing.T) {
	q := newQueue(t.Context(), Limits{}, &proc.Pace{})
	q.wait()
	if q.add(job{run: func(context.Context) { t.Error("it is worked on") }}) {
		t.Error("a job is taken after the wait began: it could begin after its end")
	}
}
