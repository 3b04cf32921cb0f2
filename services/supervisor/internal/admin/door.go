package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/acphost/acphost/internal/connlimit"
	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/supervisor/internal/certs"
)

// handshakeTimeout is how long a connection may take until its first call can come.
const handshakeTimeout = 5 * time.Second

// bounds limit what callers may use at one door. Every local process can connect, an agent too, as often as it likes. So untrusted
// callers have low limits, and the limit of one origin leaves room for others.
type bounds struct {
	// handshakes may be under way.
	handshakes, handshakesEach int
	// untrusted limits the connections of untrusted callers of one kind, calls their calls; see room.
	untrusted, untrustedEach, calls, callsEach int
}

// usualBounds leave most of the files that this process may have open to agents and handlers: room of them at the most are
// handshakes at one door, and half as many are untrusted callers, half of those such as may be agents.
func usualBounds(room int) bounds {
	return bounds{
		handshakes: room, handshakesEach: room / 2,
		untrusted: room / 4, untrustedEach: room / 8, calls: 128, callsEach: 64,
	}
}

// maxAtWork is how many callers a door finds out about at once where that waits for none of them; half of them may be one
// process's.
const maxAtWork = 16

// way is a way in: a listener, and how it is found out who comes by it.
type way struct {
	listener net.Listener
	// introduce finds out who is at the other end. The connection that it returns is used from then on.
	introduce func(context.Context, net.Conn) (net.Conn, identity, error)
	// origin tells callers apart before that; empty: it cannot.
	origin func(net.Conn) string
	// slow: introduce waits for the other end, which may keep us waiting. Then the oldest of those that do gives way to
	// the newest. Otherwise all have their turn.
	slow bool
}

// door takes the connections that come one way, finds out who is there, and leads everyone into the hall that is for them.
// Who is trusted when a connection begins may send much; what a caller may do is decided anew with each call.
type door struct {
	way
	bounds    bounds
	trusted   *hall
	untrusted *hall
	scrapes   *scrapes // nil: metrics are not served
	logger    *slog.Logger

	ctx      context.Context // done: the door is shut
	shut     context.CancelFunc
	arriving *connlimit.Limiter // of handshakes
	atWork   chan struct{}      // one for each handshake, where none is slow
	agents   room               // of untrusted callers who may be agents
	persons  room               // of untrusted callers who are none, and only look
	running  sync.WaitGroup
}

// room is what untrusted callers of one kind have together, so that no kind keeps another out.
type room struct {
	sitting  *connlimit.Limiter // of connections
	speaking *connlimit.Limiter // of calls
}

func (b bounds) room() room {
	return room{sitting: connlimit.New(b.untrusted, b.untrustedEach, connlimit.EvictLargest), speaking: connlimit.New(b.calls, b.callsEach, connlimit.RejectNew)}
}

// open lets callers in until close. The caller of open sets the fields up to logger.
func (d *door) open() {
	d.ctx, d.shut = context.WithCancel(context.Background())
	d.arriving = connlimit.New(2*maxAtWork, maxAtWork/2, connlimit.RejectNew) // who is not at work waits to be accepted
	if d.slow {
		d.arriving = connlimit.New(d.bounds.handshakes, d.bounds.handshakesEach, connlimit.EvictOldest)
	}
	d.atWork = make(chan struct{}, maxAtWork)
	d.agents, d.persons = d.bounds.room(), d.bounds.room()
	d.running.Go(panics.Guard(d.logger, "accepting connections of callers", d.accept))
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
		leave, ok := func() {}, true
		if origin := d.origin(conn); origin != "" || d.slow {
			leave, ok = d.arriving.Admit(origin, func() { _ = conn.Close() })
		}
		if !ok {
			_ = conn.Close()
			continue
		}
		if !d.slow {
			select {
			case d.atWork <- struct{}{}:
			case <-d.ctx.Done():
				_ = conn.Close()
				return
			}
		}
		d.running.Go(func() {
			defer leave()
			defer panics.Recover(d.logger, "accepting a connection of a caller", func(error) { _ = conn.Close() })
			if !d.slow {
				defer func() { <-d.atWork }()
			}
			d.enter(conn, leave)
		})
	}
}

// enter leads one connection to its place. It calls arrived when it is known who is there.
func (d *door) enter(conn net.Conn, arrived func()) {
	ctx, cancel := context.WithTimeout(d.ctx, handshakeTimeout)
	defer cancel()
	known, who, err := d.introduce(ctx, conn)
	arrived()
	if err != nil {
		_ = conn.Close()
		d.logger.Debug("turned a connection away", "address", d.listener.Addr().String(), "error", err)
		return
	}
	if who.may(certs.Approver) == nil || who.may(certs.Gateway) == nil {
		d.lead(d.trusted, known, who)
		return
	}
	if who.certificate && who.role == certs.Metrics && d.scrapes == nil {
		_ = known.Close()
		d.logger.Warn("turned away who reads metrics: they are not served; set telemetry.prometheus", "caller", who)
		return
	}
	of := &d.agents
	if who.person() {
		of = &d.persons
	}
	leave, ok := of.sitting.Admit(who.origin(), func() { _ = known.Close() })
	if !ok {
		_ = known.Close()
		d.logger.Debug("turned an untrusted caller away: there are too many", "caller", who)
		return
	}
	who.speaking = of.speaking
	if who.certificate && who.role == certs.Metrics {
		d.lead(d.scrapes.hall, &heldConn{known, leave}, who)
		return
	}
	d.lead(d.untrusted, &heldConn{known, leave}, who)
}

// lead hands a connection to a hall's server, or closes it when door or hall are shut.
func (d *door) lead(to *hall, conn net.Conn, who identity) {
	if err := to.lead(d.ctx, &arrival{Conn: conn, who: who}); err != nil {
		_ = conn.Close()
	}
}

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
