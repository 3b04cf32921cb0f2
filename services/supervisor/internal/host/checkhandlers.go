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
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/containment"
	"github.com/acphost/acphost/services/supervisor/internal/route"
	"github.com/acphost/acphost/services/supervisor/internal/session"
)

// Checked is a handler that was started to see whether it does.
type Checked struct {
	// Status is what it says of itself, and how far it got.
	Status *supervisorv1.HandlerStatus
	// Err is why it did not start.
	Err error
	// Missing are the folders of the client that are mapped for a sidecar (handlers.NAME.paths) and that it does not see.
	Missing []*pluginv1.MissingFolder
	// Unasked is why it could not be asked whether it sees them. Silent: it does not say (CheckFolders is not implemented).
	Unasked error
	Silent  bool
	// Unconfined is why it cannot run commands in the sandbox that is configured; "" also for one that runs none.
	Unconfined string
}

// CheckHandlers starts every handler as Run would, without an agent, and stops it again; sidecars are dialled, and asked
// whether they take their settings. The handlers are in the order of their names. routes says why no routes follow from
// what they serve, or why nothing could be started at all; it is nil too where a handler did not start. ctx bounds the starts. Of o it takes Config, Routes,
// Programs and Logger; env looks up environment variables.
func CheckHandlers(ctx context.Context, o Options, env func(string) string) (checked []Checked, routes error) {
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
		c := Checked{Err: handler.Ready(ctx)}
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

// plain is an error of a call without the words of gRPC and of contexts.
func plain(err error) error {
	switch {
	case err == nil:
		return nil
	case status.Code(err) == codes.DeadlineExceeded:
		return errors.New("it did not answer in time")
	}
	return errors.New(status.Convert(err).Message())
}
