package link

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/testkit"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/containment"
)

// An agent may end just after it reported an action, and "acphost prompt" ends it just after the turn.
func TestReported_JudgedAfterAgentEnd(t *testing.T) {
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

// An action that the sandbox observed is not reported again. If the sandbox could not observe the turn, the agent's report counts.
func TestReported_CountsIfSandboxMissedActions(t *testing.T) {
	r := gatedRig(t, contained(&containment.Sandbox{How: sandbox.Confinement{Observe: true}}, containment.Proxy{}))
	var mu sync.Mutex
	var judged []string
	r.handler.decide = func(_ context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		mu.Lock()
		defer mu.Unlock()
		judged = append(judged, a.GetCommand().GetText())
		return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ASK}, nil
	}
	r.open(`{}`)
	turn := func(command string, lost bool) {
		r.client.send(promptS)
		r.agent.want(promptS)
		if lost {
			r.decider.Refused(os.Getpid(), "sh", "a call")
		}
		report := fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call",`+
			`"toolCallId":"t","title":"x","kind":"execute","status":"completed","rawInput":{"command":"%s"}}}}`, command)
		r.agent.send(report)
		r.client.want(report)
		if lost {
			testkit.Eventually(t, "the report is judged", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return slices.Contains(judged, command)
			})
		}
		ended := `{"jsonrpc":"2.0","id":"turn","result":{"stopReason":"end_turn"}}`
		r.agent.send(ended)
		r.client.want(ended)
	}
	turn("ls seen", false)
	turn("ls lost", true)
	turn("ls again", false)
	_ = r.agent.in.Close()
	r.end() // after the work in progress
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(judged, []string{"ls lost"}) {
		t.Errorf("these reports were judged: %q", judged)
	}
}
