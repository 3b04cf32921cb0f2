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

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/connlimit"
	"github.com/acphost/acphost/internal/peer"
)

// access authorizes calls, validates their requests, and converts their errors to gRPC codes. The method's descriptor
// determines the class of a call; see class.go.
//
// Calls that read state are open to every process that can connect to the socket with a path. All other calls are
// verbs. A verb must come from a person, although agents run as the same user. Only the control socket accepts verbs,
// and three independent checks keep agents from it:
//
//   - An agent cannot connect: the socket is abstract, and the agent's Landlock domain permits only its own
//     abstract sockets.
//   - A caller with more seccomp filters than this process is rejected. Agents and commands have one more, and no
//     process can remove a filter. (Having a filter at all proves nothing: in containers every process has one.)
//   - A caller that descends from an agent, a handler or a supervisor is rejected; see package peer.
//
// A connection belongs to the process that opened it: once another process writes on it, verbs are rejected there.
//
// Over TCP, the role in the caller's certificate decides. This process itself may do everything. A gateway may call in
// the name of a caller, whose role then decides; see delegation.go.
type access struct {
	classes map[string]class // by full method: "/package.Service/Method"
	ending  context.Context  // ends when the server stops
	logger  *slog.Logger
	// refused returns why a method is not served, for any caller; nil: it is served.
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
	done, err := startCall(ctx)
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

// stream authorizes and serves a stream. The stream ends when the server stops, so that Stop does not wait for
// watchers.
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
	done, err := startCall(acting)
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

// startCall counts a call, and returns an error if too many calls are active. The caller calls done when the call ends.
func startCall(ctx context.Context) (done func(), err error) {
	id := identityOf(ctx)
	if id.calls == nil {
		return func() {}, nil
	}
	done, ok := id.calls.Admit(id.origin(), nil)
	if !ok {
		return nil, status.Error(codes.ResourceExhausted, "too many calls are being answered: try again later")
	}
	return done, nil
}

// checkedStream is a stream that ends with its server. If asks is set, the request decides whether the call is
// permitted.
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

// check returns an error if the caller may not make the call. req is the request if the class depends on it
// (class.asks).
func (a *access) check(ctx context.Context, method string, req any) error {
	class := a.classOf(method)
	need := class.need
	if l, ok := req.(interface{ GetOnlyLook() bool }); ok && class.asks && l.GetOnlyLook() {
		need = certs.Viewer
	}
	id := identityOf(ctx)
	err := id.may(need)
	switch {
	case err != nil:
		a.logger.Warn("refused a call", "method", method, "caller", id, "error", err)
	case id.caller != nil && need > certs.Viewer:
		a.logger.Info("delegated call", "method", method, "caller", id)
	}
	return err
}

// classOf returns the class of a method. An unknown method needs the role Operator.
func (a *access) classOf(method string) class {
	if c, ok := a.classes[method]; ok {
		return c
	}
	return class{need: certs.Operator}
}

// identity is the peer of a connection. The zero value is an unknown peer.
type identity struct {
	credentials.CommonAuthInfo
	// process is the peer process of a unix socket.
	process peer.Peer
	// control reports that the connection came over the control socket. For other connections, verbs is where verbs
	// are accepted, or why they are not.
	control bool
	verbs   string
	// self reports that the peer is this process.
	self bool
	// certificate reports that the peer connected over TCP with a certificate. name and role are read from it; unfit is
	// the reason why role is NoRole.
	certificate bool
	name        string
	fingerprint string
	role        certs.Role
	unfit       error
	// limit is the highest role of callers that a gateway may call for; NoRole: it may call for no caller.
	limit certs.Role
	// caller is the caller that a gateway makes this call for; nil: the call is the gateway's own. Its role is within
	// the limit.
	caller *caller
	// calls limits the active calls of all untrusted callers of an acceptor; nil: the caller is trusted.
	calls *connlimit.Limiter
}

// origin returns the key of the limits of an untrusted caller.
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

// may returns an error with a gRPC status unless the caller has the role or equivalent rights.
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

// person reports whether the peer is a process on a unix socket that is not an agent or a handler, and not a descendant
// of one.
func (i identity) person() bool { return !i.certificate && checkVerb(i.process) == nil }

// identityOf returns the identity of a call: the peer of its connection, and the caller that the peer calls for.
func identityOf(ctx context.Context) identity {
	if id, ok := ctx.Value(actingKey{}).(identity); ok {
		return id
	}
	if p, ok := grpcpeer.FromContext(ctx); ok {
		if id, ok := p.AuthInfo.(identity); ok {
			return id
		}
	}
	return identity{}
}

// checkVerb rejects a peer that is, or descends from, an agent or a handler, and a peer for which this cannot be
// determined.
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
