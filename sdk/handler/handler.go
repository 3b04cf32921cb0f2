// Package handler is the author's half of a handler: a binary that answers some of an agent's requests for acphost.
//
// A main function fills in a Handler and calls Main. The same binary then runs as a child of a supervisor, which starts
// it and talks to it over a private socket with mutual TLS, or, started with --listen, as a sidecar that stands on its
// own. The code that answers requests cannot tell the difference.
//
// The package serves what every handler serves (PluginService, health, reflection), keeps to the contract of a child's
// life (nothing on stdout before the handshake, exit when stdin ends) and turns panics into errors. It knows nothing of
// files, terminals or policies.
package handler

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
)

// ReleaseDelay is how long a session's scope is kept after its last Hold has ended.
const ReleaseDelay = 10 * time.Second

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
	// Name and Version are said in Describe and by --version. Both required, 1 to 64 characters.
	Name, Version string

	// Services are the full names of the gRPC services that the supervisor may call:
	// "acphost.fs.v1.FileSystemService". What is served but not listed here is not called.
	Services []string
	// Register registers their implementations. It must not register PluginService, health or reflection. It is called
	// once, before anything is served. Required.
	Register func(grpc.ServiceRegistrar)
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
	// Release gives back everything that a scope owns; nobody has held the scope for ReleaseDelay. The next Hold of the
	// same scope waits for it. Nil: scopes own nothing.
	Release func(scope string)
	// Close gives back everything, before the process exits; at most 4 s. No call is accepted any more, but some may not
	// have returned yet. It is called once. Nil: nothing to do.
	Close func()

	// Logger takes the logs. Nil: Logger().
	Logger *slog.Logger
}

func (h *Handler) check() error {
	switch {
	case h.Name == "" || len(h.Name) > 64:
		return errText("handler.Handler: Name must have 1 to 64 characters")
	case h.Version == "" || len(h.Version) > 64:
		return errText("handler.Handler: Version must have 1 to 64 characters")
	case h.Register == nil:
		return errText("handler.Handler: Register is missing")
	}
	return nil
}

type errText string

func (e errText) Error() string { return string(e) }
