package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/connlimit"
	"github.com/acphost/acphost/internal/panics"
)

// handshakeTimeout is how long a new connection may take until it can make its first call.
const handshakeTimeout = 5 * time.Second

// bounds limit what callers may use at one acceptor. Every local process can connect, also an agent, as often as it
// likes. So untrusted callers have low limits, and the limit of one origin leaves room for others.
type bounds struct {
	// handshakes limits concurrent handshakes, handshakesEach those of one origin.
	handshakes, handshakesEach int
	// untrusted limits the connections of untrusted callers of one kind, calls their active calls; see callerLimits.
	untrusted, untrustedEach, calls, callsEach int
}

// usualBounds leave most of this process's file descriptors to agents and handlers: at most room of them are handshakes
// of one acceptor, and at most half of room are connections of untrusted callers, half of those of callers that may be
// agents.
func usualBounds(room int) bounds {
	return bounds{
		handshakes: room, handshakesEach: room / 2,
		untrusted: room / 4, untrustedEach: room / 8, calls: 128, callsEach: 64,
	}
}

// maxIdentifying is how many connections an acceptor identifies at once if identifying does not wait for the peer. One
// process may use half of them.
const maxIdentifying = 16

// endpoint is a listener and how its peers are identified.
type endpoint struct {
	listener net.Listener
	// identify identifies the peer. The acceptor uses the connection that it returns from then on.
	identify func(context.Context, net.Conn) (net.Conn, identity, error)
	// origin distinguishes callers before they are identified; empty: unknown.
	origin func(net.Conn) string
	// slow reports that identify waits for the peer, which may delay it. Then a new connection evicts the oldest that
	// is waiting. Otherwise connections are identified in order.
	slow bool
}

// acceptor accepts the connections of an endpoint, identifies their peers, and delivers each to the server for its
// callers. A peer that is trusted when it connects may send large requests; each call is authorized anew.
type acceptor struct {
	endpoint
	bounds        bounds
	trusted       *memListener
	untrusted     *memListener
	metricsServer *metricsServer // nil: metrics are not served
	logger        *slog.Logger

	ctx         context.Context // ends with close
	cancel      context.CancelFunc
	handshaking *connlimit.Limiter // limits handshakes
	identifying chan struct{}      // one for each handshake if the endpoint is not slow
	agents      callerLimits       // of untrusted callers that may be agents
	persons     callerLimits       // of untrusted callers that are not agents, and only read
	running     sync.WaitGroup
}

// callerLimits limit all untrusted callers of one kind, so that no kind keeps another out.
type callerLimits struct {
	conns *connlimit.Limiter // of connections
	calls *connlimit.Limiter // of calls
}

func (b bounds) callerLimits() callerLimits {
	return callerLimits{conns: connlimit.New(b.untrusted, b.untrustedEach, connlimit.EvictLargest), calls: connlimit.New(b.calls, b.callsEach, connlimit.RejectNew)}
}

// open accepts connections until close. The caller of open sets the fields up to logger.
func (a *acceptor) open() {
	a.ctx, a.cancel = context.WithCancel(context.Background())
	// Further connections wait in the backlog of the listener.
	a.handshaking = connlimit.New(2*maxIdentifying, maxIdentifying/2, connlimit.RejectNew)
	if a.slow {
		a.handshaking = connlimit.New(a.bounds.handshakes, a.bounds.handshakesEach, connlimit.EvictOldest)
	}
	a.identifying = make(chan struct{}, maxIdentifying)
	a.agents, a.persons = a.bounds.callerLimits(), a.bounds.callerLimits()
	a.running.Go(panics.Guard(a.logger, "accepting connections of callers", a.accept))
}

// close stops accepting connections. Connections that were delivered stay open.
func (a *acceptor) close() {
	a.cancel()
	_ = a.listener.Close()
	a.running.Wait()
}

