package handler

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/acphost/acphost/internal/panics"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
)

var errEnding = status.Error(codes.Unavailable, "the handler is ending")

// calls wraps every call: it converts panics to errors, counts the active calls for a graceful end, rejects new calls
// after the end has begun, and finally cancels streams and calls that would not end by themselves.
type calls struct {
	log      *slog.Logger
	stopping context.Context // done: streams, and calls that wait, end now
	cut      context.CancelFunc
	around   func(call func()) // Handler.Around; never nil

	mu       sync.Mutex
	inFlight int
	draining bool
	idle     chan struct{} // closed when draining and inFlight is 0
}

func newCalls(h Handler) *calls {
	c := &calls{log: h.Logger, around: h.Around, idle: make(chan struct{})}
	if c.around == nil {
		c.around = func(call func()) { call() }
	}
	c.stopping, c.cut = context.WithCancel(context.Background())
	return c
}

func (c *calls) options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(c.unary), grpc.ChainStreamInterceptor(c.stream)}
}

// drain rejects new calls, and returns a channel that is closed when the active calls have returned.
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
) (reply any, err error) {
	defer c.recoverPanic(info.FullMethod, &err)
	if waitsForEvent(info.FullMethod) {
		ctx, done := c.cancellable(ctx)
		defer done(&err)
		return next(ctx, req)
	}
	if !c.begin() {
		return nil, errEnding
	}
	defer c.end()
	c.around(func() { reply, err = next(ctx, req) })
	return reply, err
}

func (c *calls) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer c.recoverPanic(info.FullMethod, &err)
	ctx, done := c.cancellable(ss.Context())
	defer done(&err)
	return next(srv, &stream{ss, ctx})
}

// cancellable returns the context of a call that does not end by itself: it ends with ctx or with c.stopping. The
// caller defers done.
func (c *calls) cancellable(ctx context.Context) (context.Context, func(*error)) {
	inner, cancel := context.WithCancel(ctx)
	forget := context.AfterFunc(c.stopping, cancel)
	return inner, func(err *error) {
		forget()
		cancel()
		// The caller has not cancelled the call: CANCELED would be wrong.
		if *err != nil && ctx.Err() == nil && c.stopping.Err() != nil {
			*err = errEnding
		}
	}
}

// stream is a grpc.ServerStream with another context.
type stream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s *stream) Context() context.Context { return s.ctx }

// recoverPanic is deferred. The caller gets only the fact that the call panicked. The value of the panic may contain
// any data, so it is only logged.
func (c *calls) recoverPanic(method string, err *error) {
	if p := recover(); p != nil {
		panics.Report(c.log, "answering "+method, p)
		*err = status.Errorf(codes.Internal, "panic in %s: the handler's log has the stack", method)
	}
}

// waitsForEvent reports whether a call waits for an event outside of the handler, according to its method option.
func waitsForEvent(method string) bool {
	name := strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return false
	}
	m, ok := proto.GetExtension(d.Options(), acpv1.E_Method).(*acpv1.Method)
	return ok && m.GetWaits()
}
