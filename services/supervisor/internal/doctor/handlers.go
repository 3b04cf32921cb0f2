package doctor

import (
	"context"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/host"
)

// handlers starts every handler, and stops it again.
func (d *doctor) handlers(ctx context.Context, c *config.Config) {
	in := d.in(Handlers)
	ctx, cancel := context.WithTimeout(ctx, handlersTimeout)
	defer cancel()
	checked, routes := host.CheckHandlers(ctx, host.Options{Config: c, HandlerDir: d.HandlerDir, Version: d.Version, Logger: d.Logger}, d.Env)
	for _, h := range checked {
		s := h.Status
		where := s.GetAddress()
		if where == "" {
			where = strings.Join(s.GetCommand(), " ")
		}
		if h.Err != nil {
			todo := "run it by itself to see more, or leave it out of the configuration"
			if s.GetAddress() != "" {
				todo = "start the sidecar, or correct its address and keys in the configuration"
			}
			in.problem(s.GetName(), where+": "+h.Err.Error(), todo)
			continue
		}
		in.ok(s.GetName(), strings.Join(append([]string{s.GetDescription() + ", " + where}, s.GetNotes()...), "\n"))
		if !s.GetMutualTls() {
			in.warn(s.GetName(), "its connection is not protected by mutual TLS: other programs of yours can call it",
				"leave no_tls out, if the handler can do TLS")
		}
	}
	if routes != nil {
		in.problem("routes", routes.Error(), "correct \"routes\" in the configuration, or the handler that declares the method")
	}
}
