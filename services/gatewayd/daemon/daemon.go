// Package daemon provides gatewayd as a program: its flags, its listener, and its shutdown.
package daemon

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/acphost/acphost/internal/buildinfo"
	"github.com/acphost/acphost/internal/confirmsocket"
	"github.com/acphost/acphost/internal/keyfiles"
	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/peer"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/gatewayd/internal/attach"
	"github.com/acphost/acphost/services/gatewayd/internal/auth"
	"github.com/acphost/acphost/services/gatewayd/internal/console"
	"github.com/acphost/acphost/services/gatewayd/internal/oidc"
	"github.com/acphost/acphost/services/gatewayd/internal/relay"
	"github.com/acphost/acphost/services/gatewayd/internal/rest"
	"github.com/acphost/acphost/services/gatewayd/internal/server"
	"github.com/acphost/acphost/services/gatewayd/internal/services"
	"github.com/acphost/acphost/services/gatewayd/internal/signin"
	"github.com/acphost/acphost/services/gatewayd/internal/upstream"
)

const usage = `Usage: gatewayd [flags]

Serve the agents of a supervisor ("acphost serve") to clients over the network, at
/acp: ACP over WebSocket, and over POST with server-sent events. The supervisor's
configuration lists the agents (serve.gateway_agents). If gatewayd's certificate was
made by "acphost certs gateway --acts-as ROLE", gatewayd also serves the supervisor's
services (Connect, gRPC, gRPC-Web), REST with events for simple front ends, which
/openapi.json describes, and at /console/ a page for people, who sign in with
"acphost console". Without --supervisor and --socket it connects to the "acphost
serve" that runs as your user on this machine, and ends when that ends.

Each request must authenticate its caller: by a token ("acphost tokens create", or of
an OpenID Connect provider), or by a certificate. Run gatewayd as a user that no agent
runs as.

Flags:
`

const examples = `
Examples:
  gatewayd
  gatewayd --notices-desktop
  gatewayd --socket /run/acphost/admin.sock --tokens ~/.local/state/acphost/tokens.json
  gatewayd --listen :7480 --host acp.example.org --tls-dir /etc/gatewayd/tls \
      --tokens /etc/gatewayd/tokens.json \
      --supervisor build.example.org:7443 --supervisor-tls-dir /etc/gatewayd/gateway

After SIGTERM, gatewayd rejects new connections, closes idle ones, and waits at most
the time of --drain for active turns. Without active turns it ends within a second. A
second SIGTERM ends it at once.

Exit status:
  0   it ended after SIGTERM
  1   it could not start, or the supervisor ended
  2   the command line is invalid
`

const (
	// headerTimeout limits the time to receive a request's headers.
	headerTimeout = 10 * time.Second
	// idleTimeout limits the time without requests on a connection.
	idleTimeout = 2 * time.Minute
	// maxHeader limits a request's headers, in bytes.
	maxHeader = 64 << 10
	// maxStreams limits the concurrent requests on one HTTP/2 connection: a client may have a stream for each of its
	// sessions.
	maxStreams = 1100
	// sweepInterval is the interval of checks whether connected clients are still authorized.
	sweepInterval = 3 * time.Second
	// checkInterval is the interval of checks whether the supervisor still runs.
	checkInterval = 2 * time.Second
	// drainTimeout is the default time that active turns may take to end after gatewayd was asked to end.
	drainTimeout = 10 * time.Second
	// stopTimeout is the time that requests may take to end after drainTimeout.
	stopTimeout = 10 * time.Second
)

// flags are the command line flags of gatewayd.
type flags struct {
	listen, publicURL, tlsDir, tokens, supervisor, supervisorTLS, socket, agent, level string
	hosts, origins                                                                     list
	plaintext, version, noConsole                                                      bool
	connections                                                                        int
	drain                                                                              time.Duration
	notices                                                                            noticeFlags
	oidc                                                                               oidcFlags
}

