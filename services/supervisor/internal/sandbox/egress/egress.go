// Package egress provides the HTTP proxy on the loopback interface through which one agent connects to the network. It
// accepts CONNECT, by which clients reach HTTPS and other services, and requests for http URLs. For each machine it
// asks a Decider. It resolves the name itself, checks the addresses, and connects to an address that it has checked.
//
// Programs in a sandbox that do not support proxies resolve a name and connect to its address. The sandbox makes
// tunnels of both: the proxy answers the look-up with an address that represents the name, and a tunnel to this address
// leads to the machine of that name.
//
// The proxy does not inspect the data in a tunnel, nor its TLS server name (SNI): a client that may connect to one
// machine of a content network may reach all other names that the same machine serves.
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
	// Host is the machine as the agent names it.
	Host hosts.Host
	Port uint16
	// Addresses are the addresses of the machine. They are empty before its name was resolved.
	Addresses []netip.Addr
	// Upstream means that another proxy resolves the name and connects to the machine, so there are no addresses.
	Upstream bool
}

// Final reports whether the proxy connects to the target if it is allowed now, because the target is complete.
func (t Target) Final() bool { return t.Upstream || len(t.Addresses) > 0 }

// String returns "host:port".
func (t Target) String() string { return t.Host.WithPort(t.Port) }

// Verdict is the result of a Decider.
type Verdict int

// The verdicts.
const (
	// Refuse is the zero value.
	Refuse Verdict = iota
	// Ask also refuses: the user has been asked, and a later attempt may succeed.
	Ask
	Allow
)

// Decision is a verdict with its reason, which is sent to the agent.
type Decision struct {
	Verdict Verdict
	Reason  string
	// Special allows addresses that are not on the internet: loopback, private and link-local addresses. Set it only if
	// a rule names these addresses. Addresses of metadata services are rejected in any case.
	Special bool
}

// Decider decides on a target. A target with a name is decided on twice: before the name is resolved, because a look-up
// can send data to the operator of the name's servers, and with its addresses. A Decider is called concurrently, must
// not wait for a user, and must return when the context ends. After Options.Timeout the target is rejected.
type Decider func(context.Context, Target) Decision

// Options configure a Proxy. All fields except Decide have defaults.
type Options struct {
	// Decide decides on targets. Required.
	Decide Decider
	// Logger receives each connection: rejected ones at level info, others at level debug. Default: none.
	Logger *slog.Logger
	// LookUp returns the addresses of a complete name: search domains do not apply. Default: the loopback interface for
	// "localhost", and /etc/hosts and DNS for all others.
	LookUp func(ctx context.Context, name string) ([]netip.Addr, error)
	// Upstream returns the proxy for a target, or nil to connect directly. UpstreamFromEnvironment returns such a
	// function. Default: none.
	Upstream func(Target) *url.URL
	// MaxConnections limits the concurrent connections of clients. Others wait to be accepted. Default: 256.
	MaxConnections int
	// HeaderTimeout limits the time for the header of a request. Default: 10 s.
	HeaderTimeout time.Duration
	// Idle is the time without data after which a connection is closed. Default: 10 min.
	Idle time.Duration
	// Timeout limits the time of each decision, look-up and connection attempt. Default: 10 s.
	Timeout time.Duration
}

// maxHeader limits the header of a request, in bytes. The server of net/http adds 4 KiB.
const maxHeader = 32 << 10

// Proxy is a listening proxy. It is safe for concurrent use.
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

// Start listens on a free port of 127.0.0.1. The proxy serves until it is closed.
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
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
		BaseContext:                  func(net.Listener) context.Context { return p.ctx },
		DisableGeneralOptionsHandler: true,
	}
	limited := newLimited(l, o.MaxConnections)
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
	if o.MaxConnections <= 0 {
		o.MaxConnections = 256
	}
	or(&o.HeaderTimeout, 10*time.Second)
	or(&o.Idle, 10*time.Minute)
	or(&o.Timeout, 10*time.Second)
}

// lookUp is the default of Options.LookUp.
func lookUp(ctx context.Context, name string) ([]netip.Addr, error) {
	if name == "localhost" { // RFC 6761: always this machine, independent of name services
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	return (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, "ip", name+".") // the dot disables search domains
}

// Address returns the address of the listener.
func (p *Proxy) Address() netip.AddrPort { return p.at }

// URL returns the URL for clients, with the password that excludes other processes. The URL is a secret.
func (p *Proxy) URL() string {
	u := url.URL{Scheme: "http", Host: p.at.String(), User: url.UserPassword(user, p.secret)}
	return u.String()
}

// user is the user name in the URL. It has no meaning.
const user = "agent"

// Env returns the environment variables that configure clients to use the proxy, as "NAME=VALUE". It empties NO_PROXY,
// so that connections to this machine are decided on, too. Node uses the variables from version 22.21 on. RES_OPTIONS
// makes the C library resolve names over TCP, for programs in a sandbox (see names.go).
func (p *Proxy) Env() []string {
	var env []string
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy"} {
		env = append(env, name+"="+p.URL())
	}
	return append(env, "NO_PROXY=", "no_proxy=", "NODE_USE_ENV_PROXY=1", "RES_OPTIONS=use-vc")
}

// Close closes the proxy and all connections, and waits until all its goroutines have ended.
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

// begin counts a request, so that Close waits for it; the server of net/http does not wait for its handlers. It returns
// false after Close was called.
func (p *Proxy) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.work.Add(1)
	}
	return !p.closed
}

// track registers a connection that Close closes. If the proxy is closed, hold closes the connection at once.
func (p *Proxy) track(conn net.Conn) (release func()) {
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
