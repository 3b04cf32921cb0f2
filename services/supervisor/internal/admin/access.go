package admin

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/services/supervisor/internal/certs"
)

// access decides which calls a caller may make. What a call is, its descriptor says; see class.go.
//
// Over the socket, reading state is open to everyone who can connect. Everything else is a verb, and a verb must come
// from a person: an agent runs as the same user as the supervisor and can connect too, so the caller's process is told
// apart from agents and handlers by what stands above it; see descent.go. Over TCP the role in the caller's certificate
// counts. This process itself may do everything.
type access struct {
	classes map[string]class // by full method: "/package.Service/Method"
	ending  context.Context  // done: the server stops
	logger  *slog.Logger
}

func (a *access) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := a.check(ctx, info.FullMethod, req); err != nil {
		return nil, err
	}
	done, err := speak(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return handle(ctx, req)
}

// stream ends with the server, so that no watcher has to be waited for.
func (a *access) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	class := a.classOf(info.FullMethod)
	if !class.asks {
		if err := a.check(stream.Context(), info.FullMethod, nil); err != nil {
			return err
		}
	}
	done, err := speak(stream.Context())
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	defer context.AfterFunc(a.ending, func() { cancel(errStopping) })()
	err = handle(srv, &checkedStream{ServerStream: stream, ctx: ctx, access: a, method: info.FullMethod, asks: class.asks})
	if err != nil && errors.Is(context.Cause(ctx), errStopping) {
		return status.Error(codes.Unavailable, errStopping.Error())
	}
	return err
}

// speak begins a call, if it is not one of too many. The caller calls done at its end.
func speak(ctx context.Context) (done func(), err error) {
	speaking := identityOf(ctx).speaking
	if speaking == nil {
		return func() {}, nil
	}
	select {
	case speaking <- struct{}{}:
		return func() { <-speaking }, nil
	default:
		return nil, status.Error(codes.ResourceExhausted, "too many calls are being answered: try again later")
	}
}

// checkedStream is a stream that ends with its server, and whose request decides whether it may begin.
type checkedStream struct {
	grpc.ServerStream
	ctx    context.Context
	access *access
	method string
	asks   bool
}

func (s *checkedStream) Context() context.Context { return s.ctx }

func (s *checkedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if s.asks {
		return s.access.check(s.ctx, s.method, m)
	}
	return nil
}

// check refuses what the caller may not. req is the request of a call that is one thing or another by what it says.
func (a *access) check(ctx context.Context, method string, req any) error {
	class := a.classOf(method)
	need := class.need
	if l, ok := req.(interface{ GetOnlyLook() bool }); ok && class.asks && l.GetOnlyLook() {
		need = certs.Viewer
	}
	who := identityOf(ctx)
	err := who.may(need)
	if err != nil {
		a.logger.Warn("refused a call", "method", method, "caller", who, "error", err)
	}
	return err
}

// classOf is the class of a method; one that is not known is an operator's.
func (a *access) classOf(method string) class {
	if c, ok := a.classes[method]; ok {
		return c
	}
	return class{need: certs.Operator}
}

// identity is who is at the other end of a connection. The zero value is somebody of whom nothing is known.
type identity struct {
	credentials.CommonAuthInfo
	// caller is the process, on a unix socket.
	caller caller
	// self: it is this process.
	self bool
	// certificate: it came over TCP and showed one, and name and role are what it says; unfit says why role is none.
	certificate bool
	name        string
	role        certs.Role
	unfit       error
	// speaking has room for the calls of all guests at a door; nil: it is no guest's.
	speaking chan struct{}
}

// AuthType implements credentials.AuthInfo.
func (i identity) AuthType() string {
	switch {
	case i.self:
		return "this process"
	case i.certificate:
		return "certificate"
	}
	return "peer credentials"
}

// LogValue implements slog.LogValuer.
func (i identity) LogValue() slog.Value {
	switch {
	case i.self:
		return slog.StringValue("this process")
	case i.certificate:
		return slog.GroupValue(slog.String("certificate", i.name), slog.String("role", i.role.String()))
	}
	return slog.GroupValue(slog.Int("pid", i.caller.PID), slog.Int("uid", i.caller.UID))
}

// may returns an error with a gRPC status unless the caller has a role, or is as good as one who has.
func (i identity) may(need certs.Role) error {
	switch {
	case i.self:
		return nil
	case i.certificate && i.role == certs.NoRole:
		return status.Errorf(codes.PermissionDenied, "this caller may do nothing here: %v", i.unfit)
	case i.certificate && i.role < need:
		return status.Errorf(codes.PermissionDenied, "this takes the role %s, and the certificate of %s has the role %s", need, presentable(i.name), i.role)
	case i.certificate, need <= certs.Viewer:
		return nil
	}
	return checkVerb(i.caller)
}

// identityOf returns who is at the other end of a call's connection.
func identityOf(ctx context.Context) identity {
	if p, ok := peer.FromContext(ctx); ok {
		if who, ok := p.AuthInfo.(identity); ok {
			return who
		}
	}
	return identity{}
}

// checkVerb refuses a caller that is an agent or a handler, or something that one of them started, and one of which that
// cannot be told.
func checkVerb(c caller) error {
	if !c.Known || c.process == nil {
		return status.Error(codes.PermissionDenied, "this system cannot tell who calls, so nothing can be changed from here")
	}
	if c.PID <= 0 {
		return status.Error(codes.PermissionDenied, "who calls cannot be seen from here (is it in another container?), so it may not change anything")
	}
	why, err := descent(c.PID, os.Getpid())
	if err == nil {
		// Only now: the answer is about the caller if its number was the caller's all the time.
		err = c.process.alive()
	}
	if err != nil {
		return status.Errorf(codes.PermissionDenied, "it cannot be told whether an agent calls, so nothing can be changed: %v", err)
	}
	if why != "" {
		return status.Errorf(codes.PermissionDenied, "agents, handlers and what they start may not change anything: %s", why)
	}
	return nil
}

// caller is the process at the other end of a connection, as the kernel knows it.
type caller struct {
	// Known is false where the system does not tell; the rest is then empty.
	Known bool
	// UID is the effective user id that it connected with.
	UID int
	// PID is its process id when it connected; 0 if it lives where we cannot see it.
	PID int
	// process is a hold of the process that connected, which never means another one; nil: there is none.
	process process
}

// process is a hold of a process.
type process interface {
	// alive returns an error if it has ended, so that its number may be another process's.
	alive() error
	close()
}
