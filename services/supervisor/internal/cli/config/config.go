// Package config implements "acphost config": checks and prints the configuration.
package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/yamlproto"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/config"
)

const configLong = `Check or show the configuration.

The configuration is one YAML file: the file that --config names, or
$ACPHOST_CONFIG, or acphost/config.yaml below $XDG_CONFIG_HOME or ~/.config. Without
a file, the defaults apply.`

// New returns the command "config".
func New(call *command.Call) *cobra.Command {
	return command.Group("config", "Check or show the configuration", configLong,
		newCheck(call), newShow(call))
}

func newCheck(call *command.Call) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check the configuration file",
		Long: `Check the configuration file and the files that it names, and whether an agent could
read the secret or key of a sidecar or of a caller. The command warns about
capabilities of agents that make it possible to bypass a protection, about a sandbox
without a policy, and about settings that only some commands apply.

Every problem is printed as FILE:LINE:COLUMN: FIELD: the expected value. The exit
status is 0 if there is none, else 1. The settings and methods of a handler are
checked when the handler starts. "acphost policy check" checks rule files.`,
		Example: `  acphost config check
  acphost config check ./acphost.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && file != "" {
				return command.UsageErrorf(cmd, "one file is checked at a time")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				file = args[0]
			}
			return checkConfig(call, file)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "the configuration `FILE`")
	return cmd
}

func checkConfig(call *command.Call, file string) error {
	programs, err := call.Programs()
	if err != nil {
		return err
	}
	c, err := config.Load(file, call.Env)
	if err == nil {
		for _, warning := range c.Warnings {
			fmt.Fprintf(call.Stdout, "warning: %s\n", warning)
		}
		for _, danger := range c.Dangers() {
			fmt.Fprintf(call.Stdout, "warning: %s\n", danger)
		}
		for _, note := range c.Unapplied() {
			fmt.Fprintf(call.Stdout, "note: %s\n", note)
		}
		if unruled := c.SandboxWithoutRules(); unruled != "" {
			fmt.Fprintf(call.Stdout, "warning: sandbox.mode is %s, and %s; set permission.policy, for example to workspace\n", c.Sandbox(), unruled)
		}
		err = errors.Join(c.CheckFiles(programs), c.CheckExposed(), c.CheckListen())
	}
	if _, ok := errors.AsType[*yamlproto.Error](err); ok {
		call.Status = command.StatusFailed
		_, err = fmt.Fprintln(call.Stdout, err)
		return err
	}
	if err != nil {
		return err
	}
	if c.File == "" {
		_, err = fmt.Fprintln(call.Stdout, "no configuration file, the defaults count: ok")
		return err
	}
	_, err = fmt.Fprintf(call.Stdout, "%s: ok\n", c.File)
	return err
}

func newShow(call *command.Call) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the effective configuration",
		Long: `Show the effective configuration as YAML, with absolute paths and all defaults.
Values that look like secrets are redacted.`,
		Args: command.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			c, err := config.Load(file, call.Env)
			if err != nil {
				return err
			}
			text, err := yamlproto.Marshal(config.Redacted(c.Shown()))
			if err != nil {
				return err
			}
			source := c.File
			if source == "" {
				source = "no file, the defaults"
			}
			_, err = fmt.Fprintf(call.Stdout, "# %s\n%s", strings.ReplaceAll(source, "\n", " "), text)
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "the configuration `FILE`")
	return cmd
}
