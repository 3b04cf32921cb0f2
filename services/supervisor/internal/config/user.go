package config

import (
	"fmt"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/users"
)

// AgentUser looks up the user of agents, and of the handlers that act for them. Nil means the user of this process. The
// error says that there is no such user, or wraps proc.ErrNotRoot.
func (c *Config) AgentUser() (*proc.User, error) {
	name := c.Proto.GetAgent().GetUser()
	if name == "" {
		return nil, nil
	}
	u, err := users.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("agent.user: %w", err)
	}
	return u, nil
}

// AgentConfinement returns the confinement of agents.
func (c *Config) AgentConfinement() (proc.Confinement, error) {
	cfg := c.Proto.GetAgent()
	keep, err := proc.ParseCapabilities(cfg.GetCapabilities())
	if err != nil {
		return proc.Confinement{}, fmt.Errorf("agent.capabilities: %w", err)
	}
	return proc.Confinement{NoLandlock: cfg.GetNoLandlock(), NoSeccomp: cfg.GetNoSeccomp(), Unreadable: cfg.GetUnreadable(), Keep: keep}, nil
}
