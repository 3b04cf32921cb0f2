package containment

import (
	"testing"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
)

func TestEvent_ConnectsOut(t *testing.T) {
	tcp := sandbox.Address{Network: "tcp", Host: "1.1.1.1", Port: 443}
	unix := sandbox.Address{Network: "unix"}
	for name, c := range map[string]struct {
		e    event
		want bool
	}{
		"a machine":             {event{Asked: decisions.Asked{Event: sandbox.Event{Operation: sandbox.Connect, Address: tcp}}}, true},
		"by the proxy":          {event{Asked: decisions.Asked{Event: sandbox.Event{Operation: sandbox.Connect, Address: tcp}}, to: &hosts.Endpoint{}}, false},
		"another protocol":      {event{Asked: decisions.Asked{Event: sandbox.Event{Operation: sandbox.Connect, Address: sandbox.Address{Network: "ip"}}}}, true},
		"a name service":        {event{Asked: decisions.Asked{Event: sandbox.Event{Operation: sandbox.Connect, Address: unix, Path: "/run/systemd/resolve/io.systemd.Resolve"}}}, true},
		"another unix socket":   {event{Asked: decisions.Asked{Event: sandbox.Event{Operation: sandbox.Connect, Address: unix, Path: "/run/user/1/bus"}}}, false},
		"a name, not a path":    {event{Asked: decisions.Asked{Event: sandbox.Event{Operation: sandbox.Connect, Address: sandbox.Address{Network: "unix", Host: "@x"}}}}, false},
		"reading such a socket": {event{Asked: decisions.Asked{Event: sandbox.Event{Operation: sandbox.Read, Path: "/run/nscd/socket"}}}, false},
	} {
		if got := c.e.connectsOut(); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
