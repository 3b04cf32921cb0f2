package policy

import (
	"context"

	"github.com/spf13/cobra"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/handlers"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/reach"
)

func newReload(call *command.Call) *cobra.Command {
	var (
		which  reach.Flags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Reload the rules of a running supervisor",
		Long: `Reload the rules of a running supervisor.

If a rule file changes, stricter rules apply at once. Looser rules apply after a
reload, so that an agent cannot loosen the rules. A file that cannot be loaded
changes nothing, and the error states the reason.`,
		Example: `  acphost policy reload
  acphost policy reload --pid 4711 --json
  acphost policy reload --address build.example.org:7443 --tls-dir operator`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return reach.Perform(cmd, call, &which, "supervisor", nil, func(ctx context.Context, at *reach.Supervisor) error {
				res, err := at.Control.ReloadPolicy(ctx, &supervisorv1.ReloadPolicyRequest{})
				if err != nil {
					return err
				}
				if asJSON {
					list := []handlers.Listed{}
					for _, h := range res.GetHandlers() {
						list = append(list, handlers.New(at.PID, h))
					}
					return output.PrintLines(call, list)
				}
				for _, h := range res.GetHandlers() {
					if err := handlers.Print(call, h, 0); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	which.Register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON lines, one for each policy")
	return cmd
}
