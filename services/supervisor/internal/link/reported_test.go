package link

import (
	"context"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// An agent may end just after it reported what it did, and "acphost prompt" ends it just after the turn.
func TestAReportIsJudgedThoughTheAgentEndsMeanwhile(t *testing.T) {
	r := gatedRig(t)
	asked := make(chan struct{})
	r.handler.decide = func(context.Context, *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		close(asked)
		<-r.queue.ctx.Done() // the link ends
		return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_DENY}, nil
	}
	r.open(`{}`)
	r.agent.send(`{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"t",` +
		`"title":"ls","kind":"execute","status":"completed","rawInput":{"command":"ls"}}}}`)
	<-asked
	_ = r.agent.in.Close()
	if got := <-r.ended; got != AgentGone {
		t.Errorf("the link ended with %v, want %v", got, AgentGone)
	}
	if got := r.opts.Gate.Counters().GetUnasked()["deny"]; got != 1 {
		t.Errorf("%d reports were judged as denied, want 1: %v", got, r.opts.Gate.Counters())
	}
}
