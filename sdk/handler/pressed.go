package handler

import (
	"net"
	"sync"

	"google.golang.org/grpc/credentials"

	"github.com/acphost/acphost/internal/connlimit"
)

// pressed limits the unauthenticated TCP connections: any host can open many without sending data. At the limit, the
// oldest connection of the origin with the most connections is evicted.
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

// arriving is a connection during its handshake.
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

// telling are credentials that report the end of a connection's handshake.
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
