// Package doctor implements "acphost doctor": checks whether acphost can work on this machine, and prints a remedy for
// each problem.
package doctor

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/doctor"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/permd"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/config/preset"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/handshake"
)

const doctorLong = `Check whether acphost works on this machine, and print a remedy for each problem.

It checks the machine (the protections around agents, folders, disk space), the
configuration and the rule files, and starts every handler once. If you name an
agent, it starts the agent outside of the sandbox, sends it "initialize", and ends
it; it also reports which parts of the sandbox are available. It changes nothing,
and opens no session.`

const doctorExit = `
Exit status:
  0 if there is no problem, even with warnings; else 1; 2 for wrong usage;
  128 and the signal's number if a signal ended it.
`

type doctorFlags struct {
	config, agent, cwd string
	asJSON             bool
	policy             cliflag.Policy
	sandbox            cliflag.Sandbox
}

// New returns the command "doctor".
func New(call *command.Call, start permd.Starter) *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor [flags] [-- COMMAND [ARGUMENT…]]",
		Short: "Check the machine, the configuration, the handlers and an agent",
		Long:  doctorLong,
		Example: `  acphost doctor
  acphost doctor --agent gemini
  acphost doctor --agent codex --policy workspace --sandbox enforce
  acphost doctor --json -- ./my-agent --acp`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && f.agent != "":
				return command.UsageErrorf(cmd, "expected either --agent or a command, got both")
			case len(args) > 0 && (args[0] == "" || cmd.ArgsLenAtDash() != 0):
				return command.UsageErrorf(cmd, "put \"--\" before the agent's command: acphost doctor -- %s", strings.Join(args, " "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return diagnose(cmd, call, start, &f, args) },
	}
	cmd.Annotations = map[string]string{command.Sections: doctorExit}
	cmd.Flags().StringVar(&f.agent, "agent", "", "also check the agent of this `NAME`")
	cmd.Flags().StringVar(&f.config, "config", "", "the configuration `FILE`")
	cliflag.Cwd(cmd, &f.cwd)
	f.policy.Register(cmd)
	f.sandbox.Register(cmd)
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print a JSON object")
	cliflag.Complete(cmd, "agent", cliflag.Agents(call.Env))
	return cmd
}

func diagnose(cmd *cobra.Command, call *command.Call, start permd.Starter, f *doctorFlags, argv []string) error {
	ctx := cmd.Context()
	programs, err := call.Programs()
	if err != nil {
		return err
	}
	guard, err := agent.OwnGuard()
	if err != nil {
		return err
	}
	dir, err := cliflag.Folder(f.cwd)
	if err != nil {
		return command.UsageErrorf(cmd, "--cwd: %v", err)
	}
	o := doctor.Options{
		Env: call.Env, ConfigFile: f.config, Dir: dir, Programs: programs, Version: call.Version,
		Guard: guard, Ask: handshake.Query, Logger: slog.New(slog.DiscardHandler),
	}
	o.Override = func(c *config.Config) error {
		if err := f.policy.Apply(cmd, c); err != nil {
			return err
		}
		return f.sandbox.Apply(cmd, c)
	}
	for _, name := range []string{"config", "cwd", "policy", "network"} {
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Changed {
			o.Flags = append(o.Flags, "--"+name, flag.Value.String())
		}
	}
	o.Permd = func(ctx context.Context) (permissionv1.PolicyServiceClient, func(context.Context) error, error) {
		return start(ctx, o.Logger)
	}
	printer := &doctor.Printer{Out: call.Stdout, Color: output.Style(call, call.Stdout).Color}
	if f.asJSON {
		printer.Out = io.Discard
	}
	all := []doctor.Finding{}
	tell := func(finding doctor.Finding) {
		all = append(all, finding)
		printer.Print(finding)
	}
	missing := doctorAgent(call, f.agent, argv, &o)
	problems := doctor.Run(ctx, o, tell)
	if missing != nil {
		problems++
		tell(*missing)
	}
	if problems > 0 {
		call.Status = command.StatusFailed
	}
	if f.asJSON {
		return output.PrintJSON(call, doctor.Report(all))
	}
	printer.Summary(all)
	return nil
}

// doctorAgent sets the agent to check, if there is one, or returns a finding if that is impossible. It downloads no
// agent.
func doctorAgent(call *command.Call, name string, argv []string, o *doctor.Options) *doctor.Finding {
	if len(argv) > 0 {
		o.Agent = &doctor.AgentCommand{Name: filepath.Base(argv[0]), Command: argv}
		return nil
	}
	if name == "" {
		return nil
	}
	problem := func(detail, todo string) *doctor.Finding {
		return &doctor.Finding{Area: doctor.Agent, Check: "command", Level: doctor.Problem, Detail: detail, Todo: todo}
	}
	catalog, err := preset.Load(call.Env)
	if err != nil {
		return problem(err.Error(), "")
	}
	r, err := catalog.Resolve(name)
	if err != nil {
		return problem(err.Error(), "")
	}
	if len(r.Command) == 0 {
		return problem(fmt.Sprintf("the agent %s is not installed", r.Agent.ID), "get it with: "+r.Get)
	}
	o.Agent = &doctor.AgentCommand{
		Name: r.Agent.ID, Command: slices.Clone(r.Command), Env: r.Env, Preset: true, Login: r.Login() != nil,
		Tested: r.Agent.Own.Tested,
	}
	return nil
}
