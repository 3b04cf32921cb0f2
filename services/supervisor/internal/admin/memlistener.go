package admin

import (
	"context"
	"net"
)

// memListener is a net.Listener of connections that acceptors or this process itself deliver to it.
type memListener struct {
	address memAddr
	conns   chan net.Conn
	closed  context.Context
	shut    context.CancelFunc
}

func newMemListener() *memListener {
	l := &memListener{address: "admin", conns: make(chan net.Conn)}
	l.closed, l.shut = context.WithCancel(context.Background())
	return l
}

// deliver returns once a connection is accepted, the listener is closed (net.ErrClosed) or ctx ends. After an error,
// the caller still owns the connection.
func (l *memListener) deliver(ctx context.Context, conn net.Conn) error {
	select {
	case l.conns <- conn:
		return nil
	case <-l.closed.Done():
		return net.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dial connects to the listener from within this process. The connection is a net.Pipe: it has no buffer, so that a
// peer that does not read blocks its writer, and gRPC's flow control bounds the data that waits.
func (l *memListener) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	if err := l.deliver(ctx, theirs); err != nil {
		return nil, err
	}
	return ours, nil
}

// Accept implements net.Listener. After Close its error is net.ErrClosed.
func (l *memListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Connections that were accepted stay open.
func (l *memListener) Close() error {
	l.shut()
	return nil
}

// Addr implements net.Listener.
func (l *memListener) Addr() net.Addr { return l.address }

type memAddr string

func (memAddr) Network() string  { return "acphost" }
func (a memAddr) String() string { return string(a) }