// list is a flag that may be repeated.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// Main runs gatewayd and ends the process. version is the version set by the build; empty: none.
func Main(version string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(Run(ctx, os.Args[1:], version, os.Stdout, os.Stderr))
}

// Run runs gatewayd until ctx ends, and returns the exit status.
func Run(ctx context.Context, args []string, version string, stdout, stderr io.Writer) int {
	f, set := newFlags(stderr)
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case f.version:
		fmt.Fprintln(stdout, "gatewayd", buildinfo.Read(version).Version)
		return 0
	}
	if err := f.check(set.Args()); err != nil {
		fmt.Fprintf(stderr, "gatewayd: %v\n", err)
		return 2
	}
	if err := run(ctx, f, stderr); err != nil {
		fmt.Fprintf(stderr, "gatewayd: %v\n", err)
		return 1
	}
	return 0
}

func newFlags(stderr io.Writer) (*flags, *flag.FlagSet) {
	f := &flags{}
	set := flag.NewFlagSet("gatewayd", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.Usage = func() {
		fmt.Fprint(stderr, usage)
		set.PrintDefaults()
		fmt.Fprint(stderr, examples)
	}
	set.StringVar(&f.listen, "listen", "127.0.0.1:7480", "the `ADDRESS` to serve at, HOST:PORT")
	set.StringVar(&f.tlsDir, "tls-dir", "", "serve over TLS with the ca.crt, server.crt and server.key in this `FOLDER`; clients may authenticate with certificates of that authority")
	set.BoolVar(&f.plaintext, "plaintext", false, "serve without TLS at an address that other machines can reach: only behind a proxy with TLS")
	set.Var(&f.hosts, "host", "a `NAME` of this server for clients, in addition to localhost and the address to serve at; may be repeated")
	set.StringVar(&f.publicURL, "public-url", "", "the `ORIGIN`, https://HOST, at which people open the console, for the links of notices and sign-ins (default: the address to serve at)")
	set.Var(&f.origins, "origin", "an `ORIGIN`, https://HOST, whose pages may call; may be repeated (default: none)")
	set.StringVar(&f.tokens, "tokens", "", "the `FILE` of tokens that \"acphost tokens\" makes")
	set.StringVar(&f.supervisor, "supervisor", "", "the supervisor's `ADDRESS` over TCP, HOST:PORT")
	set.StringVar(&f.supervisorTLS, "supervisor-tls-dir", "", "the `FOLDER` with the gateway's certificate that \"acphost certs gateway\" makes")
	set.StringVar(&f.socket, "socket", "", "the `PATH` of the supervisor's admin socket, instead of --supervisor")
	set.StringVar(&f.agent, "agent", "", "the `NAME` of the default agent, for clients without /acp?agent=NAME")
	set.IntVar(&f.connections, "max-connections", 1000, "the maximum number `N` of concurrent connections; a quarter of them is for unauthenticated clients")
	set.BoolVar(&f.noConsole, "no-console", false, "do not serve the console for browsers at /console/")
	f.notices.define(set)
	f.oidc.define(set)
	set.DurationVar(&f.drain, "drain", drainTimeout, "how long active turns may continue after SIGTERM, a `TIME` such as 30s")
	set.StringVar(&f.level, "log-level", "info", "the minimum `LEVEL` of logged messages: debug, info, warn or error")
	set.BoolVar(&f.version, "version", false, "print the version")
	return f, set
}

// check returns an error if the flags are invalid.
func (f *flags) check(rest []string) error {
	host, _, err := net.SplitHostPort(f.listen)
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case err != nil:
		return fmt.Errorf("--listen: expected HOST:PORT, got %q", f.listen)
	case f.supervisor != "" && f.socket != "":
		return errors.New("--supervisor and --socket exclude each other: give one of them")
	case (f.supervisor == "") != (f.supervisorTLS == ""):
		return errors.New("--supervisor and --supervisor-tls-dir go together")
	case f.tokens == "" && f.tlsDir == "" && f.oidc.audience == "" && f.noConsole:
		return errors.New("no client could authenticate: give --tokens, --tls-dir for certificates, or --oidc-issuer")
	case f.tlsDir == "" && !f.plaintext && !loopback(host):
		return fmt.Errorf("tokens would be sent unencrypted at %s: give --tls-dir, or --plaintext if a proxy in front of gatewayd has TLS", f.listen)
	case f.drain < 0:
		return errors.New("--drain: expected a time that is not negative")
	case f.connections < 4:
		return errors.New("--max-connections: expected 4 or more")
	}
	for _, o := range f.origins {
		if _, _, ok := origin(o); !ok {
			return fmt.Errorf("--origin: expected an origin as browsers send it, such as https://example.org, got %q", o)
		}
	}
	if f.notices.on() {
		if err := f.checkConsole("--notices-…", host); err != nil {
			return err
		}
	}
	if scheme, _, ok := origin(f.publicURL); f.publicURL != "" && (!ok || scheme != "https" && scheme != "http") {
		return fmt.Errorf("--public-url: expected the part of the URL before /console/, such as https://acp.example.org, got %q", f.publicURL)
	}
	if f.oidc.clientID != "" {
		if err := f.checkConsole("--oidc-client-id", host); err != nil {
			return err
		}
	}
	return cmp.Or(f.notices.check(), f.oidc.check())
}

