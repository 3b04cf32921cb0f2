package admin

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/peer"
)

// lives is a live process.
type lives struct{}

func (lives) Alive() error { return nil }
func (lives) Close()       {}

// Agents have any number of processes, and each of them has its own connections and calls.
func TestAcceptor_AgentsCannotBlockPeople(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	callers := make(chan peer.Peer, 1)
	d := &acceptor{
		endpoint: endpoint{listener: listener, origin: noOrigin, identify: func(_ context.Context, conn net.Conn) (net.Conn, identity, error) {
			return conn, identity{process: <-callers}, nil
		}},
		bounds:  bounds{handshakes: 8, handshakesEach: 8, untrusted: 4, untrustedEach: 2, calls: 4, callsEach: 2},
		trusted: newMemListener(), untrusted: newMemListener(), logger: slog.New(slog.DiscardHandler),
	}
	d.open()
	t.Cleanup(d.close)
	connect := func(c peer.Peer) net.Conn {
		t.Helper()
		callers <- c
		conn, err := net.Dial("unix", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	enters := func(c peer.Peer) identity {
		t.Helper()
		connect(c)
		arrived, err := d.untrusted.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = arrived.Close() })
		return arrived.(*identifiedConn).who
	}
	agent := func(pid int) peer.Peer {
		return peer.Peer{Known: true, UID: os.Geteuid(), PID: pid, Process: hasEnded{}}
	}
	for pid := range 4 {
		id := enters(agent(1000 + pid))
		if _, ok := id.calls.Admit(id.origin(), nil); !ok {
			t.Fatal("an agent may not even call")
		}
	}
	if !isDropped(t, connect(agent(2000))) {
		t.Fatal("a fifth agent was accepted")
	}
	person := peer.Peer{Known: true, UID: os.Geteuid(), PID: os.Getpid(), Process: lives{}}
	id := enters(person)
	if _, ok := id.calls.Admit(id.origin(), nil); !ok {
		t.Error("a person was accepted, and may not call")
	}
	enters(person)
	if !isDropped(t, connect(person)) {
		t.Error("persons have no bound")
	}
}

func TestControlSocket_ReportsUnseenCaller(t *testing.T) {
	err := checkVerb(peer.Peer{Known: true, UID: os.Geteuid()})
	if got := status.Convert(err); got.Code() != codes.PermissionDenied || got.Message()[:len("who calls cannot be seen")] != "who calls cannot be seen" {
		t.Errorf("got %v", err)
	}
}
