package admin

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/delegation"
)

// A gateway serves people that it has recognized by a token, a certificate or a sign-in. It calls for one of them by
// naming that caller in the call's metadata (package delegation). The call then has the caller's rights, within the
// limit of the gateway's certificate, and no others: neither those of the gateway itself, nor those of a process that
// may do everything. So a mistake in a gateway's pages gives no person more rights than their role.
//
// A process on the control socket may name a caller too, since it can only lose rights by it. If any other peer names a
// caller, its call is rejected.

// caller is a person or program that a gateway calls for.
type caller struct {
	name string
	role certs.Role // within the gateway's limit
}

type actingKey struct{}

// acting returns the context of a call, with the caller that it is made for. It rejects peers that may not name a
// caller.
func (a *access) acting(ctx context.Context, method string) (context.Context, error) {
	sent, _ := metadata.FromIncomingContext(ctx)
	c, named, err := delegation.Read(sent)
	if !named {
		return ctx, nil
	}
	id := identityOf(ctx)
	if refusal := id.mayName(); refusal != nil {
		err = refusal
	} else if err != nil {
		err = status.Error(codes.InvalidArgument, err.Error())
	}
	if err != nil {
		a.logger.Warn("rejected a delegated call", "method", method, "caller", id, "error", err)
		return nil, err
	}
	limit := id.limit
	if !id.certificate {
		limit = certs.Operator
	}
	role, err := certs.ParseRole(c.Role)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	id.caller = &caller{name: c.Name, role: min(role, limit)}
	return context.WithValue(ctx, actingKey{}, id), nil
}

// mayName returns an error with a gRPC status unless the peer may call for other callers.
func (i identity) mayName() error {
	switch {
	case i.certificate && i.role == certs.Gateway && i.limit != certs.NoRole:
		return nil
	case i.certificate && i.role == certs.Gateway:
		return status.Error(codes.PermissionDenied, "the certificate of this gateway does not permit calls for other callers: make one with \"acphost certs gateway --acts-as ROLE\"")
	case !i.certificate && !i.self && i.control:
		return checkVerb(i.process)
	}
	return status.Errorf(codes.PermissionDenied, "only a gateway calls for others: leave out the metadata %s", delegation.CallerKey)
}

// mayForCaller is may for a call that is made for another caller.
func (i identity) mayForCaller(need certs.Role) error {
	if need == certs.Gateway { // a client that opens an agent sends it prompts
		need = certs.Operator
	}
	if !i.caller.role.May(need) {
		return status.Errorf(codes.PermissionDenied, "this takes the role %s, and %s has the role %s here", need, i, i.caller.role)
	}
	return nil
}

// String returns the caller's name for logs and records: "gateway edge for alice".
func (i identity) String() string {
	name := "local"
	if i.certificate {
		name = presentable(i.name)
	}
	if i.caller == nil {
		return name
	}
	return "gateway " + name + " for " + i.caller.name
}