// checkConsole returns an error if flag, which directs people to the console, cannot work. host is the address that
// gatewayd listens on.
func (f *flags) checkConsole(flag, host string) error {
	switch ip := net.ParseIP(host); {
	case f.noConsole:
		return fmt.Errorf("%s needs the console, which --no-console disables: omit one of them", flag)
	case f.publicURL == "" && (host == "" || ip != nil && ip.IsUnspecified()):
		return fmt.Errorf("%s needs the URL of the console: set --public-url, such as https://acp.example.org", flag)
	}
	return nil
}

// origin splits an origin in the form that browsers send. host has no port.
func origin(text string) (scheme, host string, ok bool) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" || text != u.Scheme+"://"+u.Host {
		return "", "", false
	}
	return u.Scheme, u.Hostname(), true
}

// loopback reports whether an address is a loopback address.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func run(ctx context.Context, f *flags, stderr io.Writer) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.level)); err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	switch fromAgent, err := peer.FromAgent(os.Getpid()); {
	case fromAgent:
		return errors.New("it must be started by a person, not by an agent or a handler")
	case err != nil && !errors.Is(err, proc.ErrUnsupported):
		return fmt.Errorf("the process that starts gatewayd could not be verified: %w", err)
	}
	supervisor, pid, err := dial(ctx, f, log)
	if err != nil {
		return err
	}
	defer func() { _ = supervisor.Close() }()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if pid != 0 {
		defer awaitEnd(ctx, pid, end)()
	}
	config, err := tlsConfig(f.tlsDir, log)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("serve at %s: %w", f.listen, err)
	}
	calls, err := services.New(supervisor, log)
	if err != nil {
		return fmt.Errorf("serve the supervisor's services: %w", err)
	}
	simple, err := rest.New(calls, log)
	if err != nil {
		return fmt.Errorf("serve the paths for front ends: %w", err)
	}
	relays := relay.New(attach.New(upstream.New(supervisor).Open, calls, log).Open, relay.Limits{}, log)
	options := server.Options{Relay: relays, Attach: true, Agent: f.agent, Services: calls, Rest: simple, Ready: upstream.New(supervisor).Ready, Logger: log}
	public := cmp.Or(f.publicURL, base(listener, config != nil))
	provider, err := f.oidc.provider(public, log)
	if err != nil {
		return err
	}
	gate := auth.Options{Tokens: f.tokens, Hosts: names(f), Origins: f.origins, Logger: log}
	if provider != nil {
		gate.IsJWT, gate.JWT = oidc.IsToken, provider.Bearer
	}
	if f.noConsole {
		options.Gate = auth.New(gate)
	} else {
		broker := signin.New(nil)
		gate.Browser = console.Browser(broker)
		options.Gate = auth.New(gate)
		pages := console.Options{Gate: options.Gate, Broker: broker, Logger: log}
		if f.oidc.clientID != "" {
			pages.Provider = provider
		}
		options.Console = console.New(pages)
		log.Info("the console is for browsers", "at", base(listener, config != nil)+"/console/")
		defer confirm(ctx, broker, log)()
	}
	stop, err := notify(ctx, f, public, supervisor, log)
	if err != nil {
		return err
	}
	defer stop()
	s := &http.Server{
		Handler:           server.New(options),
		TLSConfig:         config,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		Protocols:         &http.Protocols{},
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(config != nil)
	s.Protocols.SetUnencryptedHTTP2(config == nil)
	limiter := server.NewConnLimiter(f.connections)
	s.ConnContext = limiter.Context
	closeNewConns(s)
	if err := serve(ctx, s, limiter.Listen(listener), clientSet{relays, calls, simple}, f.drain, log); err != nil {
		return err
	}
	if gone, ok := errors.AsType[*endedError](context.Cause(ctx)); ok {
		return gone
	}
	return nil
}

