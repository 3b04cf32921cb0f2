package sandbox

import (
	"net"
	"testing"
)

func TestThrough_AllowsOwnListeners(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(listener.Addr().(*net.TCPAddr).Port)
	through := Through{Decider: Lists{}}
	for name, tt := range map[string]struct {
		to   Address
		want bool
	}{
		"own listener":           {Address{Network: "tcp", Host: "127.0.0.1", Port: port}, true},
		"own listener, mapped":   {Address{Network: "tcp", Host: "::ffff:127.0.0.1", Port: port}, true},
		"a port without one":     {Address{Network: "tcp", Host: "127.0.0.1", Port: 1}, false},
		"not by TCP":             {Address{Network: "udp", Host: "127.0.0.1", Port: port}, false},
		"another machine's port": {Address{Network: "tcp", Host: "192.0.2.1", Port: port}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := through.Allows(Event{Operation: Connect, Address: tt.to}); got != tt.want {
				t.Errorf("%v: got %v, want %v", tt.to, got, tt.want)
			}
		})
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if through.Allows(Event{Operation: Connect, Address: Address{Network: "tcp", Host: "127.0.0.1", Port: port}}) {
		t.Error("a port at which no process listens any more is allowed")
	}
}

func TestThrough_LetsDeciderDecideAboutLoopback(t *testing.T) {
	for name, tt := range map[string]struct {
		through Through
		to      Address
		want    bool
	}{
		"a Decider that decides on no port": {Through{Decider: Lists{}}, Address{Network: "tcp", Host: "127.0.0.1", Port: 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.through.Allows(Event{Operation: Connect, Address: tt.to}); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
