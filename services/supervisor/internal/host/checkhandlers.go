package host

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/rundir"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/session"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/containment"
)

// HandlerCheck is the result of a handler's check.
type HandlerCheck struct {
	// Status is the handler's status after its start.
	Status *supervisorv1.HandlerStatus
	// Err is the error of the start.
	Err error
	// Missing lists the client's folders in the path mapping of a sidecar (handlers.NAME.paths) that the sidecar does
	// not have.
	Missing []*pluginv1.MissingFolder
	// Unasked is the error of the check for missing folders. Silent means that the sidecar does not implement
	// CheckFolders.
	Unasked error
	Silent  bool
	// Unconfined is the reason why the handler cannot run commands in the configured sandbox. It is "" if it can, or
	// runs no commands.
	Unconfined string
}

// CheckHandlers starts every handler as Run does, without an agent, and stops it again. It connects to sidecars and
// checks that they accept their settings. The handlers are ordered by name. routes is the error of the routing table or
// of the start as a whole; it is also nil if a handler did not start. ctx limits the starts. CheckHandlers uses Config,
// Routes, Programs and Logger of o. env looks up environment variables.
func CheckHandlers(ctx context.Context, o Options, env func(string) string) (checked []HandlerCheck, routes error) {
	h := newHost(o)
	if err := h.findUser(); err != nil {
		return nil, err
	}
	var err error
	if h.handlers, err = newHandlers(o, h.config, h.user, session.NewScope(), o.Config.ProtectedPaths(rundir.Dir(env)), nil, nil); err != nil {
		return nil, err
	}
	terminals := route.Answering(h.handlers.routes, route.KindTerminal)
	h.handlers.start(ctx)
	defer h.stopHandlers()
	started := true
	for _, handler := range h.handlers.all() {
		c := HandlerCheck{Err: handler.Ready(ctx)}
		c.Status = handler.Status()
		h.handlers.describe(c.Status)
		if here := h.handlers.mapped(c.Status.GetName()); c.Err == nil && len(here) > 0 {
			c.Missing, c.Unasked = h.handlers.missing(ctx, c.Status.GetName(), here)
			c.Silent = status.Code(c.Unasked) == codes.Unimplemented
			c.Unasked = plain(c.Unasked)
		}
		started = started && c.Err == nil
		if c.Err == nil && o.Config.Sandbox() != config.SandboxOff && slices.Contains(terminals, c.Status.GetName()) {
			c.Unconfined = h.handlers.unconfined(ctx, c.Status.GetName(), &containment.Sandbox{})
		}
		checked = append(checked, c)
	}
	if started {
		_, routes = h.handlers.ready(ctx)
	}
	return checked, routes
}

// plain returns the error of a call without the prefixes of gRPC and contexts.
func plain(err error) error {
	switch {
	case err == nil:
		return nil
	case status.Code(err) == codes.DeadlineExceeded:
		return errors.New("it did not answer in time")
	}
	return errors.New(status.Convert(err).Message())
}
