package gate

import (
	"context"
	"log/slog"
	"testing"

	"google.golang.org/grpc"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/policy/grant"
)

// outsideCall is a call on a file outside of the roots, at a handler.
func outsideCall(kind string, access permissionv1.Access) Request {
	a := fileCall(kind, "/out/f", access)
	a.Paths[0].InsideRoots = false
	r := request(a)
	r.Outside = true
	return r
}

// askingGate has a policy that asks about everything, and allows answers to be remembered.
func askingGate(t *testing.T) *Gate {
	t.Helper()
	grants, err := grant.Open(grant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	asks := policy(func(context.Context) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: Ask, Grantable: true}, nil
	})
	return New(Options{Chain: []Policy{{Name: "p", Conn: func() (grpc.ClientConnInterface, error) { return asks, nil }}},
		Enforced: true, Grants: grants, Logger: slog.New(slog.DiscardHandler)})
}

func TestDecision_Outside(t *testing.T) {
	allowed, once := Outcome{Allowed: true}, Outcome{Allowed: true, By: ByClient, Option: acp.AllowOnce}
	for name, c := range map[string]struct {
		d    Decision
		o    Outcome
		want bool
	}{
		"a person":                            {Decision{Verdict: Ask, By: ByPolicy}, once, true},
		"a person who refuses":                {Decision{Verdict: Ask, By: ByPolicy}, Outcome{Option: acp.RejectOnce}, false},
		"a person who saw something else":     {Decision{Verdict: Ask, By: ByPolicy}, Outcome{Allowed: true, Option: acp.AllowOnce, Doubtful: true}, false},
		"a person, before":                    {Decision{Verdict: Allow, By: ByEarlier, person: true}, allowed, true},
		"a policy, before":                    {Decision{Verdict: Allow, By: ByEarlier}, allowed, false},
		"a remembered answer":                 {Decision{Verdict: Allow, By: ByGrant}, allowed, true},
		"a rule that names the place":         {Decision{Verdict: Allow, By: ByPolicy, names: true}, allowed, true},
		"a rule that does not":                {Decision{Verdict: Allow, By: ByPolicy}, allowed, false},
		"nobody, where the policy asks":       {Decision{Verdict: Ask, By: ByPolicy, names: true}, Outcome{Allowed: true, By: ByTimeout}, false},
		"a rule that names it, and no record": {Decision{Verdict: Allow, By: ByPolicy, names: true}, Outcome{}, false},
	} {
		if got := c.d.Outside(c.o); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestDecide_EarlierAnswerOutsideNeedsDiff(t *testing.T) {
	yes := Outcome{Allowed: true, By: ByClient, Option: acp.AllowOnce}
	always := Outcome{Allowed: true, By: ByClient, Option: acp.AllowAlways}
	for name, c := range map[string]struct {
		asked *permissionv1.Action
		o     Outcome
		want  [2]string // which component decides the read and the write
	}{
		"a diff showed it":              {editOf("t", "/out/f"), yes, [2]string{ByEarlier, ByEarlier}},
		"its name alone was said":       {readOf("/out/f"), yes, [2]string{ByPolicy, ByPolicy}},
		"its name was said, and always": {readOf("/out/f"), always, [2]string{ByPolicy, ByPolicy}},
	} {
		t.Run(name, func(t *testing.T) {
			g := askingGate(t)
			c.asked.Paths[0].InsideRoots = false
			settle(t, g, request(c.asked), c.o)
			for i, r := range []Request{outsideCall("fs.read", read), outsideCall("fs.write", write)} {
				d, err := g.Decide(t.Context(), r)
				if err != nil || d.By != c.want[i] {
					t.Errorf("%s is decided by %s (%v), want %s", r.Action.GetKind(), d.By, err, c.want[i])
				}
			}
		})
	}
}

func TestRecord_RemembersAnswerOutside(t *testing.T) {
	g := askingGate(t)
	settle(t, g, outsideCall("fs.write", write), Outcome{Allowed: true, By: ByClient, Option: acp.AllowAlways})
	if d := settle(t, g, outsideCall("fs.write", write), Outcome{}); d.By != ByGrant || !d.Outside(Outcome{Allowed: true}) {
		t.Errorf("the second write is decided by %s", d.By)
	}
}
