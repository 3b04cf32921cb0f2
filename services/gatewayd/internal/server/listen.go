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

// Door limits the connections. A quarter of them may be unauthenticated: if the limit is reached, the oldest connection
// of the address with most of them is evicted, so that a client that authenticates at once gets in. An authenticated
// connection counts towards the other three quarters, which unauthenticated connections cannot use. If their limit is
// reached, the oldest connection of the owner with most of them is evicted. One address or owner may have half of
// either limit. Safe for concurrent use.
type Door struct{ strangers, known *connlimit.Limiter }

// NewDoor returns a Door for most connections, at least 4.
func NewDoor(most int) *Door {
	strangers := max(most/4, 2)
	return &Door{
		strangers: connlimit.New(strangers, max(strangers/2, 1), connlimit.EvictOldest),
		known:     connlimit.New(most-strangers, max((most-strangers)/2, 1), connlimit.EvictLargest),
	}
}

// Listen returns a listener with the limits of the Door. Context must be the http.Server's ConnContext.
func (d *Door) Listen(l net.Listener) net.Listener { return &limited{Listener: l, door: d} }

type limited struct {
	net.Listener
	door *Door
}

func (l *limited) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer)
	}
	c := &counted{Conn: conn, door: l.door}
	leave, _ := l.door.strangers.Admit(connlimit.AddressOf(conn), func() { _ = conn.Close() })
	c.mu.Lock()
	c.leave = leave
	gone := c.closed
	c.mu.Unlock()
	if gone {
		leave()
	}
	return c, nil
}

// counted is a connection with an entry in a limiter.
type counted struct {
	net.Conn
	door *Door

	mu     sync.Mutex // guards the fields below
	leave  func()
	known  bool
	closed bool
}

func (c *counted) Close() error {
	c.mu.Lock()
	leave := c.leave
	c.closed = true
	c.mu.Unlock()
	if leave != nil {
		leave()
	}
	return c.Conn.Close()
}

// isKnown moves the connection to the limit of authenticated connections of an owner. If that has no room, the
// connection stays under the other limit.
func (c *counted) isKnown(owner string) {
	c.mu.Lock()
	if c.known || c.closed {
		c.mu.Unlock()
		return
	}
	c.known = true
	c.mu.Unlock()
	leave, ok := c.door.known.Admit(owner, func() { _ = c.Conn.Close() })
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !ok:
		c.known = false
	case c.closed:
		leave()
	default:
		c.leave()
		c.leave = leave
	}
}

type connKey struct{}

// Context is for an http.Server's ConnContext: it adds the connection to the context of its requests.
func (d *Door) Context(ctx context.Context, conn net.Conn) context.Context {
	if inner, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = inner.NetConn()
	}
	if c, ok := conn.(*counted); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// recognised records the owner of a request's connection.
func recognised(ctx context.Context, owner string) {
	if c, ok := ctx.Value(connKey{}).(*counted); ok {
		c.isKnown(owner)
	}
}
