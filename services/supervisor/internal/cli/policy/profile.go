package policy

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/permd"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/host/policytool"
)

func newProfile(call *command.Call, start permd.Starter) *cobra.Command {
	var policy, configFile string
	var walls []string
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "Describe the effect of a policy on an agent's processes",
		Long: `Describe the effect of a policy on an agent's commands and processes: which
programs, files and machines are allowed, asked about and denied. Each line names
the rule and its reason. Lists of patterns are cut; "acphost policy show" and the
rule file have all of them.

The command shows the rules with all walls of the sandbox, and without the sandbox.
--walls names the active walls instead. If several lines are about an action, deny
applies before "is asked about", and that before "may". "acphost policy why" decides
one action.

Without --policy, the rule files of a supervisor that is started in this folder
apply.`,
		Example: `  acphost policy profile --policy workspace
  acphost policy profile --walls files,network`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			active, err := profiledWalls(walls)
			if err != nil {
				return command.UsageErrorf(cmd, "--walls: %v", err)
			}
			return permd.With(cmd.Context(), call, start, func(service permissionv1.PolicyServiceClient) error {
				return printProfile(cmd.Context(), call, service, configFile, policy, active)
			})
		},
	}
	cmd.Flags().StringVar(&policy, "policy", "", "show only this rule `FILE`, or ready-made policy")
	cmd.Flags().StringSliceVar(&walls, "walls", nil, "the active `WALLS`: files, reads and network, or none")
	cmd.Flags().StringVar(&configFile, "config", "", "the configuration `FILE`")
	return cmd
}

// profiledWalls returns the combinations of walls to show: those of the flag, or else all walls, and none.
func profiledWalls(names []string) ([][]permissionv1.Wall, error) {
	if len(names) > 0 {
		active, err := policytool.ParseWalls(names)
		return [][]permissionv1.Wall{active}, err
	}
	all, err := policytool.ParseWalls([]string{"files", "reads", "network"})
	return [][]permissionv1.Wall{all, nil}, err
}

func printProfile(
	ctx context.Context, call *command.Call, service permissionv1.PolicyServiceClient, configFile, policy string,
	active [][]permissionv1.Wall,
) error {
	c, err := config.Load(configFile, call.Env)
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	files, err := filesInEffect(ctx, call, service, c, policy, dir)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("no policy is set, so that there are no rules to show: name one with --policy")
	}
	for _, file := range files {
		if ok, err := loads(ctx, call, service, file); err != nil || !ok {
			return err
		}
	}
	profile, err := policytool.NewProfile(files)
	if err != nil {
		return err
	}
	for i, walls := range active {
		if i > 0 {
			fmt.Fprintln(call.Stdout)
		}
		profile.Print(call.Stdout, output.Style(call, call.Stdout), walls)
	}
	return nil
}
