// Package admin serves the gRPC services by which people and programs look into a running supervisor and change it: on a unix
// socket of the user, over TCP, and within the process.
//
// There are two unix sockets. The admin socket has a path: mode 0600, in a folder of mode 0700 of the user. The server also
// asks the kernel for the caller's user, if the kernel can tell. An agent of the same user can still connect, so this socket
// shows state and takes no other call. Calls that change something are taken on the control socket. It is an abstract socket,
// and agents cannot connect to it (access.go). Over TCP, a caller's certificate says what the caller may do (package certs).
//
// The package knows who may connect, which calls change something, and what a valid request is. It turns errors into
// codes. It must not know how anything is done: others implement its interfaces (State, Control, Agents, Sessions,
// Gateway, Events, Approvals, Decisions). Package rundir says where the sockets are. Callers use sdk/client.
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

	"github.com/acphost/acphost/internal/connlimit"
	"github.com/acphost/acphost/internal/limits"
	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/panics/grpcpanics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/certs"
)

// Control changes a supervisor. Its methods are called concurrently, with requests that keep to the contract, and for
// callers that may. An error that wraps a *fault.Error has its code; one with a gRPC status keeps that; any other is
// FAILED_PRECONDITION: nothing was changed, for a reason that a person can do something about.
type Control interface {
	// RestartHandler stops a handler and starts it again.
	RestartHandler(ctx context.Context, req *supervisorv1.RestartHandlerRequest) (*supervisorv1.RestartHandlerResponse, error)
	// SwapHandler puts another program or sidecar in a handler's place.
	SwapHandler(ctx context.Context, req *supervisorv1.SwapHandlerRequest) (*supervisorv1.SwapHandlerResponse, error)
	// ReloadPolicy has the permission handlers load their rules again.
	ReloadPolicy(ctx context.Context, req *supervisorv1.ReloadPolicyRequest) (*supervisorv1.ReloadPolicyResponse, error)
	// RevokeGrants forgets remembered answers: all that are named, or none.
	RevokeGrants(ctx context.Context, req *supervisorv1.RevokeGrantsRequest) (*supervisorv1.RevokeGrantsResponse, error)
}

// controlService serves a Control. Who may call, and with what, was decided before; see access.go.
type controlService struct {
	supervisorv1.UnsafeSupervisorControlServiceServer
	Control
}

// Options say what is served, and where.
type Options struct {
	// State is what there is to see. Required.
	State State
	// Control changes it. Nil: its verbs are UNIMPLEMENTED.
	Control Control
	// Agents, Sessions, Gateway, Events, Files, Approvals and Decisions, likewise. Each may be nil: UNIMPLEMENTED.
	Agents    Agents
	Sessions  Sessions
	Gateway   Gateway
	Events    Events
	Files     Files
	Approvals Approvals
	Decisions Decisions
	// Metrics serves those who come over TCP with the role for metrics, and no others; nil: they are turned away.
	Metrics http.Handler
	// ReadOnly says why programs can only look at agents and sessions: all other calls to Agents, Sessions and Gateway are
	// refused with it. Empty: programs start agents and open sessions.
	ReadOnly string
	// Socket is the socket's absolute path. Default: a name of its own in Dir of the environment.
	Socket string
	// NoSocket serves no socket: only this process can call, through Local, and whoever comes over TCP.
	NoSocket bool
	// ControlOff says why agents could not be kept from the control socket, so that there is none: calls that change
	// something are then refused on the admin socket, with this as the reason. Empty: they can be.
	ControlOff string
	// Listen is an address to serve over TCP too, "HOST:PORT"; port 0 is any free one. Default: none.
	Listen string
	// Listener is the socket of Listen where somebody else has opened it; nil: it is opened here. Start closes it, or the Server.
	Listener net.Listener
	// TLS are the files of the server's keys and of the authority of its clients. Required for Listen.
	TLS certs.Files
	// Env looks up environment variables. Default: os.Getenv.
	Env func(string) string
	// Logger gets what is refused. Default: nothing is logged.
	Logger *slog.Logger
}