func (a *acceptor) accept() {
	const longestPause = time.Second
	pause := 5 * time.Millisecond
	for {
		conn, err := a.listener.Accept()
		switch {
		case err == nil:
		case a.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		default: // out of file descriptors, as a rule
			a.logger.Warn("cannot take a connection", "address", a.listener.Addr().String(), "error", err)
			select {
			case <-time.After(pause):
			case <-a.ctx.Done():
				return
			}
			pause = min(2*pause, longestPause)
			continue
		}
		pause = 5 * time.Millisecond
		leave, ok := func() {}, true
		if origin := a.origin(conn); origin != "" || a.slow {
			leave, ok = a.handshaking.Admit(origin, func() { _ = conn.Close() })
		}
		if !ok {
			_ = conn.Close()
			continue
		}
		if !a.slow {
			select {
			case a.identifying <- struct{}{}:
			case <-a.ctx.Done():
				_ = conn.Close()
				return
			}
		}
		a.running.Go(func() {
			defer leave()
			defer panics.Recover(a.logger, "accepting a connection of a caller", func(error) { _ = conn.Close() })
			if !a.slow {
				defer func() { <-a.identifying }()
			}
			a.handle(conn, leave)
		})
	}
}

// handle identifies the peer of a connection and delivers it. It calls identified once the peer is known.
func (a *acceptor) handle(conn net.Conn, identified func()) {
	ctx, cancel := context.WithTimeout(a.ctx, handshakeTimeout)
	defer cancel()
	known, id, err := a.identify(ctx, conn)
	identified()
	if err != nil {
		_ = conn.Close()
		a.logger.Debug("turned a connection away", "address", a.listener.Addr().String(), "error", err)
		return
	}
	if id.may(certs.Approver) == nil || id.may(certs.Gateway) == nil {
		a.deliver(a.trusted, known, id)
		return
	}
	if id.certificate && id.role == certs.Metrics && a.metricsServer == nil {
		_ = known.Close()
		a.logger.Warn("turned away who reads metrics: they are not served; set telemetry.prometheus", "caller", id)
		return
	}
	of := &a.agents
	if id.person() {
		of = &a.persons
	}
	leave, ok := of.conns.Admit(id.origin(), func() { _ = known.Close() })
	if !ok {
		_ = known.Close()
		a.logger.Debug("turned an untrusted caller away: there are too many", "caller", id)
		return
	}
	id.calls = of.calls
	if id.certificate && id.role == certs.Metrics {
		a.deliver(a.metricsServer.memListener, &heldConn{known, leave}, id)
		return
	}
	a.deliver(a.untrusted, &heldConn{known, leave}, id)
}

// deliver hands a connection to a server, or closes it if the acceptor or the server is closed.
func (a *acceptor) deliver(to *memListener, conn net.Conn, id identity) {
	if err := to.deliver(a.ctx, &identifiedConn{Conn: conn, who: id}); err != nil {
		_ = conn.Close()
	}
}

// identifiedConn is a connection whose peer is identified.
type identifiedConn struct {
	net.Conn
	who identity
}

// identifiedCreds are the credentials of connections from an acceptor, which has identified the peer.
type identifiedCreds struct{}

// ServerHandshake implements credentials.TransportCredentials.
func (identifiedCreds) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	a, ok := conn.(*identifiedConn)
	if !ok {
		return nil, nil, errors.New("a connection that came through no door")
	}
	return a.Conn, a.who, nil
}

// ClientHandshake implements credentials.TransportCredentials. It fails: the credentials are for servers.
func (identifiedCreds) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are for servers")
}

// Info implements credentials.TransportCredentials.
func (identifiedCreds) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "acphost"}
}

// Clone implements credentials.TransportCredentials.
func (i identifiedCreds) Clone() credentials.TransportCredentials { return i }

// OverrideServerName implements credentials.TransportCredentials.
func (identifiedCreds) OverrideServerName(string) error { return nil }
