package link

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/containment"
)

func TestContainment_LimitsNoticesOfTurn(t *testing.T) {
	r := newRig(t, contained(&containment.Sandbox{}, containment.Proxy{}))
	r.handler.decide = func(context.Context, *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_DENY, Rule: "no"}, nil
	}
	r.open(`{}`)
	const maxNotices = 20 // of package containment
	const more = "More of what the agent does in this turn is denied"
	for turn := range 2 {
		prompt := strings.Replace(promptS, `"turn"`, fmt.Sprint(turn), 1)
		r.client.send(prompt)
		r.agent.want(prompt)
		for i := range maxNotices + 5 {
			r.decider.Judge(t.Context(), decisions.Asked{Program: "agent", Event: sandbox.Event{Operation: sandbox.Write, PID: os.Getpid(), Path: fmt.Sprintf("/x/%d", i)}})
		}
		for i := range maxNotices {
			if got := r.client.next(); !strings.Contains(got, deniedTitle+": write /x/"+fmt.Sprint(i)+" ") {
				t.Fatalf("told %s", got)
			}
		}
		if got := r.client.next(); !strings.Contains(got, more) {
			t.Errorf("told %s, want %q", got, more)
		}
		ended := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"end_turn"}}`, turn)
		r.agent.send(ended)
		r.client.want(ended) // and no further notice was sent
	}
}
