// Package health implements "acphost health": reports whether a supervisor serves, for probes.
package health

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/reach"
)

// healthTimeout limits the time of a check. Probes are repeated soon.
const healthTimeout = 3 * time.Second

// New returns the command "health".
func New(call *command.Call) *cobra.Command {
	var which reach.Flags
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Check whether a supervisor serves, for probes of containers",
		Long: `Check whether a supervisor serves, within three seconds: exit status 0 if it does, 1
if not. The command prints one line.

Without flags, it checks the only supervisor of this user, as "acphost ps" lists it.`,
		Example: `  acphost health
  acphost health --address 127.0.0.1:7443 --tls-dir /etc/acphost/keys/viewer
  HEALTHCHECK CMD ["acphost", "health"]`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := which.Check(cmd); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), healthTimeout)
			defer cancel()
			where, conn, err := healthTarget(ctx, call, &which)
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			res, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
			if err != nil {
				return fmt.Errorf("no supervisor serves at %s: %w", where, reach.CallErrorLine(err))
			}
			if res.GetStatus() != healthv1.HealthCheckResponse_SERVING {
				return fmt.Errorf("the supervisor at %s does not serve: %s", where, strings.ToLower(res.GetStatus().String()))
			}
			_, err = fmt.Fprintf(call.Stdout, "serving at %s\n", output.Cell(where))
			return err
		},
	}
	which.Register(cmd)
	return cmd
}

// healthTarget finds the supervisor to check. It makes as few calls as possible: a supervisor that was selected is not
// asked for its status.
func healthTarget(ctx context.Context, call *command.Call, f *reach.Flags) (where string, conn *client.Client, err error) {
	if f.Address != "" || f.Socket != "" {
		return f.Dial()
	}
	one, err := reach.One(ctx, call, f)
	if err != nil {
		return "", nil, err
	}
	conn, err = one.Dial()
	return one.Socket, conn, err
}
