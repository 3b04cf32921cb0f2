package admin

import (
	"context"
	"log/slog"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// access decides which calls a caller may make. Reading state is open to everyone who can connect. Everything else is a
// verb, and a verb must come from a person: an agent runs as the same user as the supervisor and can connect too, so
// the caller's process is told apart from agents and handlers by what stands above it; see descent.go.
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

// callerOf returns who is at the other end of a call's connection.
func callerOf(ctx context.Context) caller {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(peerInfo); ok {
			return info.caller
		}
	}
	return caller{}
}
