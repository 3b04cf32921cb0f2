// Package demo implements "acphost demo": plays one turn of a scripted agent.
package demo

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/demo"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
)

// New returns the command "demo".
func New(call *command.Call, play func(context.Context, demo.Options) int) *cobra.Command {
	var dir string
	var noColor bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run one turn of a scripted agent",
		Long: `Run one turn of a scripted agent, with the real supervisor and handlers, in a
separate small workspace. It needs no account, no network and no configuration.

The agent reads a file, requests permission, writes an edit, runs a command in a
terminal, tries to read a file outside of its workspace, which is denied, and ends
the turn. Each request is printed with its handler, its duration and a short answer.

The exit status is 0 only if all steps had these results.`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			call.HandleSignals()
			exe, err := command.Executable()
			if err != nil {
				return err
			}
			call.Status = play(cmd.Context(), demo.Options{
				Exe:    exe,
				Dir:    dir,
				Stdout: call.Stdout,
				Color:  !noColor && output.Style(call, call.Stdout).Color,
			})
			if call.Status != 0 && cmd.Context().Err() != nil {
				call.Status = command.StatusOfSignal(cmd.Context())
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "make the workspace in this `FOLDER` and keep it; default: a temporary one")
	cmd.Flags().BoolVar(&noColor, "no-color", false, "print without colours; default on anything but a terminal, or with NO_COLOR set")
	return cmd
}
