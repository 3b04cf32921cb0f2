package main

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/host"
	"github.com/acphost/acphost/services/supervisor/internal/route"
)

const runLong = `Run an agent with acphost between it and the editor.

Use it in an editor's settings in place of the agent's command. It speaks ACP on
standard input and output. What the agent asks of its client is answered by
handlers: files by fsd, terminals by termd; its permission questions are decided
by permd, and go to the editor where there is no policy. Everything else passes
through unchanged.

Everything after "--", or after the first word that is no flag, is the agent's
command with its arguments. With --agent, which names an agent of "acphost agents
list", it is what follows that agent's own arguments; a package of npm that is not
installed is fetched first, by npx.

When standard input and output are a terminal, the command is executed in place
and acphost is gone: that is how editors start an agent's login.`

const runWho = `
Who answers:
  handler   a handler: acphost's own, or what the configuration puts in its place
  front     the editor, with its unsaved buffers and its review of changes
  deny      nobody: the agent gets an error
  NAME      the handler of that name in the configuration (--route only)

These flags override the configuration. Where neither says anything, a method
goes to the handler that declares it, else to the editor.
`

const runExamples = `  acphost run -- gemini --acp
  acphost run --agent claude --                 an agent by its name
  acphost run --fs=front -- claude-agent-acp    the editor keeps files to itself
  acphost run --route 'terminal/*=deny' -- gemini --acp
  acphost run --observe -- gemini --acp         change nothing, only watch`

const runExit = `
Exit status:
  The agent's own, or 128 and the signal's number if a signal ended it; else
  127 if the agent's command is not found, 126 if it cannot be executed.
  1   if acphost could not start as configured.
  2   if it was called wrongly.

Environment:
  ACPHOST_CONFIG   the configuration file, where --config is not given
  ACPHOST_LOG      the log level, where --log-level is not given; else the
                   configuration's, else warn. Logs go to standard error.
`

// permissionMethod stands for the permission handler among the routes of flags: agents ask their questions with it.
const permissionMethod = "session/request_permission"

// runFlags are the flags of "run".
type runFlags struct {
	config    string
	observe   bool
	alone     bool
	noAdmin   bool
	agent     string // a preset's name
	agentName string
	routes    map[string]string
	log       logFlags
}

func (a *app) runCommand() *cobra.Command {
	f := runFlags{routes: map[string]string{}}
	cmd := &cobra.Command{
		Use:     "run [flags] {[--] COMMAND [ARGUMENT…] | --agent NAME [-- ARGUMENT…]}",
		Short:   "Run an agent with acphost between it and the editor",
		Long:    runLong,
		Example: runExamples,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.agent == "" && (len(args) == 0 || args[0] == ""):
				return wrongUse(cmd, "the agent's command is missing: acphost run [flags] -- COMMAND [ARGUMENT…]")
			case f.agent != "" && len(args) > 0 && cmd.ArgsLenAtDash() != 0:
				return wrongUse(cmd, "--agent names the agent: put \"--\" before arguments for it, or leave --agent out")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.runAgent(cmd, &f, args) },
	}
	cmd.SetUsageTemplate(cmd.UsageTemplate() + runWho + runExit)
	flags := cmd.Flags()
	flags.SetInterspersed(false) // what follows the agent's command is the agent's
	flags.StringVar(&f.agent, "agent", "", "run the agent of this `NAME`: claude, gemini, codex, opencode, qwen or one of your own")
	flags.StringVar(&f.config, "config", "", "the configuration `FILE`")
	flags.BoolVar(&f.observe, "observe", false, "route and rewrite nothing, only watch")
	flags.BoolVar(&f.alone, "unattended", false,
		"nobody answers at the front: questions wait for permission.timeout_seconds, then the policy's \"unattended\" counts")
	flags.Var(&target{routes: f.routes, name: "fs/*", words: []string{"handler", "front", "deny"}}, "fs",
		"`who` answers for files: handler, front or deny")
	flags.Var(&target{routes: f.routes, name: "terminal/*", words: []string{"handler", "front", "deny"}}, "terminal",
		"`who` answers for terminals: handler, front or deny")
	flags.Var(&target{routes: f.routes, name: permissionMethod, words: []string{"handler", "front"}}, "permission",
		"`who` decides what the agent may: handler, or front to forward every question and let calls pass")
	flags.Var(&routeFlag{routes: f.routes}, "route",
		"who answers a method or a namespace, `METHOD=WHO`; can be repeated")
	flags.StringVar(&f.agentName, "agent-name", "", "the agent's `NAME` for policies and handlers")
	flags.BoolVar(&f.noAdmin, "no-admin", false, "serve no admin socket")
	f.log.register(cmd)
	complete(cmd, "agent", a.completeAgents)
	for _, name := range []string{"fs", "terminal"} {
		complete(cmd, name, words("handler", "front", "deny"))
	}
	complete(cmd, "permission", words("handler", "front"))
	return cmd
}

