// Package run implements "acphost run": runs an agent with a supervisor between the agent and the editor that started
// acphost.
package run

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/agentcmd"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/hosting"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/host"
)

const runLong = `Run an agent with acphost between it and the editor.

Use it in an editor's settings instead of the agent's command. It speaks ACP on
standard input and output. Handlers answer the agent's requests: fsd for files,
termd for terminals. permd decides permission requests; without a policy, they go to
the editor. All other messages pass unchanged, except the capabilities in
"initialize" and tool calls that embed a terminal: an editor that cannot show
terminals gets their output as text.

The words after "--", or from the first word that is not a flag, are the agent's
command with its arguments. With --agent, which names an agent of "acphost agents
list", they follow the agent's own arguments; if the agent is not installed, npx
downloads it.

If standard input and output are a terminal, acphost replaces itself with the
command, because editors start an agent's login in this way. The protections around
an agent's process apply then, too.`

const runWho = `
Targets:
  handler   acphost's own handler, or its replacement in the configuration
  front     the client: the editor, with its unsaved buffers and its review of changes
  deny      no handler: the agent gets an error
  NAME      the handler of that name in the configuration (--route only)

These flags override the configuration. Without both, a method is routed to the
handler that declares it, or else to the editor.
`

const runExamples = `  acphost run -- gemini --acp
  acphost run --agent claude --                 an agent by its name
  acphost run --fs=front -- claude-agent-acp    the editor keeps files to itself
  acphost run --route 'terminal/*=deny' -- gemini --acp
  acphost run --observe -- gemini --acp         change nothing, only watch
  acphost run --observe --activity 127.0.0.1:17320 -- gemini --acp   in place of eisen-core`

const runExit = `
Exit status:
  The agent's own, or 128 and the signal's number if a signal ended it; else
  127 if the agent's command is not found, 126 if it cannot be executed.
  1   if acphost could not start as configured.
  2   for wrong usage.

Environment:
  ACPHOST_CONFIG   the configuration file, if --config is not given
  ACPHOST_LOG      the log level, if --log-level is not given; else the
                   configuration's, else warn. Logs go to standard error.
`

// permissionMethod is the key of the permission handler in the routes of flags: the method of permission requests.
const permissionMethod = "session/request_permission"

// runFlags are the flags of "run".
type runFlags struct {
	hosting.Flags
	observe, alone, noAdmin bool
	agent                   string // name of a preset
	agentName               string
	routes                  map[string]string
}

// New returns the command "run".
func New(call *command.Call, hosted func(context.Context, host.Options) int, execute agentcmd.Executor) *cobra.Command {
	f := runFlags{routes: map[string]string{}}
	cmd := &cobra.Command{
		Use:     "run [flags] {[--] COMMAND [ARGUMENT…] | --agent NAME [-- ARGUMENT…]}",
		Short:   "Run an agent with acphost between it and the editor",
		Long:    runLong,
		Example: runExamples,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.agent == "" && (len(args) == 0 || args[0] == ""):
				return command.UsageErrorf(cmd, "the agent's command is missing: acphost run [flags] -- COMMAND [ARGUMENT…]")
			case f.agent != "" && len(args) > 0 && cmd.ArgsLenAtDash() != 0:
				return command.UsageErrorf(cmd, "--agent names the agent: put \"--\" before arguments for it, or leave --agent out")
			case f.Policy.Name != "" && f.observe:
				return command.UsageErrorf(cmd, "--observe decides nothing: leave it or --policy out")
			case f.Policy.Name != "" && f.routes[permissionMethod] == "front":
				return command.UsageErrorf(cmd, "--permission=front is for no policy: leave it or --policy out")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runAgent(cmd, call, hosted, execute, &f, args) },
	}
	cmd.Annotations = map[string]string{command.Sections: runWho + runExit}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // flags after the agent's command belong to the agent
	flags.StringVar(&f.agent, "agent", "", "run the agent of this `NAME`: "+cliflag.BuiltInAgents+" or one of your own")
	flags.BoolVar(&f.observe, "observe", false, "route and rewrite nothing, only watch")
	flags.BoolVar(&f.alone, "unattended", false,
		"no user is at the client: questions end after permission.timeout_seconds")
	f.registerRoute(cmd, "fs", "fs/*", "the `TARGET` of file requests: handler, front or deny", "handler", "front", "deny")
	f.registerRoute(cmd, "terminal", "terminal/*",
		"the `TARGET` of terminal requests: handler, front or deny", "handler", "front", "deny")
	f.registerRoute(cmd, "permission", permissionMethod,
		"the `TARGET` of permission requests: handler, or front for no policy", "handler", "front")
	flags.Func("route", "the target of a method or a namespace, `METHOD=TARGET`; can be repeated", f.addRoute)
	flags.StringVar(&f.agentName, "agent-name", "", "the agent's `NAME` for policies and handlers")
	flags.BoolVar(&f.noAdmin, "no-admin", false, "serve no admin socket")
	f.Register(cmd)
	f.RegisterActivity(cmd)
	cliflag.Complete(cmd, "agent", cliflag.Agents(call.Env))
	return cmd
}

