package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/sdk/yamlproto"
	"github.com/acphost/acphost/services/supervisor/internal/config"
)

const configLong = `Check or show the configuration.

The configuration is one YAML file: the one that --config names, else
$ACPHOST_CONFIG, else acphost/config.yaml under $XDG_CONFIG_HOME or ~/.config.
Without a file the defaults count.`

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check or show the configuration",
		Long:  configLong,
		Args:  commandNeeded,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.configCheckCommand(), a.configShowCommand())
	return cmd
}

func (a *app) configCheckCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check the configuration file",
		Long: `Check the configuration file and the files that it names.

Every problem is printed as FILE:LINE:COLUMN: FIELD: what was expected. The exit
status is 0 if there is none, else 1. What only a handler can judge, its own
settings and the methods that it declares, is checked when it is started. What
stands in a rule file is checked by "acphost policy check".`,
		Example: `  acphost config check
  acphost config check ./acphost.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && file != "" {
				return wrongUse(cmd, "one file is checked at a time")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				file = args[0]
			}
			return a.checkConfig(file)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "the configuration `FILE`")
	return cmd
}

func (a *app) checkConfig(file string) error {
	exe, err := executable()
	if err != nil {
		return err
	}
	c, err := config.Load(file, a.env)
	if err == nil {
		for _, warning := range c.Warnings {
			fmt.Fprintf(a.stdout, "warning: %s\n", warning)
		}
		err = c.CheckFiles(filepath.Dir(exe))
	}
	if _, ok := errors.AsType[*yamlproto.Error](err); ok {
		a.status = statusFailed
		_, err = fmt.Fprintln(a.stdout, err)
		return err
	}
	if err != nil {
		return err
	}
	if c.File == "" {
		_, err = fmt.Fprintln(a.stdout, "no configuration file, the defaults count: ok")
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s: ok\n", c.File)
	return err
}

func (a *app) configShowCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the effective configuration",
		Long: `Show the effective configuration as YAML: what the file says, with paths made
absolute and every default filled in. Values that look like secrets are redacted.`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			c, err := config.Load(file, a.env)
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
			_, err = fmt.Fprintf(a.stdout, "# %s\n%s", strings.ReplaceAll(source, "\n", " "), text)
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "the configuration `FILE`")
	return cmd
}
