package admin

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/connlimit"
	"github.com/acphost/acphost/internal/peer"
	"github.com/acphost/acphost/services/supervisor/internal/certs"
)

// access decides which calls a caller may make, checks what they say, and gives their errors codes. What a call is, its
// descriptor says; see class.go.
//
// Reading state is open to everyone who can connect to the socket with a path. Everything else is a verb, and a verb must
// come from a person, though agents run as the same user. Verbs are taken on the control socket alone, and three things
// that do not depend on one another keep agents from them there:
//
//   - An agent cannot connect: the socket is an abstract one, and its Landlock domain has no others than its own.
//   - A caller with more seccomp filters than this process is refused: agents and commands have one more, and no process
//     gets rid of one. (That it has one at all is no sign: in containers everybody does.)
//   - A caller below an agent, a handler or a supervisor is refused; see package peer.
//
// A connection is its opener's: once another process writes on it, no verb is taken there.
//
// Over TCP the role in the caller's certificate counts. This process itself may do everything. A gateway may call for somebody,
// whose role then counts; see delegation.go.
type access struct {
	classes map[string]class // by full method: "/package.Service/Method"
	ending  context.Context  // done: the server stops
	logger  *slog.Logger
	// refused says why a method is not there, whoever calls; nil: it is.
	refused func(method string) error
}

func (a *access) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	ctx, err := a.acting(ctx, info.FullMethod)
	if err != nil {
		return nil, err
	}
	if err := a.check(ctx, info.FullMethod, req); err != nil {
		return nil, err
	}
	done, err := speak(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := cmp.Or(a.refused(info.FullMethod), checkRequest(req)); err != nil {
		return nil, err
	}
	res, err := handle(ctx, req)
	return res, asStatus(err)
}

// stream ends with the server, so that no watcher has to be waited for.
func (a *access) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	acting, err := a.acting(stream.Context(), info.FullMethod)
	if err != nil {
		return err
	}
	class := a.classOf(info.FullMethod)
	if !class.asks {
		if err := a.check(acting, info.FullMethod, nil); err != nil {
			return err
		}
	}
	done, err := speak(acting)
	if err != nil {
		return err
	}
	defer done()
	if err := a.refused(info.FullMethod); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(acting)
	defer cancel(nil)
	defer context.AfterFunc(a.ending, func() { cancel(errStopping) })()
	err = handle(srv, &checkedStream{ServerStream: stream, ctx: ctx, access: a, method: info.FullMethod, asks: class.asks})
	if err != nil && errors.Is(context.Cause(ctx), errStopping) && status.Code(err) != codes.PermissionDenied {
		return status.Error(codes.Unavailable, errStopping.Error())
	}
	return asStatus(err)
}

// speak begins a call, if it is not one of too many. The caller calls done at its end.
func speak(ctx context.Context) (done func(), err error) {
	who := identityOf(ctx)
	if who.speaking == nil {
		return func() {}, nil
	}
	done, ok := who.speaking.Admit(who.origin(), nil)
	if !ok {
		return nil, status.Error(codes.ResourceExhausted, "too many calls are being answered: try again later")
	}
	return done, nil
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
		if err := s.access.check(s.ctx, s.method, m); err != nil {
			return err
		}
	}
	return checkRequest(m)
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
	switch {
	case err != nil:
		a.logger.Warn("refused a call", "method", method, "caller", who, "error", err)
	case who.caller != nil && need > certs.Viewer:
		a.logger.Info("a call for somebody", "method", method, "caller", who)
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
	// process is the one at the other end of a unix socket.
	process peer.Peer
	// control: it came over the control socket. verbs says where verbs are taken, or why nowhere, to those who did not.
	control bool
	verbs   string
	// self: it is this process.
	self bool
	// certificate: it came over TCP and showed one, and name and role are what it says; unfit says why role is none.
	certificate bool
	name        string
	fingerprint string
	role        certs.Role
	unfit       error
	// limit is the greatest role of those for whom a gateway may call; NoRole: it may call for nobody.
	limit certs.Role
	// caller is for whom a gateway makes this call; nil: it is its own. Its role is within the limit.
	caller *caller
	// speaking has room for the calls of all untrusted callers at a door; nil: it is not that of an untrusted caller.
	speaking *connlimit.Limiter
}

// origin tells callers apart that share what there is for untrusted callers.
func (i identity) origin() string {
	if i.certificate {
		return i.fingerprint
	}
	return strconv.Itoa(i.process.PID)
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
	case i.caller != nil:
		return slog.GroupValue(slog.String("for", i.String()), slog.String("role", i.caller.role.String()))
	case i.self:
		return slog.StringValue("this process")
	case i.certificate:
		return slog.GroupValue(slog.String("certificate", i.name), slog.String("role", i.role.String()))
	}
	return slog.GroupValue(slog.Int("pid", i.process.PID), slog.Int("uid", i.process.UID))
}

// may returns an error with a gRPC status unless the caller has a role, or is as good as one who has.
func (i identity) may(need certs.Role) error {
	switch {
	case i.self:
		return nil
	case i.caller != nil:
		return i.mayForCaller(need)
	case i.certificate && i.role == certs.NoRole:
		return status.Errorf(codes.PermissionDenied, "this caller may do nothing here: %v", i.unfit)
	case i.certificate && !i.role.May(need):
		return status.Errorf(codes.PermissionDenied, "this takes the role %s, and the certificate of %s has the role %s", need, presentable(i.name), i.role)
	case i.certificate, need == certs.NoRole, need == certs.Viewer:
		return nil
	case !i.control:
		return status.Error(codes.PermissionDenied, "this socket only shows what is: "+i.verbs)
	}
	return checkVerb(i.process)
}

// person reports whether it is a process on a unix socket that is neither an agent nor a handler, nor was started by one.
func (i identity) person() bool { return !i.certificate && checkVerb(i.process) == nil }

// identityOf returns whose a call is: who is at the other end of its connection, and for whom that calls.
func identityOf(ctx context.Context) identity {
	if who, ok := ctx.Value(actingKey{}).(identity); ok {
		return who
	}
	if p, ok := grpcpeer.FromContext(ctx); ok {
		if who, ok := p.AuthInfo.(identity); ok {
			return who
		}
	}
	return identity{}
}

// checkVerb refuses a caller that is an agent or a handler, or something that one of them started, and one of which that
// cannot be told.
func checkVerb(c peer.Peer) error {
	if c.Known && c.PID <= 0 {
		return status.Error(codes.PermissionDenied, "who calls cannot be seen from here, so it may not change anything: call from the container that acphost runs in, or over TCP with a certificate")
	}
	if !c.Known || c.Process == nil {
		return status.Error(codes.PermissionDenied, "who calls cannot be told, so nothing can be changed from here: call from the container that acphost runs in, or over TCP with a certificate")
	}
	why, err := peer.NoPerson(c, os.Getpid())
	if err != nil {
		return status.Errorf(codes.PermissionDenied, "it cannot be told whether an agent calls, so nothing can be changed: %v", err)
	}
	if why != "" {
		return status.Errorf(codes.PermissionDenied, "agents, handlers and what they start may not change anything: %s", why)
	}
	return nil
}
