package handler

import (
	"net"
	"sync"

	"google.golang.org/grpc/credentials"

	"github.com/acphost/acphost/internal/connlimit"
)

// pressed bounds the connections over TCP of which nobody knows yet whose they are: anybody can connect, as often as it
// likes, and say nothing. Where there are too many, the oldest of whoever has most is dropped.
type pressed struct {
	net.Listener
	arriving *connlimit.Limiter
}

func newPressed(l net.Listener, most int) *pressed {
	return &pressed{Listener: l, arriving: connlimit.New(most, most/2, connlimit.EvictOldest)}
}

// Accept implements net.Listener.
func (p *pressed) Accept() (net.Conn, error) {
	conn, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	leave, _ := p.arriving.Admit(connlimit.AddressOf(conn), func() { _ = conn.Close() })
	return &arriving{Conn: conn, leave: leave}, nil
}

// arriving is a connection whose handshake is not over.
type arriving struct {
	net.Conn
	leave func()
	once  sync.Once
}

func (a *arriving) arrived() { a.once.Do(a.leave) }

// Close implements net.Conn.
func (a *arriving) Close() error {
	a.arrived()
	return a.Conn.Close()
}

// telling are credentials that say of a connection when it has arrived.
type telling struct {
	credentials.TransportCredentials
}

// ServerHandshake implements credentials.TransportCredentials.
func (t telling) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	known, who, err := t.TransportCredentials.ServerHandshake(conn)
	if a, ok := conn.(*arriving); ok {
		a.arrived()
	}
	return known, who, err
}

// Clone implements credentials.TransportCredentials.
func (t telling) Clone() credentials.TransportCredentials {
	return telling{t.TransportCredentials.Clone()}
}
