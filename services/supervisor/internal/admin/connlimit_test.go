package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/connlimit"
	"github.com/acphost/acphost/internal/testkit"
)

type hello string

func (hello) Network() string  { return "test" }
func (h hello) String() string { return string(h) }

func TestBounds_LeaveFilesToOthers(t *testing.T) {
	for files, want := range map[uint64]int{0: 256, 64: 16, 256: 32, 1024: 128, 1 << 20: 256} {
		if b := usualBounds(connlimit.RoomOf(files)); b.handshakes != want || b.untrusted != want/4 || b.handshakesEach > b.handshakes/2 || b.untrustedEach > b.untrusted/2 || b.untrustedEach < 1 {
			t.Errorf("of %d files: %+v, want %d handshakes", files, b, want)
		}
	}
}

// tcpAcceptor returns an acceptor on every address of loopback, with real sockets. It identifies every peer that sends
// data.
func tcpAcceptor(t *testing.T, b bounds) (d *acceptor, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d = &acceptor{
		endpoint: endpoint{listener: listener, origin: connlimit.AddressOf, slow: true, identify: func(ctx context.Context, conn net.Conn) (net.Conn, identity, error) {
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				return nil, identity{}, err
			}
			return conn, identity{certificate: true, role: certs.Operator}, nil
		}},
		bounds: b, trusted: newMemListener(), untrusted: newMemListener(), logger: slog.New(slog.DiscardHandler),
	}
	d.open()
	t.Cleanup(d.close)
	return d, listener.Addr().String()
}

func dialFrom(t *testing.T, ip, address string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	conn, err := dialer.Dial("tcp", address)
	if err != nil {
		t.Skipf("this system has no %s: %v", ip, err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// isDropped reports whether the other end hangs up. It waits for that.
func isDropped(t *testing.T, conn net.Conn) bool {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(testkit.Timeout())); err != nil {
		t.Fatal(err)
	}
	_, err := conn.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

func TestConnLimit_OneAddressCannotBlockOthers(t *testing.T) {
	d, address := tcpAcceptor(t, bounds{handshakes: 8, handshakesEach: 4, untrusted: 1, untrustedEach: 1, calls: 1, callsEach: 1})
	// A slow client that connects before the flood.
	slow := dialFrom(t, "127.0.0.2", address)
	var flood []net.Conn
	for range 200 {
		flood = append(flood, dialFrom(t, "127.0.0.1", address))
	}
	// All except the last four connections of the flood are evicted, and no others.
	for _, conn := range flood[:196] {
		if !isDropped(t, conn) {
			t.Fatal("a connection of the flood is still open")
		}
	}
	enters := func(conn net.Conn) {
		t.Helper()
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		arrived, err := d.trusted.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := arrived.RemoteAddr().String(), conn.LocalAddr().String(); got != want {
			t.Fatalf("%s was accepted, want %s", got, want)
		}
		_ = arrived.Close()
	}
	enters(slow)
	enters(dialFrom(t, "127.0.0.2", address))
	enters(dialFrom(t, "127.0.0.1", address)) // the newest of the flood's own address, too
}

func TestConnLimit_EvictsForNewAddress(t *testing.T) {
	d, address := tcpAcceptor(t, bounds{handshakes: 4, handshakesEach: 2, untrusted: 1, untrustedEach: 1, calls: 1, callsEach: 1})
	var flood []net.Conn
	for i := range 20 {
		flood = append(flood, dialFrom(t, fmt.Sprintf("127.0.1.%d", i+1), address))
	}
	for _, conn := range flood[:16] {
		if !isDropped(t, conn) {
			t.Fatal("a connection of the flood is still open")
		}
	}
	last := dialFrom(t, "127.0.0.2", address)
	if _, err := last.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	arrived, err := d.trusted.Accept()
	if err != nil || arrived.RemoteAddr().String() != last.LocalAddr().String() {
		t.Fatalf("%v, %v were accepted", arrived, err)
	}
	_ = arrived.Close()
}

// noFiles accepts nothing, as when there are no more files.
type noFiles struct {
	net.Listener
	asked chan struct{}
}

func (l noFiles) Accept() (net.Conn, error) {
	select {
	case l.asked <- struct{}{}:
	default:
	}
	return nil, errors.New("too many open files")
}

func (noFiles) Close() error   { return nil }
func (noFiles) Addr() net.Addr { return hello("nowhere") }

func TestAcceptor_ClosesDespiteAcceptErrors(t *testing.T) {
	l := noFiles{asked: make(chan struct{})}
	d := &acceptor{endpoint: endpoint{listener: l, origin: noOrigin}, bounds: usualBounds(connlimit.Room()), trusted: newMemListener(), untrusted: newMemListener(), logger: slog.New(slog.DiscardHandler)}
	d.open()
	<-l.asked
	d.close()
}
