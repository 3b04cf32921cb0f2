// Package admin serves the gRPC services with which people and programs observe and change a running supervisor: on a
// unix socket of the user, over TCP, and within the process.
//
// There are two unix sockets. The admin socket has a path: mode 0600, in a folder of mode 0700 of the user. The server
// also checks the caller's user, if the kernel reports it. An agent of the same user can still connect, so this socket
// only accepts calls that read state. Calls that change something are accepted on the control socket. It is an abstract
// socket, and agents cannot connect to it (access.go). Over TCP, a caller's certificate determines the caller's rights
// (package certs).
//
// The package knows who may connect, which calls change something, and what a valid request is. It converts errors to
// codes. It must not know how calls are carried out: others implement its interfaces (State, Control, Agents, Sessions,
// Gateway, Events, Approvals, Decisions). Package rundir has the locations of the sockets. Callers use sdk/client.
package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/connlimit"
	"github.com/acphost/acphost/internal/limits"
	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/panics/grpcpanics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Control changes a supervisor. Its methods are called concurrently, with validated requests of authorized callers. An
// error that wraps a *fault.Error has its code. An error with a gRPC status keeps that. Any other error is
// FAILED_PRECONDITION: nothing was changed, for a reason that a person can resolve.
type Control interface {
	// RestartHandler stops a handler and starts it again.
	RestartHandler(ctx context.Context, req *supervisorv1.RestartHandlerRequest) (*supervisorv1.RestartHandlerResponse, error)
	// SwapHandler replaces a handler's program or sidecar by another one.
	SwapHandler(ctx context.Context, req *supervisorv1.SwapHandlerRequest) (*supervisorv1.SwapHandlerResponse, error)
	// ReloadPolicy makes the permission handlers load their rules again.
	ReloadPolicy(ctx context.Context, req *supervisorv1.ReloadPolicyRequest) (*supervisorv1.ReloadPolicyResponse, error)
	// RevokeGrants deletes remembered answers: all that are named, or none.
	RevokeGrants(ctx context.Context, req *supervisorv1.RevokeGrantsRequest) (*supervisorv1.RevokeGrantsResponse, error)
}

// controlService serves a Control. access has authorized the caller and validated the request; see access.go.
type controlService struct {
	supervisorv1.UnsafeSupervisorControlServiceServer
	Control
}

// Options configure a Server.
type Options struct {
	// State reads the supervisor's state. Required.
	State State
	// Control changes the supervisor. Nil: its methods are UNIMPLEMENTED.
	Control Control
	// Agents, Sessions, Gateway, Events, Files, Approvals and Decisions serve their services. Each may be nil:
	// UNIMPLEMENTED.
	Agents    Agents
	Sessions  Sessions
	Gateway   Gateway
	Events    Events
	Files     Files
	Approvals Approvals
	Decisions Decisions
	// Metrics serves callers over TCP that have the role for metrics, and no other callers; nil: their connections are
	// closed.
	Metrics http.Handler
	// ReadOnly is the reason why programs can only read agents and sessions: all other calls to Agents, Sessions and
	// Gateway are rejected with it. Empty: programs start agents and open sessions.
	ReadOnly string
	// Socket is the socket's absolute path. Default: a unique name in the folder that rundir.Dir returns for Env.
	Socket string
	// NoSocket serves no socket: only this process, through Local, and callers over TCP can call.
	NoSocket bool
	// ControlOff is the reason why agents cannot be kept from a control socket, so that none is opened: the admin
	// socket then rejects calls that change something with this reason. Empty: the control socket is opened.
	ControlOff string
	// Listen is an address to also serve over TCP, "HOST:PORT"; port 0 is any free one. Default: none.
	Listen string
	// Listener is the listener of Listen if the caller has opened it already; nil: Start opens it. Start or Stop closes
	// it.
	Listener net.Listener
	// TLS names the files of the server's key and certificate and of the clients' authority. Required for Listen.
	TLS certs.Files
	// Env looks up environment variables. Default: os.Getenv.
	Env func(string) string
	// Logger logs rejected calls. Default: nothing is logged.
	Logger *slog.Logger
}

