// Package handler runs a handler: a program that answers some of an agent's requests for acphost.
//
// A main function fills in a Handler and calls Main. The same binary then runs in two ways. As a child, a supervisor
// starts it and calls it over a private socket with mutual TLS. As a sidecar, it is started with --listen and runs on its
// own. The code that answers requests cannot see the difference.
//
// The package serves what every handler serves (PluginService, health, reflection), implements the contract of a child
// (nothing on stdout before the handshake, exit when stdin ends), and turns panics into errors. It does not know files,
// terminals or policies.
package handler

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
)

// releaseDelay is how long a session's scope is kept after its last Hold has ended.
const releaseDelay = 10 * time.Second

// drainTime is how long calls in flight may go on when a handler is asked to end (SIGTERM). Calls that wait for something
// outside, and streams, are not waited for.
const drainTime = 10 * time.Second

// flushTime is how long the last answers may take to be sent, and streams to notice that they are over.
const flushTime = time.Second

// closeTime bounds Handler.Close. It is shorter than the time after which a supervisor loses patience.
const closeTime = 4 * time.Second

// Handler describes a handler to Main and NewServer. Its functions are called from several goroutines unless they say
// otherwise, and may panic without harm to the process.
type Handler struct {
	// Name and Version are said in Describe and by --version, which also prints the services and the commit of the build. Both required, 1 to 64 characters.
	Name, Version string

	// Register registers the implementations of the gRPC services that the supervisor may call, such as
	// acphost.fs.v1.FileSystemService: every service that it registers is listed in Describe. It must not register
	// PluginService, health or reflection. It is called once, before anything is served. Required.
	Register func(grpc.ServiceRegistrar)
	// RegisterUnlisted registers services that are served beside those of Register, and that Describe does not list, so
	// that the supervisor never calls them: tools of the author's own. It is called once, after Register. Nil: none.
	RegisterUnlisted func(grpc.ServiceRegistrar)
	// DescriptorSet is a serialised google.protobuf.FileDescriptorSet, imports included, with the services that are not
	// in an acphost package. Empty: the supervisor asks gRPC reflection.
	DescriptorSet []byte

	// MaxMessageBytes is the largest request that the handler takes. Default (0): 64 MiB.
	MaxMessageBytes uint64
	// CapabilityMeta is added to clientCapabilities._meta: names with a dot or a slash to JSON values (string, bool,
	// float64, nil, []any, map[string]any). Nil: nothing.
	CapabilityMeta map[string]any

	// Configure takes the handler's settings. Calls never overlap, and the same request may come again: that must be the
	// same as once. With req.validate_only it checks and changes nothing. An error that is no gRPC status becomes
	// INVALID_ARGUMENT. notes are for people. Nil: the handler has no settings, and any is refused.
	Configure func(ctx context.Context, req *pluginv1.ConfigureRequest) (notes []string, err error)
	// Keep returns what a handler believes after Configure, in a form of its own, at most 32 MiB. A supervisor that starts
	// the handler again gives it back as req.Kept: what it says counts then, whatever files say by now, since an agent may
	// have changed them and made the handler end. A permission handler can say in DecideResponse.keep that it believes
	// something else by now. Nil: nothing is kept.
	Keep func() []byte
	// Release gives back everything that a scope owns; nobody has held the scope for 10 s. The next Hold of the
	// same scope waits for it. Nil: scopes own nothing.
	Release func(scope string)
	// Close gives back everything, before the process exits; at most 4 s. No call is accepted any more, but some may not
	// have returned yet. It is called once. Nil: nothing to do.
	Close func()

	// Around stands around every unary call but those that wait for something outside: it calls its argument once, which
	// answers the call. It is for measuring calls, or for bounding how many run at once. Nil: nothing stands around them.
	Around func(call func())

	// Logger takes the logs. Nil: Logger().
	Logger *slog.Logger
}

func (h *Handler) check() error {
	switch {
	case h.Name == "" || len(h.Name) > 64:
		return errors.New("handler.Handler: Name must have 1 to 64 characters")
	case h.Version == "" || len(h.Version) > 64:
		return errors.New("handler.Handler: Version must have 1 to 64 characters")
	case h.Register == nil:
		return errors.New("handler.Handler: Register is missing")
	}
	return nil
}
