// Package agentcmd is the command of an agent: which one a name means, who it runs as and behind which walls, and how acphost
// becomes it.
package agentcmd

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/dialect"
	"github.com/acphost/acphost/services/supervisor/internal/preset"
)

// Find returns the agent of a name, fetched if need be.
func Find(ctx context.Context, call *command.Call, name string) (*preset.Resolved, error) {
	catalog, err := preset.Load(call.Env)
	if err != nil {
		return nil, err
	}
	r, err := catalog.Resolve(name)
	if err != nil {
		return nil, err
	}
	if len(r.Command) == 0 && r.Fetches() {
		call.Notice("%s is not installed; npx fetches it", r.Agent.ID)
	}
	return r.Fetch(ctx, call.Stderr)
}

// Presets is Find for a supervisor that starts agents by name.
func Presets(call *command.Call) func(ctx context.Context, name string) (argv, env []string, id string, err error) {
	return func(ctx context.Context, name string) (argv, env []string, id string, err error) {
		r, err := Find(ctx, call, name)
		if err != nil {
			return nil, nil, "", err
		}
		return r.Command, r.Env, r.Agent.ID, nil
	}
}

// Dialects says how agents describe their tools, by their names, as the user's agents.json has it. A file that cannot be read is
// logged: then nothing is said.
func Dialects(call *command.Call, logger *slog.Logger) func(name string) *dialect.Dialect {
	return func(name string) *dialect.Dialect {
		catalog, err := preset.Load(call.Env)
		if err != nil {
			logger.Warn("what is configured of how the agent describes its tools does not count", "agent", name, "error", err)
			return nil
		}
		return catalog.Dialect(name)
	}
}

// Hosts says without which machines agents do not work, by their names. A file that cannot be read is logged: then it is not known.
func Hosts(call *command.Call, logger *slog.Logger) func(name string) []hosts.Pattern {
	return func(name string) []hosts.Pattern {
		catalog, err := preset.Load(call.Env)
		if err != nil {
			logger.Warn("the machines that the agent needs are not known", "agent", name, "error", err)
			return nil
		}
		return catalog.Hosts(name)
	}
}

// State says which files agents keep for themselves, which further programs are theirs, and which they start for
// themselves, by their names. A file that cannot be read is logged: then it is not known.
func State(call *command.Call, logger *slog.Logger) func(name string) (files, programs []string, starts [][]string) {
	return func(name string) (files, programs []string, starts [][]string) {
		catalog, err := preset.Load(call.Env)
		if err != nil {
			logger.Warn("the agent's own files are not known", "agent", name, "error", err)
			return nil, nil, nil
		}
		return catalog.State(name)
	}
}

// Executor becomes a command, with an environment, as another user if one is given, behind walls, or returns why it cannot
// and the exit status that says so.
type Executor func(argv, env []string, as *proc.User, walls proc.Confinement) (status int, err error)

// Become replaces acphost with a command of an agent's, as the user that agents run as and behind their walls.
func Become(call *command.Call, execute Executor, configFile string, argv, env []string) error {
	user, walls, err := Rights(call, configFile)
	if err != nil {
		return err
	}
	call.Status, err = execute(argv, env, user, walls)
	if err != nil {
		call.Complain(err)
	}
	return nil
}

// Rights are who agents run as (nil: whoever runs this) and the walls around them. A configuration that cannot be
// read stops no login, and leaves all walls: what is wrong with it is said where it is needed. Only root has to correct
// it first, since it may name another user.
func Rights(call *command.Call, configFile string) (*proc.User, proc.Confinement, error) {
	c, err := config.Load(configFile, call.Env)
	if err != nil {
		if os.Geteuid() != 0 {
			err = nil
		}
		return nil, proc.Confinement{}, err
	}
	walls, err := c.AgentConfinement()
	if err != nil {
		return nil, proc.Confinement{}, err
	}
	user, err := c.AgentUser()
	return user, walls, err
}

// Overlaid returns an environment with variables set in it, "NAME=VALUE" each. It may change env.
func Overlaid(env, set []string) []string {
	for _, variable := range set {
		name, _, _ := strings.Cut(variable, "=")
		env = append(slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") }), variable)
	}
	return env
}
