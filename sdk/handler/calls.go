package handler

import (
	"context"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
)

// calls stands around every call: it turns panics into errors, counts what has to be finished before the process ends,
// and refuses new calls from then on.
type calls struct {
	log *slog.Logger

	mu       sync.Mutex
	inFlight int
	draining bool
	idle     chan struct{} // closed when draining and inFlight is 0
}

func newCalls(log *slog.Logger) *calls { return &calls{log: log, idle: make(chan struct{})} }

func (c *calls) options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(c.unary), grpc.ChainStreamInterceptor(c.stream)}
}

// drain refuses calls from now on and returns a channel that is closed when those in flight have returned.
func (c *calls) drain() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.draining {
		c.draining = true
		c.settle()
	}
	return c.idle
}

func (c *calls) settle() {
	if c.draining && c.inFlight == 0 {
		close(c.idle)
	}
}

func (c *calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining {
		return false
	}
	c.inFlight++
	return true
}

func (c *calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight--
	c.settle()
}

func (c *calls) unary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (_ any, err error) {
	if !waits(info.FullMethod) {
		if !c.begin() {
			return nil, status.Error(codes.Unavailable, "the handler is ending")
		}
		defer c.end()
	}
	defer c.recovered(info.FullMethod, &err)
	return next(ctx, req)
}

func (c *calls) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer c.recovered(info.FullMethod, &err)
	return next(srv, ss)
}

// recovered is deferred. The caller learns that there was a panic; what it says may hold anything, so only the log does.
func (c *calls) recovered(method string, err *error) {
	if p := recover(); p != nil {
		c.log.Error("panic while a call was answered", "method", method, "panic", p, "stack", string(debug.Stack()))
		*err = status.Errorf(codes.Internal, "panic in %s: the handler's log has the stack", method)
	}
}

// waits says whether a call ends only when something outside happens, as its method option tells.
func waits(method string) bool {
	name := strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return false
	}
	m, ok := proto.GetExtension(d.Options(), acpv1.E_Method).(*acpv1.Method)
	return ok && m.GetWaits()
}
