package host

import (
	"context"
	"errors"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/route"
)

// protectTimeout bounds how long a handler may take to be told of a file.
const protectTimeout = 10 * time.Second

// protectKeys keeps files with keys from all agents, for as long as the supervisor lives. The gate refuses them at once; the
// handlers, which see what is really opened, are told before the agent starts that gets the keys, if they can be. A policy
// is told at its next start: told now, it would read its rules again, which is a person's to order.
func (h *host) protectKeys(ctx context.Context, files []string) error {
	fresh, err := h.gate.Protect(files...)
	switch {
	case errors.Is(err, gate.ErrFolder):
		return fault.New(fault.Invalid, "start an agent: %w", err)
	case err != nil:
		return fault.New(fault.Exhausted, "start an agent: %w", err)
	}
	if fresh {
		h.tellOfKeys(ctx, files)
	}
	return nil
}

// tellOfKeys tells the handlers of files with keys.
func (h *host) tellOfKeys(ctx context.Context, files []string) {
	ctx, cancel := context.WithTimeout(ctx, protectTimeout)
	defer cancel()
	for name, handler := range h.handlers.all() {
		if handler.Protect(files); config.Kind(name) == route.KindPermission {
			continue
		}
		if err := handler.Ready(ctx); err != nil {
			continue // it will be told when it starts again
		}
		if err := handler.Configure(ctx); err != nil {
			h.log.Warn("a handler was not told of files with keys: the gate alone keeps agents from them", "handler", name, "error", err)
		}
	}
}
