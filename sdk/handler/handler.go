// Package handler runs a handler: a program that answers some of an agent's requests for acphost.
//
// A main function fills in a Handler and calls Main. The same binary then runs in two ways. As a child, a supervisor
// starts it and calls it over a private socket with mutual TLS. As a sidecar, it is started with --listen,
// independently of the supervisor. The code that answers requests is the same in both cases.
//
// The package serves the common services of all handlers (PluginService, health, reflection), implements the contract
// of a child (no output on stdout before the handshake, exit when stdin ends), and converts panics to errors. It must
// not know files, terminals or policies.
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

// drainTime limits how long active calls may continue after a handler was asked to end (SIGTERM). The handler does not
// wait for streams, nor for calls that wait for an external event.
const drainTime = 10 * time.Second

// flushTime limits the time to send the last answers and to end streams.
const flushTime = time.Second

// closeTime limits Handler.Close. It is shorter than the time after which a supervisor kills the process.
const closeTime = 4 * time.Second

// Handler describes a handler to Main and NewServer. Its functions are called concurrently unless documented otherwise.
// A panic in them does not end the process.
type Handler struct {
	// Name and Version are returned by Describe and printed by --version, which also prints the services and the commit
	// of the build. Both are required, with 1 to 64 characters.
	Name, Version string

	// Register registers the implementations of the gRPC services that the supervisor may call, such as
	// acphost.fs.v1.FileSystemService: Describe lists every service that it registers. It must not register
	// PluginService, health or reflection. It is called once, before the handler serves. Required.
	Register func(grpc.ServiceRegistrar)
	// RegisterUnlisted registers further services that Describe does not list, so that the supervisor never calls them:
	// the author's tools. It is called once, after Register. Nil: none.
	RegisterUnlisted func(grpc.ServiceRegistrar)
	// DescriptorSet is a serialised google.protobuf.FileDescriptorSet, including imports, with the services that are
	// not in an acphost package. Empty: the supervisor uses gRPC reflection.
	DescriptorSet []byte

	// MaxMessageBytes is the size of the largest accepted request. Default (0): 64 MiB.
	MaxMessageBytes uint64
	// CapabilityMeta is added to clientCapabilities._meta: names with a dot or a slash, mapped to JSON values (string,
	// bool, float64, nil, []any, map[string]any). Nil: nothing.
	CapabilityMeta map[string]any

	// Configure applies the handler's settings. Calls never overlap. The same request may be repeated, and must then
	// have the same effect as once. With req.validate_only it only checks the settings. An error that is not a gRPC
	// status becomes INVALID_ARGUMENT. notes are for people. Nil: the handler has no settings, and rejects any.
	Configure func(ctx context.Context, req *pluginv1.ConfigureRequest) (notes []string, err error)
	// Keep returns the state that the handler has accepted by Configure, in a format of the handler, at most 32 MiB. A
	// supervisor that restarts the handler passes it back as req.Kept. This state then has precedence over the current
	// content of files, because an agent may have changed the files and crashed the handler. A permission handler can
	// report in DecideResponse.keep that its state has changed. Nil: no state is kept.
	Keep func() []byte
	// Release releases all resources of a scope, which no client has held for 10 s. The next Hold of the same scope
	// waits for it. Nil: scopes have no resources.
	Release func(scope string)
	// Close releases all resources before the process exits, within 4 s. New calls are rejected by then, but some calls
	// may not have returned yet. It is called once. Nil: no action.
	Close func()

	// Around wraps every unary call that does not wait for an external event: it must call its argument exactly once,
	// which answers the call. It can measure calls, or limit the number of concurrent calls. Nil: no wrapper.
	Around func(call func())

	// Logger receives the logs. Nil: Logger().
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