// Bounds on one connection, of trusted and of untrusted callers; see acceptor.go. A prompt can hold images. The size of
// a request is checked before its body is read, and a stream without a reader holds 64 KiB, so that all untrusted
// callers of an acceptor together use about 256 × 64 KiB; see bounds.
const (
	maxRequestBytes          = limits.Request
	maxUntrustedRequestBytes = 64 << 10
	maxHeaderBytes           = 64 << 10
	// A program that watches many sessions has a stream for each. gRPC delays further streams without an error.
	maxStreams          = 4096
	maxUntrustedStreams = 32
	// The connection of an untrusted caller is closed when idle. gRPC clients reconnect for their next call.
	maxUntrustedIdle = 5 * time.Minute
)

// stopGrace is how long Stop waits for active calls; reading state takes less.
const stopGrace = 500 * time.Millisecond

// Server is a running admin server.
type Server struct {
	path          string
	known         string // a link to path in the folder where clients search for supervisors
	address       string
	control       string // "@" and the name; empty: no control socket
	opts          Options
	acceptors     []*acceptor
	servers       []*grpc.Server // for trusted callers, and for untrusted callers
	metricsServer *metricsServer // nil: metrics are not served
	health        *health.Server
	end           context.CancelFunc // ends streams
	served        sync.WaitGroup
	stopOnce      sync.Once
	stopped       chan struct{}

	replays *connlimit.Limiter // limits replays of decisions
	watches *connlimit.Limiter

	inside *memListener
	mu     sync.Mutex
	locals []*grpc.ClientConn // guarded by mu
}

// Start makes the socket and serves on it until Stop: SupervisorStateService, the other services that Options
// implement, grpc health, and reflection. When it returns, calls are answered. It removes sockets that dead supervisors
// have left in the default folder. If the TLS files cannot be used, it returns an error with the reason.
func Start(o Options) (*Server, error) {
	if o.Env == nil {
		o.Env = os.Getenv
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	s := &Server{opts: o, health: health.NewServer(), stopped: make(chan struct{}), inside: newMemListener(), replays: connlimit.New(maxReplays, 1, connlimit.RejectNew), watches: connlimit.New(maxWatches, maxWatchesEach, connlimit.RejectNew)}
	s.inside.address = "within the process"
	ending, end := context.WithCancel(context.Background())
	s.end = end
	trusted, untrusted := newMemListener(), newMemListener()
	if o.Metrics != nil && o.Listen != "" {
		s.metricsServer = newMetricsServer(o.Metrics, o.Logger)
	}
	add := func(e endpoint) {
		s.acceptors = append(s.acceptors, &acceptor{endpoint: e, bounds: usualBounds(connlimit.Room()), trusted: trusted, untrusted: untrusted, metricsServer: s.metricsServer, logger: o.Logger})
	}
	add(endpoint{listener: s.inside, identify: bySelf, origin: noOrigin})
	if o.Listen != "" {
		keys, err := certs.NewServer(o.TLS, o.Logger)
		if err != nil {
			return nil, fmt.Errorf("serve on %s: %w", o.Listen, err)
		}
		listener := o.Listener
		if listener == nil {
			if listener, err = net.Listen("tcp", o.Listen); err != nil {
				return nil, fmt.Errorf("serve over TCP: %w", err)
			}
		}
		s.address = listener.Addr().String()
		add(endpoint{listener: listener, identify: byCertificate(keys), origin: connlimit.AddressOf, slow: true})
	}
	if !o.NoSocket {
		listener, path, err := listen(o)
		if err != nil {
			for _, a := range s.acceptors {
				_ = a.listener.Close()
			}
			return nil, fmt.Errorf("admin socket: %w", err)
		}
		s.path, s.known = path, makeKnown(o, path)
		verbs := s.openControl(add)
		socket := newRenewedListener(listener, path, o.Socket == "")
		s.served.Go(func() {
			defer panics.Recover(o.Logger, "keeping the admin socket")
			socket.keep(ending, func(err error) {
				o.Logger.Warn("the admin socket is gone, and cannot be made again; the control socket is there", "path", path, "error", err)
			})
		})
		add(endpoint{listener: socket, identify: byKernel(false, verbs, o.Logger), origin: processOf})
	}
	s.serve(trusted, s.server(ending, maxRequestBytes, maxStreams))
	s.serve(untrusted, s.server(ending, maxUntrustedRequestBytes, maxUntrustedStreams, grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: maxUntrustedIdle})))
	if s.metricsServer != nil {
		s.served.Go(panics.Guard(o.Logger, "serving metrics", s.metricsServer.serve))
	}
	for _, a := range s.acceptors {
		a.open()
	}
	return s, nil
}

