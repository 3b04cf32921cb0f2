package doctor

import (
	"context"
	"strings"

	"github.com/acphost/acphost/internal/users"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/host"
	"github.com/acphost/acphost/services/supervisor/internal/secret"
)

// handlers starts every handler, and stops it again.
func (d *doctor) handlers(ctx context.Context, c *config.Config) {
	in := d.in(Handlers)
	ctx, cancel := context.WithTimeout(ctx, handlersTimeout)
	defer cancel()
	checked, routes := host.CheckHandlers(ctx, host.Options{Config: c, Programs: d.Programs, Version: d.Version, Logger: d.Logger}, d.Env)
	for _, h := range checked {
		s := h.Status
		where := s.GetAddress()
		if where == "" {
			where = strings.Join(secret.Shown(s.GetCommand()), " ")
		}
		if h.Err != nil {
			todo := "run it by itself to see more, or leave it out of the configuration"
			if s.GetAddress() != "" {
				todo = "start the sidecar, or correct its address and keys in the configuration"
			}
			in.problem(s.GetName(), where+": "+h.Err.Error(), todo)
			continue
		}
		if s.GetUser() != "" && s.GetUser() != users.Self() {
			where += ", as user " + s.GetUser()
		}
		in.ok(s.GetName(), strings.Join(append([]string{s.GetDescription() + ", " + where}, s.GetNotes()...), "\n"))
		switch entry := c.Effective().GetHandlers()[s.GetName()]; {
		case entry.GetNoTls():
			in.warn(s.GetName(), "its connection is not protected by mutual TLS: other programs of yours can call it",
				"leave no_tls out, if the handler can do TLS")
		case entry.GetAgentMayCall():
			in.warn(s.GetName(), "agents may call it by themselves, past the policy: agent_may_call says so",
				"leave agent_may_call out where agents run as another user (agent.user)")
		}
	}
	if routes != nil && len(checked) == 0 {
		in.problem("handlers", routes.Error(), "correct it in the configuration")
	} else if routes != nil {
		in.problem("routes", routes.Error(), "correct \"routes\" in the configuration, or the handler that declares the method")
	}
}
