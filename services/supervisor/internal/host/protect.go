package host

import (
	"context"
	"errors"
	"time"

	"github.com/acphost/acphost/internal/fault"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
)

// protectTimeout limits a call to a handler about a protected file.
const protectTimeout = 10 * time.Second

// protectKeys protects files with keys from all agents, until the supervisor ends. The gate rejects access to them at
// once. The handlers, which see the files that are really opened, are notified before the agent that gets the keys
// starts, if they can be reached. A policy is notified at its next start: a notification now would make it read its
// rules again, which only a user may order.
func (h *host) protectKeys(ctx context.Context, files []string) error {
	fresh, err := h.gate.Protect(files...)
	switch {
	case errors.Is(err, gate.ErrFolder):
		return fault.New(fault.Invalid, "start an agent: %w", err)
	case err != nil:
		return fault.New(fault.Exhausted, "start an agent: %w", err)
	}
	if fresh {
		h.notifyOfKeys(ctx, files)
	}
	return nil
}

// notifyOfKeys notifies the handlers of files with keys.
func (h *host) notifyOfKeys(ctx context.Context, files []string) {
	ctx, cancel := context.WithTimeout(ctx, protectTimeout)
	defer cancel()
	for name, handler := range h.handlers.all() {
		if handler.Protect(files); config.Kind(name) == route.KindPermission {
			continue
		}
		if err := handler.Ready(ctx); err != nil {
			continue // it is notified when it starts again
		}
		if err := handler.Configure(ctx); err != nil {
			h.log.Warn("a handler was not told of files with keys: the gate alone keeps agents from them", "handler", name, "error", err)
		}
	}
}
