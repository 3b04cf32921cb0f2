package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/acphost/acphost/services/supervisor/internal/certs"
)

// Bounds on what callers may take. An agent can connect too, as often as it likes: whoever is not trusted is a guest, and
// guests have little.
const (
	// handshakeTimeout is how long a connection may take until its first call can come.
	handshakeTimeout = 5 * time.Second
	// maxHandshakes is how many connections may be between their beginning and that, at one door.
	maxHandshakes = 256
	// maxGuests is how many connections guests may have, and maxGuestCalls how many calls all of them together, at one
	// door.
	maxGuests     = 64
	maxGuestCalls = 128
)

// door takes the connections of a listener, finds out who is there, and leads everyone into the hall that is for them. Who
// is trusted when a connection begins may send much; what a caller may do is decided anew with each call.
type door struct {
	listener net.Listener
	// introduce finds out who is at the other end. The connection that it returns is used from then on.
	introduce func(context.Context, net.Conn) (net.Conn, identity, error)
	trusted   *hall
	guests    *hall
	logger    *slog.Logger

	ctx      context.Context // done: the door is shut
	shut     context.CancelFunc
	waiting  chan struct{} // one for each handshake
	sitting  chan struct{} // one for each connection of guests
	speaking chan struct{} // one for each call of guests
	running  sync.WaitGroup
}

// open lets callers in until close. The caller of open sets the exported fields.
func (d *door) open() {
	d.ctx, d.shut = context.WithCancel(context.Background())
	d.waiting = make(chan struct{}, maxHandshakes)
	d.sitting = make(chan struct{}, maxGuests)
	d.speaking = make(chan struct{}, maxGuestCalls)
	d.running.Go(d.accept)
}

// close lets nobody in any more. Connections that are in a hall stay.
func (d *door) close() {
	d.shut()
	_ = d.listener.Close()
	d.running.Wait()
}

func (d *door) accept() {
	const longestPause = time.Second
	pause := 5 * time.Millisecond
	for {
		conn, err := d.listener.Accept()
		switch {
		case err == nil:
		case d.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		default: // no more files, as a rule
			d.logger.Warn("cannot take a connection", "address", d.listener.Addr().String(), "error", err)
			select {
			case <-time.After(pause):
			case <-d.ctx.Done():
				return
			}
			pause = min(2*pause, longestPause)
			continue
		}
		pause = 5 * time.Millisecond
		select {
		case d.waiting <- struct{}{}:
		case <-d.ctx.Done():
			_ = conn.Close()
			return
		}
		d.running.Go(func() {
			defer func() { <-d.waiting }()
			d.enter(conn)
		})
	}
}

// enter leads one connection to its place.
func (d *door) enter(conn net.Conn) {
	ctx, cancel := context.WithTimeout(d.ctx, handshakeTimeout)
	defer cancel()
	known, who, err := d.introduce(ctx, conn)
	if err != nil {
		_ = conn.Close()
		d.logger.Debug("turned a connection away", "address", d.listener.Addr().String(), "error", err)
		return
	}
	arrived := &arrival{Conn: known, who: who}
	if who.may(certs.Approver) == nil {
		d.trusted.lead(d.ctx, arrived)
		return
	}
	select {
	case d.sitting <- struct{}{}:
	default:
		_ = known.Close()
		d.logger.Debug("turned a guest away: there are too many", "caller", who)
		return
	}
	arrived.who.speaking = d.speaking
	arrived.Conn = &guestConn{Conn: known, leave: sync.OnceFunc(func() { <-d.sitting })}
	d.guests.lead(d.ctx, arrived)
}

// guestConn gives its place back when it is closed.
type guestConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *guestConn) Close() error {
	err := c.Conn.Close()
	c.leave()
	return err
}

// hall is a net.Listener of those that doors lead into it, for one gRPC server.
type hall struct {
	arrivals chan *arrival
	closed   context.Context
	shut     context.CancelFunc
}

func newHall() *hall {
	h := &hall{arrivals: make(chan *arrival)}
	h.closed, h.shut = context.WithCancel(context.Background())
	return h
}

// lead hands a connection to the server, or closes it when door or hall are shut.
func (h *hall) lead(ctx context.Context, a *arrival) {
	select {
	case h.arrivals <- a:
	case <-h.closed.Done():
		_ = a.Close()
	case <-ctx.Done():
		_ = a.Close()
	}
}

// Accept implements net.Listener.
func (h *hall) Accept() (net.Conn, error) {
	select {
	case a := <-h.arrivals:
		return a, nil
	case <-h.closed.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *hall) Close() error {
	h.shut()
	return nil
}

// Addr implements net.Listener.
func (h *hall) Addr() net.Addr { return hallAddr{} }

type hallAddr struct{}

func (hallAddr) Network() string { return "acphost" }
func (hallAddr) String() string  { return "admin" }

// arrival is a connection of whose other end is known who it is.
type arrival struct {
	net.Conn
	who identity
}

// introduced are the credentials of connections that came through a door: what there was to find out was found out there.
type introduced struct{}

// ServerHandshake implements credentials.TransportCredentials.
func (introduced) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	a, ok := conn.(*arrival)
	if !ok {
		return nil, nil, errors.New("a connection that came through no door")
	}
	return a.Conn, a.who, nil
}

// ClientHandshake implements credentials.TransportCredentials. These are a server's.
func (introduced) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are for servers")
}

// Info implements credentials.TransportCredentials.
func (introduced) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "acphost"}
}

// Clone implements credentials.TransportCredentials.
func (i introduced) Clone() credentials.TransportCredentials { return i }

// OverrideServerName implements credentials.TransportCredentials.
func (introduced) OverrideServerName(string) error { return nil }