// endedError means that the supervisor that dial found has ended. Another supervisor has another socket.
type endedError struct{ pid int }

func (e *endedError) Error() string {
	return fmt.Sprintf("the supervisor, process %d, has ended: start \"acphost serve\" again, and then gatewayd", e.pid)
}

// awaitEnd calls end when a process has ended. The caller calls stop, which waits until the goroutine has ended.
func awaitEnd(ctx context.Context, pid int, end context.CancelCauseFunc) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer panics.Recover(nil, "waiting for the end of the supervisor", func(err error) { end(err) })
		p, err := os.FindProcess(pid) // with pidfds, the handle refers to this process only
		if err == nil {
			defer func() { _ = p.Release() }()
		}
		tick := time.NewTicker(checkInterval)
		defer tick.Stop()
		for err == nil || !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH) {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				err = p.Signal(syscall.Signal(0))
			}
		}
		end(&endedError{pid})
	}()
	return func() { cancel(); <-done }
}

// base returns the base URL of the server.
func base(l net.Listener, tlsOn bool) string {
	if tlsOn {
		return "https://" + l.Addr().String()
	}
	return "http://" + l.Addr().String()
}

// clientSet contains the active work of all clients.
type clientSet struct {
	relays *relay.Registry
	calls  *services.Handler
	simple *rest.Handler
}

// Sweep ends the work of clients that are no longer authorized.
func (g clientSet) Sweep() {
	g.relays.Sweep()
	g.calls.Sweep()
}

// Close ends the work of all clients.
func (g clientSet) Close() {
	g.calls.Close()
	g.simple.Close()
	g.relays.Close()
}

// confirm serves the requests of "acphost console". The caller calls stop.
func confirm(ctx context.Context, broker *signin.Broker, log *slog.Logger) (stop func()) {
	l, name, err := confirmsocket.Listen()
	if err != nil {
		log.Warn("browsers cannot sign in by a code, only with a token", "error", err)
		return func() {}
	}
	log.Info("\"acphost console\" confirms browsers here", "socket", name)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer panics.Recover(log, "confirming browsers")
		confirmsocket.Serve(ctx, l, console.Confirm(broker), func(why error) { log.Warn("refused a caller of \"acphost console\"", "error", why) })
	}()
	return func() { cancel(); <-done }
}

