package certs

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/delegation"
	"github.com/acphost/acphost/internal/shell"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
)

// newGateway returns the command "certs gateway".
func newGateway(call *command.Call) *cobra.Command {
	var days int
	var name, actsAs string
	cmd := &cobra.Command{
		Use:   "gateway DIR",
		Short: "Create a certificate for a gateway",
		Long: `Create a certificate for a gateway (gatewayd), of the authority that "certs init"
has created in DIR. With it, the gateway can only open the agents of
serve.gateway_agents for remote clients. It cannot list sessions or answer
questions.

With --acts-as, it can also call the supervisor's services for the users of the
gateway. Each call names its caller. The supervisor allows what the caller's role
may do, and never more than --acts-as.`,
		Example: `  acphost certs gateway ~/.config/acphost/tls
  acphost certs gateway ~/.config/acphost/tls --name edge --acts-as approver --days 30`,
		Args: command.OneArgument("an authority's folder"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c := certs.Client{Name: name, Role: certs.Gateway}
			if actsAs != "" {
				role, err := certs.ParseRole(actsAs)
				if err != nil || role > certs.Operator {
					return command.UsageErrorf(cmd, "--acts-as: expected %s, got %q", strings.Join(delegation.Roles(), ", "), actsAs)
				}
				c.ActsAs = role
			}
			return addClient(call, args[0], c, days, gatewayRecipe)
		},
	}
	registerDays(cmd, &days, "the certificate is valid for `N` days")
	cmd.Flags().StringVar(&name, "name", "gateway", "the `NAME` of the certificate, and of its folder in DIR")
	cmd.Flags().StringVar(&actsAs, "acts-as", "",
		"the highest `ROLE` of the users for whom it may call: viewer, approver or operator (default: none)")
	cliflag.Complete(cmd, "acts-as", cliflag.Words(delegation.Roles()...))
	return cmd
}

// gatewayRecipe describes how a gateway uses the keys in a folder.
func gatewayRecipe(dir string) string {
	return fmt.Sprintf(`Take the folder to where the gateway runs, as a user that no agent runs as. Then:

    gatewayd --supervisor HOST:PORT --supervisor-tls-dir %s …
`, shell.Quote([]string{dir}))
}
