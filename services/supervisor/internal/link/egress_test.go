package link

import (
	"context"
	"net/netip"
	"testing"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/egress"
)

func TestWhatLeadsOutOfAnAgentWithoutAnOpenNetwork(t *testing.T) {
	tcp := sandbox.Address{Network: "tcp", Host: "1.1.1.1", Port: 443}
	unix := sandbox.Address{Network: "unix"}
	for name, c := range map[string]struct {
		e    kernelEvent
		want bool
	}{
		"a machine":             {kernelEvent{Asked: decisions.Asked{Event: sandbox.Event{Operation: sandbox.Connect, Address: tcp}}}, true},
		"by the proxy":          {kernelEvent{Asked: decisions.Asked{Event: sandbox.Event{Operation: sandbox.Connect, Address: tcp}}, to: &hosts.Endpoint{}}, false},
		"another protocol":      {kernelEvent{Asked: decisions.Asked{Event: sandbox.Event{Operation: sandbox.Connect, Address: sandbox.Address{Network: "ip"}}}}, true},
		"a name service":        {kernelEvent{Asked: decisions.Asked{Event: sandbox.Event{Operation: sandbox.Connect, Address: unix, Path: "/run/systemd/resolve/io.systemd.Resolve"}}}, true},
		"another unix socket":   {kernelEvent{Asked: decisions.Asked{Event: sandbox.Event{Operation: sandbox.Connect, Address: unix, Path: "/run/user/1/bus"}}}, false},
		"a name, not a path":    {kernelEvent{Asked: decisions.Asked{Event: sandbox.Event{Operation: sandbox.Connect, Address: sandbox.Address{Network: "unix", Host: "@x"}}}}, false},
		"reading such a socket": {kernelEvent{Asked: decisions.Asked{Event: sandbox.Event{Operation: sandbox.Read, Path: "/run/nscd/socket"}}}, false},
	} {
		if got := c.e.leadsOut(); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestLink_ReachesListenersOfTheAgent(t *testing.T) {
	const own = 4096
	r := newRig(t, func(o *Options) { o.Egress.Listens = func(port uint16) bool { return port == own } })
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
			if got := r.Reaches(t.Context(), tt.to); got.Verdict != tt.want || tt.want == egress.Allow && !got.Special {
				t.Errorf("got %+v, want %v", got, tt.want)
			}
		})
	}
}
