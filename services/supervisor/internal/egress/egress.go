// Package egress provides the HTTP proxy on the loopback interface through which one agent connects to the network. It
// takes CONNECT, by which clients reach HTTPS and everything else, and requests for http URLs. For each machine that
// the agent names it asks a Decider. It looks up the name itself, checks the addresses, and connects to what it has
// checked.
//
// Programs in a sandbox that know nothing of proxies look up a name and connect to its address. The sandbox makes tunnels of both: the proxy
// answers the look-up with an address that stands for the name, and a tunnel to this address leads to the machine of that name.
//
// What a client says inside of a tunnel, its TLS server name (SNI) among it, is not looked at: who may reach one machine of a content
// network may reach what else the same machine serves.
//
// The package knows HTTP and TCP. It must not know policies, agents or ACP.
package egress

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/panics/httppanics"
)

// Target is a machine that an agent wants to connect to over TCP.
type Target struct {
	// Host is how the agent names it.
	Host hosts.Host
	Port uint16
	// Addresses are those of the machine. There are none before its name has been looked up.
	Addresses []netip.Addr
	// Upstream: another proxy looks the name up and connects to the machine, so there are no addresses.
	Upstream bool
}

// Final reports whether the target is connected to if it is allowed now: nothing more will be known of it.
func (t Target) Final() bool { return t.Upstream || len(t.Addresses) > 0 }

// String is "host:port".
func (t Target) String() string { return t.Host.WithPort(t.Port) }

// Verdict is what a Decider says.
type Verdict int

// The verdicts.
const (
	// Refuse is the zero value.
	Refuse Verdict = iota
	// Ask refuses, too: the user has been asked, and a later try may succeed.
	Ask
	Allow
)

// Decision is a verdict and its reason, for the agent.
type Decision struct {
	Verdict Verdict
	Reason  string
	// Special allows addresses that are not on the internet: loopback, private and link-local ones. It is to be set only if
	// somebody has named these addresses. Services for metadata stay refused.
	Special bool
}

// Decider decides on a target. A target by its name is decided on twice: before the name is looked up, because a look-up can carry
// data to whoever serves the name, and with its addresses. It is called from several goroutines at once, must not wait for a person,
// and returns when the context ends. After Options.Patience the target is refused.
type Decider func(context.Context, Target) Decision

// Options are those of a Proxy. All but Decide have defaults.
type Options struct {
	// Decide is required.
	Decide Decider
	// Logger gets each connection: those that were refused at level info, the others at level debug. Default: none.
	Logger *slog.Logger
	// LookUp finds the addresses of a name, which is complete: no search domains count. Default: the loopback
	// interface for "localhost", and /etc/hosts and DNS for all others.
	LookUp func(ctx context.Context, name string) ([]netip.Addr, error)
	// Upstream returns the proxy that leads to a machine; nil: the machine is connected to directly. Such proxies are found by the variables
	// HTTPS_PROXY and NO_PROXY of acphost itself. Default: none.
	Upstream func(Target) *url.URL
	// MostConnections bounds the connections of clients at once. Others wait to be accepted. Default: 256.
	MostConnections int
	// HeaderTimeout is how long a client may take for the header of a request. Default: 10 s.
	HeaderTimeout time.Duration
	// Idle is after how long without data a connection is closed. Default: 10 min.
	Idle time.Duration
	// Patience bounds each of decision, look-up and connecting. Default: 10 s.
	Patience time.Duration
}

// mostHeader bounds the header of a request, in bytes. The server of net/http adds 4 KiB.
const mostHeader = 32 << 10

// Proxy is a proxy that listens. Its methods are safe for concurrent use.
type Proxy struct {
	Options
	at      netip.AddrPort
	secret  string
	server  *http.Server
	forward http.Handler
	names   nameTable
	// ctx ends with the proxy.
	ctx    context.Context
	cancel context.CancelFunc
	// work counts goroutines.
	work sync.WaitGroup

	mu     sync.Mutex
	closed bool                  // guarded by mu
	tunnel map[net.Conn]struct{} // guarded by mu: both ends of each tunnel
}

// Start begins to listen on a free port of 127.0.0.1. The proxy serves until it is closed.
func Start(o Options) (*Proxy, error) {
	o.fill()
	l, err := net.Listen("tcp4", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		return nil, fmt.Errorf("listen on the loopback interface for the agent's connections: %w", err)
	}
	p := &Proxy{Options: o, at: l.Addr().(*net.TCPAddr).AddrPort(), secret: rand.Text(), tunnel: map[net.Conn]struct{}{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.forward = p.forwarder()
	p.server = &http.Server{
		Handler: httppanics.Handler(o.Logger, http.HandlerFunc(p.serve)), ReadHeaderTimeout: o.HeaderTimeout, IdleTimeout: min(o.Idle, time.Minute),
		MaxHeaderBytes: mostHeader, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
		BaseContext:                  func(net.Listener) context.Context { return p.ctx },
		DisableGeneralOptionsHandler: true,
	}
	limited := newLimited(l, o.MostConnections)
	p.work.Go(panics.Guard(o.Logger, "accepting the agent's connections", func() { _ = p.server.Serve(limited) }))
	return p, nil
}

func (o *Options) fill() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.LookUp == nil {
		o.LookUp = lookUp
	}
	or := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	if o.MostConnections <= 0 {
		o.MostConnections = 256
	}
	or(&o.HeaderTimeout, 10*time.Second)
	or(&o.Idle, 10*time.Minute)
	or(&o.Patience, 10*time.Second)
}

// lookUp is the default of Options.LookUp.
func lookUp(ctx context.Context, name string) ([]netip.Addr, error) {
	if name == "localhost" { // RFC 6761: it is this machine, whatever a name service says
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	return (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, "ip", name+".") // the dot: no search domains
}

// Address is where the proxy listens.
func (p *Proxy) Address() netip.AddrPort { return p.at }

// URL is what clients are given, with the secret that keeps other processes out. It is a secret itself.
func (p *Proxy) URL() string {
	u := url.URL{Scheme: "http", Host: p.at.String(), User: url.UserPassword(user, p.secret)}
	return u.String()
}

// user is the name before the secret. It means nothing.
const user = "agent"

// Env has clients use the proxy: "NAME=VALUE" for each of the variables by which programs find one. It empties NO_PROXY, so that
// connections to this machine are decided on, too. Node reads them from its version 22.21 on. RES_OPTIONS makes the C library look up names
// over TCP, for programs in a sandbox (see names.go).
func (p *Proxy) Env() []string {
	var env []string
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy"} {
		env = append(env, name+"="+p.URL())
	}
	return append(env, "NO_PROXY=", "no_proxy=", "NODE_USE_ENV_PROXY=1", "RES_OPTIONS=use-vc")
}

// Close ends the proxy and all connections, and waits until nothing of it runs any more.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	open := p.tunnel
	p.tunnel = map[net.Conn]struct{}{}
	p.mu.Unlock()
	p.cancel()
	err := p.server.Close()
	for conn := range open {
		_ = conn.Close()
	}
	p.work.Wait()
	return err
}

// begin counts a request, for which Close waits; the server does not wait for its handlers. After Close has begun it reports false.
func (p *Proxy) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.work.Add(1)
	}
	return !p.closed
}

// hold has Close close a connection. If the proxy is closed, it is closed at once.
func (p *Proxy) hold(conn net.Conn) (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = conn.Close()
		return func() {}
	}
	p.tunnel[conn] = struct{}{}
	return func() {
		p.mu.Lock()
		delete(p.tunnel, conn)
		p.mu.Unlock()
		_ = conn.Close()
	}
}
