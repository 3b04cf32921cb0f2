package handler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/acphost/acphost/internal/panics"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/sdk/internal/wire"
)

// Server serves a handler in this process, on any listener: for tests, and as the base of a sidecar. Configure works as
// in a child.
type Server struct {
	core   *core
	grpc   *grpc.Server
	health *health.Server
}

// NewServer returns a server for h with PluginService, health and reflection. opts, such as credentials, are applied
// after its own options. An error describes the missing part of h.
func NewServer(h Handler, opts ...grpc.ServerOption) (*Server, error) {
	c, err := newCore(h, false)
	if err != nil {
		return nil, err
	}
	return c.server(opts...), nil
}

// Serve accepts connections on l until Stop is called, and returns nil then. It closes l.
func (s *Server) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	}
	return nil
}

// Stop rejects new calls, waits for active calls until ctx is done, closes all connections and calls Handler.Close. It
// returns when Handler.Close has returned, or its time limit has passed. Further calls wait for the first.
func (s *Server) Stop(ctx context.Context) {
	s.health.Shutdown()
	s.core.end(ctx, s.grpc)
	s.core.close()
}

// core is the common part of a handler for all ways to serve it.
type core struct {
	h     Handler
	calls *calls
	holds *holds
	self  *pluginService

	shutOnce sync.Once
}

func newCore(h Handler, sidecar bool) (*core, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	if h.Logger == nil {
		h.Logger = Logger()
	}
	var meta *structpb.Struct
	if h.CapabilityMeta != nil {
		var err error
		if meta, err = structpb.NewStruct(h.CapabilityMeta); err != nil {
			return nil, fmt.Errorf("handler.Handler: CapabilityMeta: %w", err)
		}
	}
	c := &core{
		h:     h,
		calls: newCalls(h),
		holds: newHolds(h.Release, releaseDelay, h.Logger),
	}
	c.self = &pluginService{h: h, sidecar: sidecar, meta: meta, holds: c.holds}
	return c, nil
}

// options returns the server's options, with room for those of go-plugin or of a sidecar.
func (c *core) options() []grpc.ServerOption {
	return append(wire.ServerOptions(c.h.MaxMessageBytes), c.calls.options()...)
}

// register registers PluginService and the handler's services, and records the services for Describe.
func (c *core) register(to grpc.ServiceRegistrar) {
	pluginv1.RegisterPluginServiceServer(to, c.self)
	c.h.Register(&recordingRegistrar{to: to, names: &c.self.services})
	if c.h.RegisterUnlisted != nil {
		c.h.RegisterUnlisted(to)
	}
}

// recordingRegistrar is a registrar that records the names of the registered services.
type recordingRegistrar struct {
	to    grpc.ServiceRegistrar
	names *[]string
}

// RegisterService implements grpc.ServiceRegistrar.
func (l *recordingRegistrar) RegisterService(service *grpc.ServiceDesc, implementation any) {
	l.to.RegisterService(service, implementation)
	*l.names = append(*l.names, service.ServiceName)
}

// server makes a complete server with health and reflection, which go-plugin adds only to a child.
func (c *core) server(opts ...grpc.ServerOption) *Server {
	g := grpc.NewServer(append(c.options(), opts...)...)
	c.register(g)
	status := health.NewServer()
	for _, name := range append([]string{wire.HealthService, pluginv1.PluginService_ServiceDesc.ServiceName}, c.self.services...) {
		status.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	grpc_health_v1.RegisterHealthServer(g, status)
	reflection.Register(g)
	return &Server{core: c, grpc: g, health: status}
}

// end rejects new calls, waits for active calls until ctx is done, ends all streams, and stops g after the last answers
// were sent.
func (c *core) end(ctx context.Context, g *grpc.Server) {
	select {
	case <-c.calls.drain():
	case <-ctx.Done():
	}
	c.calls.cut()
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		defer panics.Recover(c.h.Logger, "ending calls")
		g.GracefulStop()
	}()
	late := time.NewTimer(flushTime)
	defer late.Stop()
	select {
	case <-flushed:
	case <-ctx.Done():
	case <-late.C:
	}
	// A call that never returns blocks GracefulStop, but must not prevent the process from ending.
	g.Stop()
}

// close releases all resources after the server was stopped, in limited time.
func (c *core) close() {
	c.shutOnce.Do(func() {
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			defer panics.Recover(c.h.Logger, "closing the handler")
			c.holds.close()
			if c.h.Close != nil {
				c.h.Close()
			}
		}()
		late := time.NewTimer(closeTime)
		defer late.Stop()
		select {
		case <-closed:
		case <-late.C:
			c.h.Logger.Error("the handler does not close in time: giving up on it", "after", closeTime)
		}
	})
}
