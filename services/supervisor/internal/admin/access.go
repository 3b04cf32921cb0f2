package admin

import (
	"context"
	"log/slog"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// access decides which calls a caller may make. Reading state is open to everyone who can connect. Everything else is a
// verb, and a verb must come from a person: an agent runs as the same user as the supervisor and can connect too, so
// the caller's process has to be told apart from agents and handlers. There are no verbs yet; checkVerb is where that is
// decided, and until it can be, it refuses.
type access struct{ logger *slog.Logger }

// readable are the services that only show something.
var readable = []string{
	"/" + supervisorv1.SupervisorStateService_ServiceDesc.ServiceName + "/",
	"/grpc.health.v1.Health/",
	"/grpc.reflection.v1.ServerReflection/",
	"/grpc.reflection.v1alpha.ServerReflection/",
}

func (a access) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := a.check(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return handle(ctx, req)
}

func (a access) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := a.check(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return handle(srv, stream)
}

func (a access) check(ctx context.Context, method string) error {
	for _, service := range readable {
		if strings.HasPrefix(method, service) {
			return nil
		}
	}
	err := checkVerb(callerOf(ctx))
	if err != nil {
		a.logger.Warn("refused a call on the admin socket", "method", method, "pid", callerOf(ctx).PID, "error", err)
	}
	return err
}

// checkVerb refuses a caller that may be an agent or a handler, or something that one of them started.
func checkVerb(c caller) error {
	if !c.Known {
		return status.Error(codes.PermissionDenied, "this system cannot tell who calls, so nothing can be changed from here")
	}
	return status.Error(codes.PermissionDenied, "nothing can be changed over the admin socket")
}

// caller is the process at the other end of a connection, as the kernel knows it.
type caller struct {
	// Known is false where the system does not tell; the rest is then empty.
	Known bool
	// UID is the effective user id that it connected with.
	UID int
	// PID is its process id when it connected; 0 if it lives where we cannot see it.
	PID int
}

// callerOf returns who is at the other end of a call's connection.
func callerOf(ctx context.Context) caller {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(peerInfo); ok {
			return info.caller
		}
	}
	return caller{}
}