// Bounds on one connection, of those who are trusted and of untrusted callers; see door.go. A prompt can hold images. A request is
// bounded before any of its body is read, and a stream that nobody reads from holds 64 KiB, so that all untrusted callers of a door
// together take about 256 × 64 KiB; see bounds.
const (
	maxRequestBytes          = limits.Request
	maxUntrustedRequestBytes = 64 << 10
	maxHeaderBytes           = 64 << 10
	// A program that watches many sessions has a stream for each, and more than there may be wait without a word.
	maxStreams          = 4096
	maxUntrustedStreams = 32
	// An untrusted caller that calls nothing loses its connection, and makes another when it has something to call.
	maxUntrustedIdle = 5 * time.Minute
)

// stopGrace is how long Stop waits for calls that are being answered; reading state takes less.
const stopGrace = 500 * time.Millisecond

// Server is a running admin server.
type Server struct {
	path     string
	known    string // a link to it where others look for supervisors
	address  string
	control  string // "@" and the name; empty: there is none
	opts     Options
	doors    []*door
	servers  []*grpc.Server // of trusted callers, and of untrusted callers
	scrapes  *scrapes       // nil: metrics are not served
	health   *health.Server
	end      context.CancelFunc // of streams
	served   sync.WaitGroup
	stopOnce sync.Once
	stopped  chan struct{}

	replays *connlimit.Limiter // of decisions, and those who watch decisions
	watches *connlimit.Limiter

	inside *hall
	mu     sync.Mutex
	locals []*grpc.ClientConn // guarded by mu
}

// Start makes the socket and serves on it until Stop: SupervisorStateService, the other services where Options have
// something for them, grpc health, and reflection. On return, calls are answered. Sockets that dead supervisors have
// left in the default folder are removed. Keys that cannot be used are an error that says why.
func Start(o Options) (*Server, error) {
	if o.Env == nil {
		o.Env = os.Getenv
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	s := &Server{opts: o, health: health.NewServer(), stopped: make(chan struct{}), inside: newHall(), replays: connlimit.New(maxReplays, 1, connlimit.RejectNew), watches: connlimit.New(maxWatches, maxWatchesEach, connlimit.RejectNew)}
	s.inside.address = "within the process"
	ending, end := context.WithCancel(context.Background())
	s.end = end
	trusted, untrusted := newHall(), newHall()
	if o.Metrics != nil && o.Listen != "" {
		s.scrapes = newScrapes(o.Metrics, o.Logger)
	}
	add := func(w way) {
		s.doors = append(s.doors, &door{way: w, bounds: usualBounds(connlimit.Room()), trusted: trusted, untrusted: untrusted, scrapes: s.scrapes, logger: o.Logger})
	}
	add(way{listener: s.inside, introduce: byBirth, origin: nowhere})
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
		add(way{listener: listener, introduce: byCertificate(keys), origin: connlimit.AddressOf, slow: true})
	}
	if !o.NoSocket {
		listener, path, err := listen(o)
		if err != nil {
			for _, d := range s.doors {
				_ = d.listener.Close()
			}
			return nil, fmt.Errorf("admin socket: %w", err)
		}
		s.path, s.known = path, makeKnown(o, path)
		verbs := s.openControl(add)
		socket := newLasting(listener, path, o.Socket == "")
		s.served.Go(func() {
			defer panics.Recover(o.Logger, "keeping the admin socket")
			socket.keep(ending, func(err error) {
				o.Logger.Warn("the admin socket is gone, and cannot be made again; the control socket is there", "path", path, "error", err)
			})
		})
		add(way{listener: socket, introduce: byKernel(false, verbs, o.Logger), origin: processOf})
	}
	s.serve(trusted, s.server(ending, maxRequestBytes, maxStreams))
	s.serve(untrusted, s.server(ending, maxUntrustedRequestBytes, maxUntrustedStreams, grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: maxUntrustedIdle})))
	if s.scrapes != nil {
		s.served.Go(panics.Guard(o.Logger, "serving metrics", s.scrapes.serve))
	}
	for _, d := range s.doors {
		d.open()
	}
	return s, nil
}

