package link

import (
	"context"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/acphost/acphost/internal/hosts"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/containment"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/egress"
)

func TestLink_ReachesListenersOfAgent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	own := uint16(listener.Addr().(*net.TCPAddr).Port)
	r := newRig(t, contained(nil, containment.Proxy{}, func(o *containment.Options) { o.AgentPID = os.Getpid }))
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
