// Package admin is how people look into a running supervisor and change it: gRPC services on a unix socket of the
// user's own.
//
// It knows where such sockets are, who may connect to one, and which calls change something. What there is to see it
// asks of a State, and what is to be changed of a Control, which the composition of the supervisor implements; it must
// not know how that is put together.
//
// A socket is mode 0600 in a folder of mode 0700 that belongs to the user, and its server asks the kernel who calls
// where the kernel can tell. An agent of the same user passes both walls: that is why state can be read by anyone who
// gets this far, and calls that change something need more than that; see access.go.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// State is what there is to see of a supervisor. Its methods are called concurrently, return messages that nobody
// changes any more, and, but for Terminals, answer at once.
type State interface {
	// Status is the supervisor as a whole.
	Status() *supervisorv1.GetStatusResponse
	// Handlers are the handlers, by name.
	Handlers() []*supervisorv1.HandlerStatus
	// Routes are the routes, by method.
	Routes() []*supervisorv1.Route
	// Sessions are the sessions, oldest first.
	Sessions() []*supervisorv1.Session
	// Terminals asks the terminal handler for its terminals, oldest first. An error with a gRPC status keeps its code,
	// any other is UNAVAILABLE.
	Terminals(ctx context.Context) ([]*supervisorv1.Terminal, error)
	// Grants are the remembered answers in force, oldest first.
	Grants() []*supervisorv1.Grant
}

// Control changes a supervisor. Its methods are called concurrently, with requests that keep to the contract, and for
// callers that may. An error that wraps ErrNotFound is NOT_FOUND; one with a gRPC status keeps its code; any other is
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

// ErrNotFound says that what a request names is not there.
var ErrNotFound = errors.New("not there")

// Options say what is served, and where.
type Options struct {
	// State is what there is to see. Required.
	State State
	// Control changes it. Nil: verbs are UNIMPLEMENTED.
	Control Control
	// Socket is the socket's absolute path. Default: a name of its own in Dir of the environment.
	Socket string
	// Env looks up environment variables. Default: os.Getenv.
	Env func(string) string
	// Logger gets what is refused. Default: nothing is logged.
	Logger *slog.Logger
}

// Bounds on what one connection may take; an agent can connect too.
const (
	handshakeTimeout = 5 * time.Second
	maxRequestBytes  = 64 << 10
	maxStreams       = 32
)

// stopGrace is how long Stop waits for calls that are being answered; reading state takes less.
const stopGrace = 500 * time.Millisecond

// Server is a running admin server.
type Server struct {
	path     string
	server   *grpc.Server
	health   *health.Server
	served   chan struct{}
	stopOnce sync.Once
}

// Start makes the socket and serves on it until Stop: SupervisorStateService, SupervisorControlService where there is a
// Control, grpc health, and reflection. On return,
// calls are answered. Sockets that dead supervisors have left in the default folder are removed.
func Start(o Options) (*Server, error) {
	if o.Env == nil {
		o.Env = os.Getenv
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	listener, path, err := listen(o)
	if err != nil {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	gate := access{logger: o.Logger}
	s := &Server{
		path: path,
		server: grpc.NewServer(
			grpc.Creds(peerCredentials{logger: o.Logger}),
			grpc.ConnectionTimeout(handshakeTimeout),
			grpc.MaxRecvMsgSize(maxRequestBytes),
			grpc.MaxConcurrentStreams(maxStreams),
			grpc.ChainUnaryInterceptor(gate.unary),
			grpc.ChainStreamInterceptor(gate.stream),
		),
		health: health.NewServer(),
		served: make(chan struct{}),
	}
	supervisorv1.RegisterSupervisorStateServiceServer(s.server, &stateService{state: o.State})
	if o.Control != nil {
		supervisorv1.RegisterSupervisorControlServiceServer(s.server, &controlService{control: o.Control})
	}
	healthv1.RegisterHealthServer(s.server, s.health)
	s.health.SetServingStatus(supervisorv1.SupervisorStateService_ServiceDesc.ServiceName, healthv1.HealthCheckResponse_SERVING)
	reflection.Register(s.server)
	go func() {
		defer close(s.served)
		if err := s.server.Serve(listener); err != nil && !errors.Is(err, net.ErrClosed) {
			o.Logger.Error("the admin socket is not served any more", "path", path, "error", err)
		}
	}()
	return s, nil
}

// Path returns the socket's absolute path.
func (s *Server) Path() string { return s.path }

// Stop ends the server and removes the socket. Calls that are being answered have half a second; streams are cut off.
// It may be called more than once, and returns when nothing of the server runs any more.
func (s *Server) Stop() {
	s.stopOnce.Do(func() {
		s.health.Shutdown()
		cut := time.AfterFunc(stopGrace, s.server.Stop)
		s.server.GracefulStop()
		cut.Stop()
		<-s.served
		_ = os.Remove(s.path) // no new caller finds it; one that died earlier is cleaned up by others
	})
	<-s.served
}
