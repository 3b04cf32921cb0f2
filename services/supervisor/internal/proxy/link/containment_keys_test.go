package link

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	"github.com/acphost/acphost/internal/testkit"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/containment"
)

// similar are two paths whose shortened forms for people are equal.
var similar = func() [2]string {
	head, tail := "/x/"+strings.Repeat("a", 200), strings.Repeat("b", 200)
	return [2]string{head + "/1/" + tail, head + "/2/" + tail}
}()

func TestKernel_RecordsWholePathOfDenials(t *testing.T) {
	var mu sync.Mutex
	var denied []string
	r := newRig(t, func(o *Options) {
		conn := o.Conn
		o.Gate = gate.New(gate.Options{
			Chain:    []gate.Policy{{Name: "permission", Conn: func() (grpc.ClientConnInterface, error) { return conn("") }}},
			Enforced: true, Logger: o.Logger,
			Denied: func(rec *supervisorv1.AuditRecord) {
				mu.Lock()
				defer mu.Unlock()
				denied = append(denied, rec.GetAction().GetPaths()[0].GetPath())
			},
		})
	}, contained(&containment.Sandbox{}, containment.Proxy{}))
	r.handler.decide = func(context.Context, *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_DENY, Rule: "no"}, nil
	}
	r.open(`{}`)
	r.client.send(promptS)
	r.agent.want(promptS)
	for _, path := range []string{similar[0], similar[1], similar[0]} {
		r.decider.Judge(t.Context(), decisions.Asked{Program: "agent", Event: sandbox.Event{Operation: sandbox.Write, PID: os.Getpid(), Path: path}})
	}
	for range similar {
		if got := r.client.next(); !strings.Contains(got, deniedTitle) {
			t.Errorf("got %s, want that the action was denied", got)
		}
	}
	testkit.Eventually(t, "both denials are recorded", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(denied) >= len(similar)
	})
	mu.Lock()
	defer mu.Unlock()
	if len(denied) != 2 || denied[0] != similar[0] || denied[1] != similar[1] {
		t.Errorf("recorded %q, want %q", denied, similar)
	}
}

func TestKernel_AsksWithWholePath(t *testing.T) {
	r := newRig(t, contained(&containment.Sandbox{}, containment.Proxy{}))
	r.open(`{}`)
	r.client.send(promptS)
	r.agent.want(promptS)
	for _, path := range []string{similar[0], similar[1], similar[0]} {
		r.decider.Judge(t.Context(), decisions.Asked{Program: "agent", Event: sandbox.Event{Operation: sandbox.Write, PID: os.Getpid(), Path: path}})
	}
	asked := map[string]bool{}
	for len(asked) < len(similar) {
		got := r.client.next()
		for _, path := range similar {
			if strings.Contains(got, `"session/request_permission"`) && strings.Contains(got, path) {
				asked[path] = true
			}
		}
	}
}

// TestKernel_AsksInNewestTurn has a turn that hangs, and a newer one in another session.
func TestKernel_AsksInNewestTurn(t *testing.T) {
	r := newRig(t, contained(&containment.Sandbox{}, containment.Proxy{}))
	r.open(`{}`)
	r.client.send(promptS)
	r.agent.want(promptS)
	r.openToo("s2")
	prompt := strings.NewReplacer(`"sessionId":"s"`, `"sessionId":"s2"`, `"id":"turn"`, `"id":"turn2"`).Replace(promptS)
	r.client.send(prompt)
	r.agent.want(prompt)
	r.decider.Judge(t.Context(), decisions.Asked{Program: "agent", Event: sandbox.Event{Operation: sandbox.Write, PID: os.Getpid(), Path: similar[0]}})
	for got := ""; !strings.Contains(got, `"session/request_permission"`); {
		if got = r.client.next(); strings.Contains(got, `"sessionId"`) && !strings.Contains(got, `"sessionId":"s2"`) {
			t.Fatalf("the client got %s, want a question of the session s2", got)
		}
	}
}