// openControl opens the control socket, unless it is off. It returns the reason with which the admin socket rejects
// verbs.
func (s *Server) openControl(add func(endpoint)) (verbs string) {
	if s.opts.ControlOff != "" {
		s.opts.Logger.Warn("there is no control socket: calls that change something are refused", "reason", s.opts.ControlOff)
	} else {
		listener, name, err := listenControl()
		if err == nil {
			s.control = name
			add(endpoint{listener: listener, identify: byKernel(true, "", s.opts.Logger), origin: processOf})
			return "calls that change something are taken on the abstract socket " + name + ", where agents cannot connect"
		}
		s.opts.ControlOff = err.Error()
		s.opts.Logger.Warn("there is no control socket: calls that change something are refused on the admin socket", "error", err)
	}
	return "calls that change something are refused: " + s.opts.ControlOff
}

// server makes one of the two gRPC servers, with all services.
func (s *Server) server(ending context.Context, maxRequest int, streams uint32, more ...grpc.ServerOption) *grpc.Server {
	gate := &access{ending: ending, logger: s.opts.Logger, refused: s.opts.refused}
	server := grpc.NewServer(append(more,
		grpc.Creds(identifiedCreds{}),
		grpc.ForceServerCodecV2(grpcpanics.Codec(s.opts.Logger, newCodec())),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(streams),
		grpc.ChainUnaryInterceptor(grpcpanics.Unary(s.opts.Logger), gate.unary),
		grpc.ChainStreamInterceptor(grpcpanics.Stream(s.opts.Logger), gate.stream),
		grpc.WaitForHandlers(true),
		// Clients behind a network that drops idle connections send keepalive pings.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)...)
	o := s.opts
	supervisorv1.RegisterSupervisorStateServiceServer(server, &stateService{State: o.State, events: o.Events, files: o.Files, approvals: o.Approvals, server: s})
	if o.Control != nil {
		supervisorv1.RegisterSupervisorControlServiceServer(server, controlService{Control: o.Control})
	}
	if o.Agents != nil {
		supervisorv1.RegisterAgentServiceServer(server, &agentService{Agents: o.Agents, approvals: o.Approvals})
	}
	if o.Sessions != nil || o.Events != nil {
		supervisorv1.RegisterSessionServiceServer(server, &sessionService{Sessions: o.Sessions, events: o.Events, approvals: o.Approvals})
	}
	if o.Gateway != nil || o.ReadOnly != "" {
		supervisorv1.RegisterGatewayServiceServer(server, &gatewayService{gateway: o.Gateway})
	}
	if o.Approvals != nil {
		supervisorv1.RegisterApprovalServiceServer(server, &approvalService{approvals: o.Approvals})
	}
	if o.Decisions != nil {
		supervisorv1.RegisterDecisionServiceServer(server, &decisionService{decisions: o.Decisions, replays: s.replays, watches: s.watches})
	}
	healthv1.RegisterHealthServer(server, s.health)
	for name := range server.GetServiceInfo() {
		s.health.SetServingStatus(name, healthv1.HealthCheckResponse_SERVING)
	}
	reflection.Register(server)
	gate.classes = classesOf(server)
	return server
}

// refused returns why a method is not served; nil: it is served.
func (o *Options) refused(method string) error {
	service, name := path.Split(method)
	ofAgents, ofSessions := service == "/"+supervisorv1.AgentService_ServiceDesc.ServiceName+"/", service == "/"+supervisorv1.SessionService_ServiceDesc.ServiceName+"/"
	ofGateway := service == "/"+supervisorv1.GatewayService_ServiceDesc.ServiceName+"/"
	switch {
	case !ofAgents && !ofSessions && !ofGateway, method == supervisorv1.AgentService_ListAgents_FullMethodName,
		method == supervisorv1.AgentService_GetAgent_FullMethodName, method == supervisorv1.SessionService_WatchSession_FullMethodName:
		return nil
	case o.ReadOnly != "":
		return status.Error(codes.FailedPrecondition, name+": "+o.ReadOnly)
	case ofSessions && o.Sessions == nil:
		return status.Error(codes.Unimplemented, "sessions can only be watched here")
	}
	return nil
}

func (s *Server) serve(l *memListener, server *grpc.Server) {
	s.servers = append(s.servers, server)
	s.served.Go(func() {
		defer panics.Recover(s.opts.Logger, "accepting admin calls")
		if err := server.Serve(l); err != nil && !errors.Is(err, net.ErrClosed) {
			s.opts.Logger.Error("admin calls are not served any more", "path", s.path, "error", err)
		}
	})
}

// Path returns the socket's absolute path; empty: there is no socket.
func (s *Server) Path() string { return s.path }

// Control returns the abstract socket for calls with effects, "@" and its name; if it does not exist, off is the
// reason.
func (s *Server) Control() (socket, off string) { return s.control, s.opts.ControlOff }

// Address returns the TCP address that is served, with its port; empty: none.
func (s *Server) Address() string { return s.address }

// Local returns a connection for this process itself, which may do everything. It works until Stop, which closes it;
// its owner may close it earlier if it implements io.Closer.
func (s *Server) Local() (grpc.ClientConnInterface, error) {
	conn, err := grpc.NewClient("passthrough:///acphost",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.inside.dial(ctx) }))
	if err != nil {
		return nil, fmt.Errorf("connect within the process: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locals = append(s.locals, conn)
	return conn, nil
}

// Draining makes the health service report NOT_SERVING from now on, so that no new callers connect. Calls are still
// answered.
func (s *Server) Draining() { s.health.Shutdown() }

// Stop ends the server and removes the socket. Streams end at once (UNAVAILABLE); active calls have half a second to
// end. It may be called more than once, and returns when all goroutines of the server have ended.
func (s *Server) Stop() {
	s.stopOnce.Do(func() {
		defer close(s.stopped)
		s.health.Shutdown()
		s.end()
		for _, a := range s.acceptors {
			a.close()
		}
		var stopping sync.WaitGroup
		for _, server := range s.servers {
			stopping.Go(func() {
				defer panics.Recover(s.opts.Logger, "stopping admin calls")
				cut := time.AfterFunc(stopGrace, server.Stop)
				defer cut.Stop()
				server.GracefulStop()
			})
		}
		if s.metricsServer != nil {
			stopping.Go(panics.Guard(s.opts.Logger, "stopping metrics", s.metricsServer.stop))
		}
		stopping.Wait()
		s.served.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, conn := range s.locals {
			_ = conn.Close() // the owner may have closed it already
		}
		if s.path != "" {
			_ = os.Remove(s.path) // after a crash, the next supervisor removes it
		}
		if s.known != "" {
			_ = os.Remove(s.known)
		}
	})
	<-s.stopped
}
