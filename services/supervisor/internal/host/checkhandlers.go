package host

import (
	"context"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
)

// Checked is a handler that was started to see whether it does.
type Checked struct {
	// Status is what it says of itself, and how far it got.
	Status *supervisorv1.HandlerStatus
	// Err is why it did not start.
	Err error
}

// CheckHandlers starts every handler as Run would, without an agent, and stops it again; sidecars are dialled, and asked
// whether they take their settings. The handlers are in the order of their names. routes says why no routes follow from
// what they serve; it is nil too where a handler did not start. ctx bounds the starts. Of o it takes Config, Routes,
// HandlerDir and Logger; env looks up environment variables.
func CheckHandlers(ctx context.Context, o Options, env func(string) string) (checked []Checked, routes error) {
	h := &host{opts: o, config: o.Config.Effective(), log: o.Logger}
	h.handlers = newHandlers(o, h.config, newInstance(), o.Config.ProtectedPaths(admin.Dir(env)), nil)
	h.handlers.start(ctx)
	defer h.stopHandlers()
	started := true
	for _, name := range h.handlers.names() {
		handler := h.handlers.byName[name]
		c := Checked{Err: handler.Ready(ctx)}
		c.Status = handler.Status()
		started = started && c.Err == nil
		checked = append(checked, c)
	}
	if started {
		_, routes = h.handlers.ready(ctx)
	}
	return checked, routes
}
