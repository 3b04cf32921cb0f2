package server

import (
	"context"
	"net"
	"sync"

	"github.com/acphost/acphost/internal/connlimit"
)

// sendBuffer is how many bytes the kernel buffers for a client that does not read. Linux would use up to 4 MiB each.
// After a lost stream, a client needs these bytes again, so they must fit into relay.Limits.Replay.
const sendBuffer = 256 << 10

// ConnLimiter limits the connections. A quarter of them may be unauthenticated: if the limit is reached, the oldest
// connection of the address with most of them is evicted, so that a client that authenticates at once gets in. An
// authenticated connection counts towards the other three quarters, which unauthenticated connections cannot use. If
// their limit is reached, the oldest connection of the owner with most of them is evicted. One address or owner may
// have half of either limit. Safe for concurrent use.
type ConnLimiter struct{ unauthenticated, authenticated *connlimit.Limiter }

// NewConnLimiter returns a ConnLimiter for limit connections, at least 4.
func NewConnLimiter(limit int) *ConnLimiter {
	unauthenticated := max(limit/4, 2)
	return &ConnLimiter{
		unauthenticated: connlimit.New(unauthenticated, max(unauthenticated/2, 1), connlimit.EvictOldest),
		authenticated:   connlimit.New(limit-unauthenticated, max((limit-unauthenticated)/2, 1), connlimit.EvictLargest),
	}
}

// Listen returns a listener with the limits of d. Context must be the http.Server's ConnContext.
func (d *ConnLimiter) Listen(l net.Listener) net.Listener {
	return &limitedListener{Listener: l, limiter: d}
}

type limitedListener struct {
	net.Listener
	limiter *ConnLimiter
}

func (l *limitedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer)
	}
	c := &limitedConn{Conn: conn, limiter: l.limiter}
	release, _ := l.limiter.unauthenticated.Admit(connlimit.AddressOf(conn), func() { _ = conn.Close() })
	c.mu.Lock()
	c.release = release
	gone := c.closed
	c.mu.Unlock()
	if gone {
		release()
	}
	return c, nil
}

// limitedConn is a connection with an entry in a limiter.
type limitedConn struct {
	net.Conn
	limiter *ConnLimiter

	mu            sync.Mutex // guards the fields below
	release       func()
	authenticated bool
	closed        bool
}

func (c *limitedConn) Close() error {
	c.mu.Lock()
	release := c.release
	c.closed = true
	c.mu.Unlock()
	if release != nil {
		release()
	}
	return c.Conn.Close()
}

// setOwner moves the connection to the limit of authenticated connections of an owner. If that has no room, the
// connection stays under the other limit.
func (c *limitedConn) setOwner(owner string) {
	c.mu.Lock()
	if c.authenticated || c.closed {
		c.mu.Unlock()
		return
	}
	c.authenticated = true
	c.mu.Unlock()
	release, ok := c.limiter.authenticated.Admit(owner, func() { _ = c.Conn.Close() })
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !ok:
		c.authenticated = false
	case c.closed:
		release()
	default:
		c.release()
		c.release = release
	}
}

type connKey struct{}

// Context is for an http.Server's ConnContext: it adds the connection to the context of its requests.
func (d *ConnLimiter) Context(ctx context.Context, conn net.Conn) context.Context {
	if inner, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = inner.NetConn()
	}
	if c, ok := conn.(*limitedConn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// recordOwner records the owner of a request's connection.
func recordOwner(ctx context.Context, owner string) {
	if c, ok := ctx.Value(connKey{}).(*limitedConn); ok {
		c.setOwner(owner)
	}
}