func runAgent(cmd *cobra.Command, call *command.Call, hosted func(context.Context, host.Options) int, execute agentcmd.Executor, f *runFlags, argv []string) error {
	call.HandleSignals()
	if len(f.agentName) > 128 || strings.ContainsFunc(f.agentName, unicode.IsControl) {
		return command.UsageErrorf(cmd, "--agent-name: expected 1 to 128 characters without control characters, got %q", f.agentName)
	}
	request := &supervisorv1.StartAgentRequest{Command: argv}
	if f.agent != "" {
		request = &supervisorv1.StartAgentRequest{Preset: f.agent, Args: argv}
	}
	if call.Terminal(call.Stdin) && call.Terminal(call.Stdout) {
		return execAgent(cmd.Context(), call, execute, f.Config, request)
	}
	o, err := f.Options(cmd, call, call.Stderr, nil)
	if err != nil {
		return err
	}
	if o.Agent, err = agentcmd.Resolve(cmd.Context(), call, o.Config, request); err != nil {
		return err
	}
	o.Agent.Name = cmp.Or(f.agentName, o.Agent.Name)
	o.Mode = host.ModeRun
	if f.observe {
		o.Mode = host.ModeObserve
	}
	o.Routes, o.Unattended = f.routes, f.alone
	o.Stdin, o.Stdout, o.Stderr = call.Stdin, call.Stdout, call.Stderr
	o.Admin = o.Admin && !f.noAdmin
	f.warn(o)
	hurry := hosting.NewKillTimer(cmd.Context())
	defer hurry.Stop()
	defer context.AfterFunc(cmd.Context(), func() { hurry.After(hosting.EndGrace(o.Config)) })()
	o.Kill = hurry.Context()
	call.Status = hosted(cmd.Context(), o)
	return nil
}

// warn logs that there are no rules, because editors show the log. If the user has disabled rules, it warns only about
// a sandbox, which has no effect without rules.
func (f *runFlags) warn(o host.Options) {
	if wanted := f.observe || f.routes[permissionMethod] == "front"; wanted && o.Config.Sandbox() == config.SandboxOff {
		return
	}
	if line := cliflag.NoRulesNotice(o.Config, "", !f.alone); line != "" {
		o.Logger.Warn(line)
	}
}

// execAgent replaces acphost by the agent, on a terminal.
func execAgent(ctx context.Context, call *command.Call, execute agentcmd.Executor, configFile string, request *supervisorv1.StartAgentRequest) error {
	rights, err := agentcmd.Configured(call, configFile)
	if err != nil {
		return err
	}
	agent, err := agentcmd.Resolve(ctx, call, rights.Config, request)
	if err != nil {
		return err
	}
	return rights.Exec(call, execute, agent.GetCommand(), agent.GetEnv())
}

// registerRoute adds a flag for the route of one name to a command: --fs=front.
func (f *runFlags) registerRoute(cmd *cobra.Command, flag, name, usage string, words ...string) {
	cmd.Flags().Func(flag, usage, func(word string) error {
		if !slices.Contains(words, word) {
			return command.Expected(word, words...)
		}
		f.routes[name] = word
		return nil
	})
	cliflag.Complete(cmd, flag, cliflag.Words(words...))
}

// addRoute parses METHOD=TARGET. Only the supervisor checks whether the handler exists.
func (f *runFlags) addRoute(value string) error {
	name, target, ok := strings.Cut(value, "=")
	if !ok || target == "" {
		return command.Expected(value, "METHOD=TARGET")
	}
	if err := route.CheckName(name); err != nil {
		return err
	}
	f.routes[name] = target
	return nil
}