// serve serves until ctx ends, and then shuts down: it rejects new clients, and waits at most drain for active turns.
func serve(ctx context.Context, s *http.Server, l net.Listener, clients clientSet, drain time.Duration, log *slog.Logger) error {
	failed := make(chan error, 1)
	tlsOn := s.TLSConfig != nil // Serve sets it
	go func() {
		defer panics.Recover(log, "accepting connections", func(err error) { failed <- err })
		if tlsOn {
			failed <- s.ServeTLS(l, "", "")
			return
		}
		failed <- s.Serve(l)
	}()
	log.Info("serving", "at", base(l, tlsOn)+"/acp")
	sweep := time.NewTicker(sweepInterval)
	defer sweep.Stop()
	var err error
	for ended := false; !ended; {
		select {
		case <-sweep.C:
			panics.Guard(log, "ending work of callers that are no longer authorized", clients.Sweep)()
		case err = <-failed:
			ended = true
		case <-ctx.Done():
			ended = true
		}
	}
	log.Info("stopping", "turns have", drain)
	draining, done := context.WithTimeout(context.Background(), drain)
	clients.relays.Drain(draining)
	done()
	stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	clients.Close()
	if shutdownErr := s.Shutdown(stopping); shutdownErr != nil {
		_ = s.Close()
	}
	if ctx.Err() == nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// dial returns a connection to the supervisor; the first call connects. pid is the process that was found; 0: the flags
// name the supervisor, which may be restarted.
func dial(ctx context.Context, f *flags, log *slog.Logger) (c *client.Client, pid int, err error) {
	switch {
	case f.supervisor != "":
		c, err = client.DialTLS(f.supervisor, f.supervisorTLS)
		return c, 0, err
	case f.socket != "":
		path, err := filepath.Abs(f.socket)
		if err != nil {
			return nil, 0, err
		}
		c, err = client.DialSocket(path)
		return c, 0, err
	}
	found, err := find(ctx)
	if err != nil {
		return nil, 0, err
	}
	log.Info("using a running supervisor of this user, until it ends", "pid", found.PID, "socket", found.Socket)
	c, err = found.Dial()
	return c, found.PID, err
}

// find returns the only supervisor in serve mode with the runtime folder of this environment.
func find(ctx context.Context) (client.Supervisor, error) {
	found := client.Find(ctx, client.Dirs(os.Getenv)[:1])
	unanswered := ""
	found = slices.DeleteFunc(found, func(s client.Supervisor) bool {
		if s.Err != nil {
			unanswered += fmt.Sprintf("; %s could not be used: %v", s.Socket, s.Err)
		}
		return s.Err != nil || s.Status.GetMode() != "serve"
	})
	switch len(found) {
	case 0:
		return client.Supervisor{}, errors.New(`no "acphost serve" of yours runs here: start one, or say where the supervisor is by --socket or --supervisor` + unanswered)
	case 1:
		return found[0], nil
	}
	var sockets []string
	for _, s := range found {
		sockets = append(sockets, s.Socket)
	}
	return client.Supervisor{}, fmt.Errorf("more than one \"acphost serve\" of yours runs here: choose one by --socket: %s", strings.Join(sockets, ", "))
}

// names returns the names by which clients may address this server.
func names(f *flags) []string {
	all := append([]string{"localhost", "127.0.0.1", "::1"}, f.hosts...)
	if _, host, ok := origin(f.publicURL); ok {
		all = append(all, host)
	}
	if host, _, err := net.SplitHostPort(f.listen); err == nil {
		if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
			all = append(all, host)
		}
	}
	return all
}

// tlsConfig returns the configuration for the keys in a folder, which are read again when they change; nil: dir is
// empty.
func tlsConfig(dir string, log *slog.Logger) (*tls.Config, error) {
	if dir == "" {
		return nil, nil
	}
	files := keyfiles.Files{CA: filepath.Join(dir, keyfiles.CAFile), Cert: filepath.Join(dir, "server.crt"), Key: filepath.Join(dir, "server.key")}
	keys, err := keyfiles.NewServer(files, func(c *tls.Config) {
		c.ClientAuth, c.MinVersion, c.NextProtos = tls.VerifyClientCertIfGiven, tls.VersionTLS12, []string{"h2", "http/1.1"}
	}, log)
	if err != nil {
		return nil, fmt.Errorf("the keys to serve with: %w", err)
	}
	return keys.Config(), nil
}