// openControl opens the control socket, if there is to be one, and returns what is said to those who make a call on the
// admin socket that belongs there.
func (s *Server) openControl(add func(way)) (verbs string) {
	if s.opts.ControlOff != "" {
		s.opts.Logger.Warn("there is no control socket: calls that change something are refused", "reason", s.opts.ControlOff)
	} else {
		listener, name, err := listenControl()
		if err == nil {
			s.control = name
			add(way{listener: listener, introduce: byKernel(true, "", s.opts.Logger), origin: processOf})
			return "calls that change something are taken on the abstract socket " + name + ", where agents cannot connect"
		}
		s.opts.ControlOff = err.Error()
		s.opts.Logger.Warn("there is no control socket: calls that change something are refused on the admin socket", "error", err)
	}
	return "calls that change something are refused: " + s.opts.ControlOff
}

// server makes one of the two servers, with all services.
func (s *Server) server(ending context.Context, maxRequest int, streams uint32, more ...grpc.ServerOption) *grpc.Server {
	gate := &access{ending: ending, logger: s.opts.Logger, refused: s.opts.refused}
	server := grpc.NewServer(append(more,
		grpc.Creds(introduced{}),
		grpc.ForceServerCodecV2(grpcpanics.Codec(s.opts.Logger, newCodec())),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(streams),
		grpc.ChainUnaryInterceptor(grpcpanics.Unary(s.opts.Logger), gate.unary),
		grpc.ChainStreamInterceptor(grpcpanics.Stream(s.opts.Logger), gate.stream),
		grpc.WaitForHandlers(true),
		// Clients behind a network that forgets quiet connections ask from time to time whether one is still there.
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

// refused returns why a method is not served; nil: it is.
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

func (s *Server) serve(h *hall, server *grpc.Server) {
	s.servers = append(s.servers, server)
	s.served.Go(func() {
		defer panics.Recover(s.opts.Logger, "accepting admin calls")
		if err := server.Serve(h); err != nil && !errors.Is(err, net.ErrClosed) {
			s.opts.Logger.Error("admin calls are not served any more", "path", s.path, "error", err)
		}
	})
}

// Path returns the socket's absolute path; empty: there is none.
func (s *Server) Path() string { return s.path }

// Control returns the abstract socket for calls that change something, "@" and its name, and where there is none, why.
func (s *Server) Control() (socket, off string) { return s.control, s.opts.ControlOff }

// Address returns the address that is served over TCP, with its port; empty: there is none.
func (s *Server) Address() string { return s.address }

// Local returns a connection for this process itself, which may do everything. It works until Stop, which closes it; so
// does its owner if it implements io.Closer.
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

// Draining tells whoever asks for the server's health, from now on, that it does not serve: nothing new is to come. Calls
// are answered as before.
func (s *Server) Draining() { s.health.Shutdown() }

// Stop ends the server and removes the socket. Streams end at once (UNAVAILABLE); calls that are being answered have half
// a second. It may be called more than once, and returns when nothing of the server runs any more.
func (s *Server) Stop() {
	s.stopOnce.Do(func() {
		defer close(s.stopped)
		s.health.Shutdown()
		s.end()
		for _, d := range s.doors {
			d.close()
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
		if s.scrapes != nil {
			stopping.Go(panics.Guard(s.opts.Logger, "stopping metrics", s.scrapes.stop))
		}
		stopping.Wait()
		s.served.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, conn := range s.locals {
			_ = conn.Close() // again, if its owner did
		}
		if s.path != "" {
			_ = os.Remove(s.path) // no new caller finds it; one that died earlier is cleaned up by others
		}
		if s.known != "" {
			_ = os.Remove(s.known)
		}
	})
	<-s.stopped
}
