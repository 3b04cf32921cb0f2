package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/certs"
)

// healthTimeout is how long a supervisor may take to say that it serves; a probe is asked again soon.
const healthTimeout = 3 * time.Second

func (a *app) healthCommand() *cobra.Command {
	var which reachFlags
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Tell whether a supervisor serves, for probes of containers",
		Long: `Tell whether a supervisor serves: exit status 0 if it does, 1 if not. It takes three
seconds at most, and prints a line.

Without flags it looks for the one supervisor of this user, as "acphost ps" does.`,
		Example: `  acphost health
  acphost health --address 127.0.0.1:7443 --tls-dir /etc/acphost/keys/viewer
  HEALTHCHECK CMD ["acphost", "health"]`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := which.check(cmd); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), healthTimeout)
			defer cancel()
			where, conn, err := a.healthTarget(ctx, &which)
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			res, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
			if err != nil {
				return fmt.Errorf("no supervisor serves at %s: %w", where, plainly(err))
			}
			if res.GetStatus() != healthv1.HealthCheckResponse_SERVING {
				return fmt.Errorf("the supervisor at %s does not serve: %s", where, strings.ToLower(res.GetStatus().String()))
			}
			_, err = fmt.Fprintf(a.stdout, "serving at %s\n", cell(where))
			return err
		},
	}
	which.register(cmd)
	return cmd
}

// healthTarget finds who is to be asked. It asks no more than it must: one that was named is not asked what it is.
func (a *app) healthTarget(ctx context.Context, f *reachFlags) (where string, conn *grpc.ClientConn, err error) {
	switch {
	case f.address != "":
		conn, err = admin.DialTLS(f.address, certs.ClientFiles(f.tlsDir))
		return f.address, conn, err
	case f.socket != "":
		conn, err = admin.Dial(f.socket)
		return f.socket, conn, err
	}
	found, err := a.supervisors(ctx, &f.supervisorFlags)
	if err != nil {
		return "", nil, err
	}
	switch len(found) {
	case 0:
		return "", nil, fmt.Errorf("no supervisor is running")
	case 1:
		conn, err = admin.Dial(found[0].Socket)
		return found[0].Socket, conn, err
	}
	var pids []string
	for _, s := range found {
		pids = append(pids, fmt.Sprint(s.PID))
	}
	slices.Sort(pids)
	return "", nil, fmt.Errorf("%d supervisors are running: say which one is meant with --pid (%s)", len(found), strings.Join(pids, ", "))
}
