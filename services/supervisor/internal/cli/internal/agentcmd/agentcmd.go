// Package agentcmd determines how a command of acphost starts an agent: the program that a name refers to, the user,
// the restrictions, and how the agent replaces this process.
package agentcmd

import (
	"context"
	"log/slog"
	"os"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/proc"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/config/agentspec"
	"github.com/acphost/acphost/services/supervisor/internal/config/preset"
	"github.com/acphost/acphost/services/supervisor/internal/policy/dialect"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/kernel"
)

// Find returns the agent with a name. It downloads the agent if necessary.
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

// Presets returns Find for a supervisor that starts agents by name.
func Presets(call *command.Call) func(ctx context.Context, name string) (argv, env []string, id string, err error) {
	return func(ctx context.Context, name string) (argv, env []string, id string, err error) {
		r, err := Find(ctx, call, name)
		if err != nil {
			return nil, nil, "", err
		}
		return r.Command, r.Env, r.Agent.ID, nil
	}
}

// Dialects returns the dialects in the user's agents.json, by the names of agents. An unreadable file is logged, and
// contains no dialects.
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

// Machines returns the machines that agents are known to connect to, by their names. If a file cannot be read, that is
// logged, and none are known.
func Machines(call *command.Call, logger *slog.Logger) func(name string) hosts.Known {
	return func(name string) hosts.Known {
		catalog, err := preset.Load(call.Env)
		if err != nil {
			logger.Warn("the machines that the agent needs are not known", "agent", name, "error", err)
			return hosts.Known{}
		}
		return catalog.Machines(name)
	}
}

// Modes returns the modes in which agents ask before they act, by their names. If a file cannot be read, that is
// logged, and no modes are known.
func Modes(call *command.Call, logger *slog.Logger) func(name string) []string {
	return func(name string) []string {
		catalog, err := preset.Load(call.Env)
		if err != nil {
			logger.Warn("the modes in which the agent asks are not known", "agent", name, "error", err)
			return nil
		}
		return catalog.Modes(name)
	}
}

// Tested returns the versions of agents that acphost was tested with, by their names. If a file cannot be read, that is
// logged, and no versions are known.
func Tested(call *command.Call, logger *slog.Logger) func(name string) []string {
	return func(name string) []string {
		catalog, err := preset.Load(call.Env)
		if err != nil {
			logger.Warn("the tested versions of the agent are not known", "agent", name, "error", err)
			return nil
		}
		return catalog.Tested(name)
	}
}

// TerminalTools returns the versions of agents, and the titles of their tools, that run commands by the client's
// terminals alone, by the ids of their presets. If a file cannot be read, that is logged, and no tools are known.
func TerminalTools(call *command.Call, logger *slog.Logger) func(id string) (versions, titles []string) {
	return func(id string) (versions, titles []string) {
		catalog, err := preset.Load(call.Env)
		if err != nil {
			logger.Warn("the agent's tools that use terminals are not known", "agent", id, "error", err)
			return nil, nil
		}
		if tools := catalog.TerminalTools(id); tools != nil {
			return tools.Versions, tools.Titles
		}
		return nil, nil
	}
}

// Files returns the files and programs that agents are known to have, by their names. If a file cannot be read, that is
// logged, and none are known.
func Files(call *command.Call, logger *slog.Logger) func(name string) kernel.Files {
	return func(name string) kernel.Files {
		catalog, err := preset.Load(call.Env)
		if err != nil {
			logger.Warn("the agent's own files are not known", "agent", name, "error", err)
			return kernel.Files{}
		}
		return catalog.Files(name)
	}
}

// Executor replaces this process by a command, with an environment, as another user if as is not nil, and confined by
// walls. It returns only if that fails, with the exit status for the error.
type Executor func(argv, env []string, as *proc.User, walls proc.Confinement) (status int, err error)

// Resolve returns the command, the variables and the name of the agent in a request, as agentspec does.
func Resolve(ctx context.Context, call *command.Call, c *config.Config, request *supervisorv1.StartAgentRequest) (*supervisorv1.StartAgentRequest, error) {
	return agentspec.Resolver{Config: c.Proto.GetAgent(), Presets: Presets(call)}.Resolve(ctx, request)
}

// Rights are the configured rights of agents.
type Rights struct {
	Config *config.Config
	User   *proc.User // nil: the user of this process
	Walls  proc.Confinement
}

// Configured reads the rights of agents from the configuration. If the configuration is invalid, it returns all
// confinements, so that a login is possible; other commands report the error. For root it returns the error, because
// the configuration may name another user.
func Configured(call *command.Call, configFile string) (*Rights, error) {
	c, err := config.Load(configFile, call.Env)
	if err != nil {
		if os.Geteuid() != 0 {
			return &Rights{Config: &config.Config{Proto: &configv1.Config{}}}, nil
		}
		return nil, err
	}
	walls, err := c.AgentConfinement()
	if err != nil {
		return nil, err
	}
	user, err := c.AgentUser()
	return &Rights{Config: c, User: user, Walls: walls}, err
}

// Variables returns agent.env overridden by the variables of a preset or of a login, each "NAME=value".
func (r *Rights) Variables(own ...string) map[string]*supervisorv1.EnvValue {
	return agentspec.Resolver{Config: r.Config.Proto.GetAgent()}.Variables(own)
}

// Environ returns the environment of this process, adapted to the agents' user, with additional variables.
func (r *Rights) Environ(with map[string]*supervisorv1.EnvValue) ([]string, error) {
	return agentspec.Environ(r.User.Environ(os.Environ()), with)
}

// Exec replaces acphost by a command of an agent, with additional variables.
func (r *Rights) Exec(call *command.Call, execute Executor, argv []string, with map[string]*supervisorv1.EnvValue) error {
	env, err := r.Environ(with)
	if err != nil {
		return err
	}
	call.Status, err = execute(argv, env, r.User, r.Walls)
	if err != nil {
		call.PrintError(err)
	}
	return nil
}
