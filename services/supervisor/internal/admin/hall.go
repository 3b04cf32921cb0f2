package admin

import (
	"context"
	"net"
)

// hall is the listener of connections that are led into it: by doors, for a gRPC server, or from within this process.
type hall struct {
	address  hallAddr
	arrivals chan net.Conn
	closed   context.Context
	shut     context.CancelFunc
}

func newHall() *hall {
	h := &hall{address: "admin", arrivals: make(chan net.Conn)}
	h.closed, h.shut = context.WithCancel(context.Background())
	return h
}

// lead returns once a connection is accepted, the hall is closed (net.ErrClosed) or ctx is done. After an error, the
// connection is the caller's.
func (h *hall) lead(ctx context.Context, conn net.Conn) error {
	select {
	case h.arrivals <- conn:
		return nil
	case <-h.closed.Done():
		return net.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dial connects to the hall from within this process. The connection is a net.Pipe: it has no buffer, so that a peer
// that does not read stops its writer, and gRPC's flow control bounds what waits.
func (h *hall) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	if err := h.lead(ctx, theirs); err != nil {
		return nil, err
	}
	return ours, nil
}

// Accept implements net.Listener. After Close its error is net.ErrClosed.
func (h *hall) Accept() (net.Conn, error) {
	select {
	case conn := <-h.arrivals:
		return conn, nil
	case <-h.closed.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Connections that were accepted stay open.
func (h *hall) Close() error {
	h.shut()
	return nil
}

// Addr implements net.Listener.
func (h *hall) Addr() net.Addr { return h.address }

type hallAddr string

func (hallAddr) Network() string  { return "acphost" }
func (a hallAddr) String() string { return string(a) }
