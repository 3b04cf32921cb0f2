package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/doctor"
	"github.com/acphost/acphost/services/supervisor/internal/handshake"
	"github.com/acphost/acphost/services/supervisor/internal/preset"
)

const doctorLong = `Check whether acphost can work here, and say what to do where it cannot.

It looks at the machine (what its walls around agents are made of, its folders,
the room on the disk), at the configuration and the rule files, starts every
handler once, and, if you name an agent, starts that, asks it who it is, and ends
it again. Nothing is changed, and no session is opened.`

const doctorExit = `
Exit status:
  0 if there is no problem, even with warnings; else 1.
`

type doctorFlags struct {
	config, agent string
	asJSON        bool
}

func (a *app) doctorCommand() *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor [flags] [-- COMMAND [ARGUMENT…]]",
		Short: "Check the machine, the configuration, the handlers and an agent",
		Long:  doctorLong,
		Example: `  acphost doctor
  acphost doctor --agent gemini
  acphost doctor --json -- ./my-agent --acp`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && f.agent != "":
				return wrongUse(cmd, "expected either --agent or a command, got both")
			case len(args) > 0 && (args[0] == "" || cmd.ArgsLenAtDash() != 0):
				return wrongUse(cmd, "put \"--\" before the agent's command: acphost doctor -- %s", strings.Join(args, " "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.doctor(cmd.Context(), &f, args) },
	}
	cmd.SetUsageTemplate(cmd.UsageTemplate() + doctorExit)
	cmd.Flags().StringVar(&f.agent, "agent", "", "look at the agent of this `NAME` as well")
	cmd.Flags().StringVar(&f.config, "config", "", "the configuration `FILE`")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print a JSON object")
	complete(cmd, "agent", a.completeAgents)
	return cmd
}

func (a *app) doctor(ctx context.Context, f *doctorFlags, command []string) error {
	exe, err := executable()
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	o := doctor.Options{
		Env: a.env, ConfigFile: f.config, Dir: dir, HandlerDir: filepath.Dir(exe), Version: buildVersion(),
		Guard: []string{exe, "guard"}, Ask: handshake.Ask, Logger: slog.New(slog.DiscardHandler),
	}
	o.Permd = func(ctx context.Context) (permissionv1.PolicyServiceClient, func(context.Context) error, error) {
		return a.programs.permd(ctx, o.Logger)
	}
	printer := &doctor.Printer{Out: a.stdout, Color: a.style(a.stdout).Color}
	if f.asJSON {
		printer.Out = io.Discard
	}
	all := []doctor.Finding{}
	tell := func(finding doctor.Finding) {
		all = append(all, finding)
		printer.Print(finding)
	}
	missing := a.doctorAgent(f.agent, command, &o)
	problems := doctor.Run(ctx, o, tell)
	if missing != nil {
		problems++
		tell(*missing)
	}
	if problems > 0 {
		a.status = statusFailed
	}
	if f.asJSON {
		return doctor.PrintJSON(a.stdout, all)
	}
	printer.Summary(all)
	return nil
}

// doctorAgent sets the agent to look at, if there is one, or returns why it cannot be looked at. Nothing is fetched.
func (a *app) doctorAgent(name string, command []string, o *doctor.Options) *doctor.Finding {
	if len(command) > 0 {
		o.Agent = &doctor.AgentCommand{Name: filepath.Base(command[0]), Command: command, Env: os.Environ()}
		return nil
	}
	if name == "" {
		return nil
	}
	problem := func(detail, todo string) *doctor.Finding {
		return &doctor.Finding{Area: doctor.Agent, Check: "command", Level: doctor.Problem, Detail: detail, Todo: todo}
	}
	catalog, err := preset.Load(a.env)
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
		Name: r.Agent.ID, Command: slices.Clone(r.Command), Env: overlaid(os.Environ(), r.Env), Preset: true, Login: r.Login() != nil,
	}
	return nil
}
