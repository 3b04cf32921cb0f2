package config

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/limits"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
)

// The defaults that the message Config documents.
const (
	defaultInitializeTimeoutSeconds = 60
	defaultStopGraceMS              = 5000 // Codex needs slightly more than 2000
	defaultMaxMessageBytes          = limits.Message
	defaultMaxQueuedRequests        = 1024
	defaultMaxQueuedBytes           = limits.Waiting
	defaultMaxConcurrentRequests    = 64
	defaultTurnGraceMS              = 400
	defaultMaxProcesses             = 4096
)

// Effective returns a copy of the configuration with every default filled in: handlers contains acphost's own handlers,
// each with its command, and the settings of permd contain the rule files. The policy is the handler "permission"; the
// policies of a chain are "permission", "permission-2" and so on in their order. Values that only the start determines
// are empty: the agent's name, its quirks and the admin socket, and files of the state folder if there is none. The
// settings of handlers have defaults of their own, which the handlers fill in.
func (c *Config) Effective() *configv1.Config {
	e := proto.CloneOf(c.Proto)
	if e.Handlers == nil {
		e.Handlers = map[string]*configv1.Handler{}
	}
	for _, name := range slices.Sorted(maps.Keys(ownHandlers())) {
		h := e.Handlers[name]
		if h == nil {
			h = &configv1.Handler{}
			e.Handlers[name] = h
		}
		if len(h.GetCommand()) == 0 && h.GetAddress() == "" {
			h.Command = []string{ownHandlers()[name].program}
		}
	}
	e.Agent = orNew(e.Agent)
	orDefault(&e.Agent.InitializeTimeoutSeconds, defaultInitializeTimeoutSeconds)
	orDefault(&e.Agent.StopGraceMs, defaultStopGraceMS)
	e.Workspace = orNew(e.Workspace)
	orDefault(&e.Workspace.StaleWrites, "allow")
	if c.Sandbox() == SandboxEnforce {
		orDefault(&e.Sandbox.MaxProcesses, defaultMaxProcesses)
	}
	e.Permission = orNew(e.Permission)
	c.effectivePermission(e.Permission)
	for i, h := range c.permissionHandlers() {
		e.Handlers[permissionName(i)] = h
	}
	e.Journal = orNew(e.Journal)
	c.effectiveJournal(e.Journal)
	e.Limits = orNew(e.Limits)
	orDefault(&e.Limits.MaxMessageBytes, defaultMaxMessageBytes)
	orDefault(&e.Limits.MaxQueuedRequests, defaultMaxQueuedRequests)
	orDefault(&e.Limits.MaxQueuedBytes, max(defaultMaxQueuedBytes, e.Limits.MaxMessageBytes))
	orDefault(&e.Limits.MaxConcurrentRequests, defaultMaxConcurrentRequests)
	orDefault(&e.Limits.TurnGraceMs, defaultTurnGraceMS)
	e.Log = orNew(e.Log)
	orDefault(&e.Log.Level, "warn")
	orDefault(&e.Log.Format, "text")
	e.Admin = orNew(e.Admin)
	effectiveServe(e)
	return e
}

// Shown returns the effective configuration as a file with the same meaning: permission contains the policies, and
// handlers does not.
func (c *Config) Shown() *configv1.Config {
	e := c.Effective()
	if p := c.Proto.GetPermission(); len(p.GetChain()) > 0 || len(p.GetCommand()) > 0 || p.GetAddress() != "" {
		maps.DeleteFunc(e.Handlers, func(name string, _ *configv1.Handler) bool { return Kind(name) == route.KindPermission })
	}
	return e
}

// orNew returns m, or an empty message if m is nil.
func orNew[M any](m *M) *M {
	if m == nil {
		return new(M)
	}
	return m
}

// orDefault sets a field that is zero.
func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
