package handler

import (
	"net"
	"sync"

	"google.golang.org/grpc/credentials"

	"github.com/acphost/acphost/internal/connlimit"
)

// handshakeListener limits the unauthenticated TCP connections: any host can open many without sending data. At the
// limit, the oldest connection of the origin with the most connections is evicted.
type handshakeListener struct {
	net.Listener
	pending *connlimit.Limiter
}

func newHandshakeListener(l net.Listener, limit int) *handshakeListener {
	return &handshakeListener{Listener: l, pending: connlimit.New(limit, limit/2, connlimit.EvictOldest)}
}

// Accept implements net.Listener.
func (p *handshakeListener) Accept() (net.Conn, error) {
	conn, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	release, _ := p.pending.Admit(connlimit.AddressOf(conn), func() { _ = conn.Close() })
	return &pendingConn{Conn: conn, release: release}, nil
}

// pendingConn is a connection during its handshake.
type pendingConn struct {
	net.Conn
	release func()
	once    sync.Once
}

func (a *pendingConn) handshakeDone() { a.once.Do(a.release) }

// Close implements net.Conn.
func (a *pendingConn) Close() error {
	a.handshakeDone()
	return a.Conn.Close()
}

// reportingCredentials are credentials that report the end of a connection's handshake.
type reportingCredentials struct {
	credentials.TransportCredentials
}

// ServerHandshake implements credentials.TransportCredentials.
func (t reportingCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	known, info, err := t.TransportCredentials.ServerHandshake(conn)
	if a, ok := conn.(*pendingConn); ok {
		a.handshakeDone()
	}
	return known, info, err
}

// Clone implements credentials.TransportCredentials.
func (t reportingCredentials) Clone() credentials.TransportCredentials {
	return reportingCredentials{t.TransportCredentials.Clone()}
}
