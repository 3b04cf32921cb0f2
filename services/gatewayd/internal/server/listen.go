package server

import (
	"net"
	"sync"

	"github.com/acphost/acphost/internal/crowd"
)

// sendBuffer is how many bytes the kernel holds for a client that does not read. Linux would take up to 4 MiB of each. What a client
// that lost its stream has to get again must be within relay.Limits.Replay.
const sendBuffer = 256 << 10

// limited is a listener that has room for so many connections: of each address half of them, so that nobody keeps others out.
type limited struct {
	net.Listener
	crowd *crowd.Crowd
}

// Limit returns a listener with room for most connections. If all is taken, the oldest connection of the address that has
// most gives way.
func Limit(l net.Listener, most int) net.Listener {
	return &limited{Listener: l, crowd: crowd.New(most, max(most/2, 1), crowd.Pressing)}
}

func (l *limited) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer)
	}
	leave, _ := l.crowd.Admit(crowd.AddressOf(conn), func() { _ = conn.Close() })
	return &counted{Conn: conn, leave: sync.OnceFunc(leave)}, nil
}

// counted is a connection with a place in a crowd.
type counted struct {
	net.Conn
	leave func()
}

func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}
