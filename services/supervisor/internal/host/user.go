package host

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/proc"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	"github.com/acphost/acphost/sdk/launch"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
)

// findUser looks up the user of all agents of this supervisor, and of the handlers that act for them. It is called
// once, so that agents and handlers have the same user even if the system's users change.
func (h *host) findUser() error {
	if h.user != nil {
		return nil
	}
	u, err := h.opts.Config.AgentUser()
	if err != nil {
		return err
	}
	h.user = u
	return nil
}

// actsAs returns the user of a handler of a kind. Handlers that act for agents run as the agents' user; nil means the
// supervisor's user. A policy does not, because it decides about agents, and reads files that agents must not read.
func actsAs(kind string, user *proc.User) *proc.User {
	if kind == route.KindPermission {
		return nil
	}
	return user
}

// runAsAgentsUser makes a handler run as the agents' user. It returns an error if that is impossible, because a handler
// with more rights than the agent would give the agent these rights.
func runAsAgentsUser(spec *launch.Spec, entry *configv1.Handler, user *proc.User) error {
	switch {
	case user == nil:
	case spec.Address == "" && spec.NoTLS:
		return fmt.Errorf("handlers.%s: it runs as the agents' user %s (agent.user), and without TLS (no_tls) any agent "+
			"could call it past the policy: leave one of the two out", spec.Name, user)
	case spec.Address == "":
		spec.User = user
	case !strings.HasPrefix(spec.Address, "unix:"):
	case entry.Uid != nil && entry.GetUid() != user.UID:
		return fmt.Errorf("handlers.%s.uid: the sidecar is to run as user %d, and agents as %s (agent.user), so that it "+
			"would lend them rights that they have not: run the sidecar as %s, and leave uid out", spec.Name, entry.GetUid(), user, user.Name)
	default:
		spec.UID = &user.UID
	}
	return nil
}

// userNotes lists the handlers that do not run as the agents' user although it is set, one sentence each.
func (h *host) userNotes() []string {
	if h.user == nil || h.handlers == nil {
		return nil
	}
	var notes []string
	for _, name := range h.handlers.names() {
		address := h.config.GetHandlers()[name].GetAddress()
		if actsAs(config.Kind(name), h.user) != nil && address != "" && !strings.HasPrefix(address, "unix:") {
			notes = append(notes, fmt.Sprintf("handler %s runs elsewhere, at %s: as which user it acts for agents cannot be seen from here", name, address))
		}
	}
	var clients []string
	for method, target := range h.handlers.routes {
		if target == "front" && method != methodPermission {
			clients = append(clients, method)
		}
	}
	if len(clients) > 0 {
		slices.Sort(clients)
		notes = append(notes, fmt.Sprintf("the client answers %s, as its own user and not as agent.user", strings.Join(clients, ", ")))
	}
	return notes
}