func (a *app) runAgent(cmd *cobra.Command, f *runFlags, command []string) error {
	if len(f.agentName) > 128 || strings.ContainsFunc(f.agentName, isControl) {
		return wrongUse(cmd, "--agent-name: expected 1 to 128 characters without control characters, got %q", f.agentName)
	}
	command, env, err := a.agentCommand(cmd.Context(), f, command)
	if err != nil {
		return err
	}
	if a.programs.terminal(a.stdin) && a.programs.terminal(a.stdout) {
		status, err := a.programs.exec(command, env)
		a.status = status
		if err != nil {
			a.complain(err)
		}
		return nil
	}
	c, err := config.Load(f.config, a.env)
	if err != nil {
		return err
	}
	logger, err := f.log.logger(cmd, a, c)
	if err != nil {
		return err
	}
	for _, warning := range c.Warnings {
		logger.Warn(warning)
	}
	exe, err := executable()
	if err != nil {
		return err
	}
	mode := host.ModeRun
	if f.observe {
		mode = host.ModeObserve
	}
	a.status = a.programs.host(cmd.Context(), host.Options{
		Command:    command,
		Env:        env,
		Config:     c,
		Mode:       mode,
		Routes:     f.routes,
		AgentName:  f.agentName,
		Unattended: f.alone,
		Stdin:      a.stdin,
		Stdout:     a.stdout,
		Stderr:     a.stderr,
		Version:    buildVersion(),
		HandlerDir: filepath.Dir(exe),
		Admin:      !f.noAdmin && !c.Proto.GetAdmin().GetDisabled(),
		Logger:     logger,
	})
	return nil
}

// agentCommand returns the command line and the environment: those of the agent that --agent names, which also gives it
// its name for policies, or the arguments themselves in the environment as it is.
func (a *app) agentCommand(ctx context.Context, f *runFlags, args []string) (command, env []string, err error) {
	if f.agent == "" {
		return args, os.Environ(), nil
	}
	r, err := a.preset(ctx, f.agent)
	if err != nil {
		return nil, nil, err
	}
	f.agentName = cmp.Or(f.agentName, r.Agent.ID)
	return slices.Concat(r.Command, args), overlaid(os.Environ(), r.Env), nil
}

// target is a flag that routes one fixed name: --fs=front.
type target struct {
	routes map[string]string
	name   string
	words  []string
}

// String implements pflag.Value. There is no default to show: the configuration decides.
func (t *target) String() string { return "" }

// Type implements pflag.Value.
func (t *target) Type() string { return "who" }

// Set implements pflag.Value.
func (t *target) Set(word string) error {
	if !slices.Contains(t.words, word) {
		return &expected{words: t.words, got: word}
	}
	t.routes[t.name] = word
	return nil
}

// routeFlag is the flag that routes any method: --route METHOD=WHO.
type routeFlag struct{ routes map[string]string }

// String implements pflag.Value.
func (r *routeFlag) String() string { return "" }

// Type implements pflag.Value.
func (r *routeFlag) Type() string { return "METHOD=WHO" }

// Set implements pflag.Value. Whether there is a handler of that name is only known later.
func (r *routeFlag) Set(value string) error {
	name, who, ok := strings.Cut(value, "=")
	if !ok || who == "" {
		return &expected{words: []string{"METHOD=WHO"}, got: value}
	}
	if err := route.CheckName(name); err != nil {
		return err
	}
	r.routes[name] = who
	return nil
}
