package server

import (
	"context"
	"net"
	"sync"

	"github.com/acphost/acphost/internal/connlimit"
)

// sendBuffer is how many bytes the kernel holds for a client that does not read. Linux would take up to 4 MiB of each. What a client
// that lost its stream has to get again must be within relay.Limits.Replay.
const sendBuffer = 256 << 10

// Door has room for so many connections. A quarter of the places is for strangers, whose connection has not said yet who it is from:
// if they are too many, the oldest of the address that has most gives way, so that who says at once who it is gets in. From then on
// the connection has one of the other places, which strangers cannot take. If all of those are taken, the oldest connection of the
// owner that has most gives way. Nobody has more than half of either. Safe for concurrent use.
type Door struct{ strangers, known *connlimit.Limiter }

// NewDoor returns a Door for most connections, at least 4.
func NewDoor(most int) *Door {
	strangers := max(most/4, 2)
	return &Door{
		strangers: connlimit.New(strangers, max(strangers/2, 1), connlimit.EvictOldest),
		known:     connlimit.New(most-strangers, max((most-strangers)/2, 1), connlimit.EvictLargest),
	}
}

// Listen returns a listener whose connections come through the door. Context must be the http.Server's ConnContext.
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

// counted is a connection with a place in a limiter.
type counted struct {
	net.Conn
	door *Door

	mu     sync.Mutex // guards what follows
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

// isKnown gives the connection a place among those of an owner. If there is none, it stays a stranger's.
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

// Context is for an http.Server's ConnContext: requests know their connection by it.
func (d *Door) Context(ctx context.Context, conn net.Conn) context.Context {
	if inner, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = inner.NetConn()
	}
	if c, ok := conn.(*counted); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// recognised says of a request's connection whose it is.
func recognised(ctx context.Context, owner string) {
	if c, ok := ctx.Value(connKey{}).(*counted); ok {
		c.isKnown(owner)
	}
}
