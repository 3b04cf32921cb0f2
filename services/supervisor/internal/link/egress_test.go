package link

import (
	"context"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/containment"
	"github.com/acphost/acphost/services/supervisor/internal/egress"
)

func TestLink_ReachesListenersOfTheAgent(t *testing.T) {
	const own = 4096
	r := newRig(t, contained(nil, containment.Proxy{Listens: func(port uint16) bool { return port == own }}))
	r.handler.decide = func(context.Context, *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_DENY}, nil
	}
	r.open(`{}`)
	target := func(host string, port uint16, addresses ...string) egress.Target {
		name, err := hosts.Parse(host)
		if err != nil {
			t.Fatal(err)
		}
		to := egress.Target{Host: name, Port: port}
		for _, a := range addresses {
			to.Addresses = append(to.Addresses, netip.MustParseAddr(a))
		}
		return to
	}
	for name, tt := range map[string]struct {
		to   egress.Target
		want egress.Verdict
	}{
		"an address":                  {target("127.0.0.1", own, "127.0.0.1"), egress.Allow},
		"a name, not looked up yet":   {target("localhost", own), egress.Allow},
		"a name":                      {target("localhost", own, "::1", "127.0.0.1"), egress.Allow},
		"another port":                {target("127.0.0.1", own+1, "127.0.0.1"), egress.Refuse},
		"another machine":             {target("192.0.2.1", own, "192.0.2.1"), egress.Refuse},
		"a name of another machine":   {target("example.com", own), egress.Refuse},
		"a name with another address": {target("localhost", own, "127.0.0.1", "192.0.2.1"), egress.Refuse},
	} {
		t.Run(name, func(t *testing.T) {
			if got := r.decider.Reaches(t.Context(), tt.to); got.Verdict != tt.want || tt.want == egress.Allow && !got.Special {
				t.Errorf("got %+v, want %v", got, tt.want)
			}
		})
	}
}

func TestLink_DecidesDirectConnectionsToThisMachine(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	port := uint16(listener.Addr().(*net.TCPAddr).Port)
	verdict := permissionv1.Verdict_VERDICT_ALLOW
	confined := &containment.Sandbox{How: sandbox.Confinement{Closed: true, Proxy: "127.0.0.1:1"}, Closed: "only the proxy"}
	r := newRig(t, contained(confined, containment.Proxy{}))
	asked := 0
	r.handler.decide = func(_ context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		asked++
		return &permissionv1.DecideResponse{Verdict: verdict, NamesAddresses: len(a.GetEndpoint().GetAddresses()) > 0}, nil
	}
	r.open(`{}`)
	expect := func(what string, want bool, questions int, to sandbox.Address) {
		t.Helper()
		asked = 0
		e := sandbox.Event{Operation: sandbox.Connect, PID: os.Getpid(), Address: to}
		got := r.decider.Judge(t.Context(), decisions.Asked{Event: e, Program: "agent"})
		if got.Allowed != want || asked != questions {
			t.Errorf("%s: got %t (%s) after %d decisions of the policy, want %t after %d", what, got.Allowed, got.Why, asked, want, questions)
		}
	}
	here := sandbox.Address{Network: "tcp", Host: "127.0.0.1", Port: port}
	expect("a port that a rule names", true, 1, here)
	expect("by UDP", false, 0, sandbox.Address{Network: "udp", Host: "127.0.0.1", Port: port})
	expect("another machine", false, 0, sandbox.Address{Network: "tcp", Host: "192.0.2.1", Port: port})
	verdict = permissionv1.Verdict_VERDICT_DENY
	expect("a port that a rule denies", false, 1, here)
	verdict = permissionv1.Verdict_VERDICT_ALLOW
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	expect("a port without a listener", false, 0, here)
}
