package admin

import (
	"context"
	"net"
	"sync"
)

// pipes is the listener of connections from within this process. A connection is a net.Pipe: it has no buffer, so that a
// peer that does not read stops its writer, and gRPC's flow control bounds what waits.
type pipes struct {
	dialed chan net.Conn
	closed chan struct{}
	close  sync.Once
}

func newPipes() *pipes {
	return &pipes{dialed: make(chan net.Conn), closed: make(chan struct{})}
}

// dial returns once the other end is accepted, the listener is closed (net.ErrClosed) or ctx is done.
func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.dialed <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener. After Close its error is net.ErrClosed.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.dialed:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Connections that were accepted stay open.
func (p *pipes) Close() error {
	p.close.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return pipesAddr{} }

type pipesAddr struct{}

func (pipesAddr) Network() string { return "pipe" }
func (pipesAddr) String() string  { return "within the process" }
