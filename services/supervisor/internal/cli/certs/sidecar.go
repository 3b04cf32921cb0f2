package certs

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/shell"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
)

// sidecarDaemons maps the names of handlers in a configuration to acphost's own programs.
var sidecarDaemons = map[string]string{"fs": "fsd", "terminal": "termd", "permission": "permd"}

func newSidecar(call *command.Call) *cobra.Command {
	var hosts []string
	var days int
	cmd := &cobra.Command{
		Use:   "sidecar HANDLER [DIR]",
		Short: "Create the certificates of a sidecar and its supervisor",
		Long: `Create the certificates of a sidecar and its supervisor. HANDLER is fs, terminal,
permission, or the name of your own handler. The new folder DIR, by default
./HANDLER-sidecar, contains:

  ca.crt ca.key   the authority of this sidecar; keep ca.key in a safe place
  sidecar/        ca.crt, server.crt and server.key; copy it to the machine of the sidecar
  supervisor/     ca.crt, client.crt and client.key; copy it to the machine of acphost

A process with the supervisor's key can call the sidecar without any policy.
Therefore this authority is used only for this sidecar. The sidecar's certificate is
valid for localhost, 127.0.0.1, ::1, a unix socket, and the hosts that you name.

"acphost certs renew DIR" renews the certificates. You need not restart the sidecar
or the supervisor.`,
		Example: `  acphost certs sidecar fs --host fsd.internal
  scp -r fs-sidecar/sidecar fsd.internal:tls               then put fs-sidecar/ca.key away
  fsd --listen tcp://0.0.0.0:7443 --tls-ca tls/ca.crt \
      --tls-cert tls/server.crt --tls-key tls/server.key  on fsd.internal`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return command.UsageErrorf(cmd, "expected a handler's name and perhaps a folder, got %d arguments", len(args))
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return []cobra.Completion{"fs", "terminal", "permission"}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(_ *cobra.Command, args []string) error {
			name, dir := args[0], args[0]+"-sidecar"
			if len(args) == 2 {
				dir = args[1]
			}
			dir, err := filepath.Abs(dir)
			if err != nil {
				return err
			}
			if err := certs.InitSidecar(dir, name, certs.Options{Hosts: hosts, Days: days}); err != nil {
				return err
			}
			_, err = fmt.Fprint(call.Stdout, sidecarRecipe(dir, name, hosts))
			return err
		},
	}
	cmd.Flags().StringArrayVar(&hosts, "host", nil, "a `NAME` or address by which the supervisor reaches the sidecar; may be repeated")
	registerDays(cmd, &days, "the certificates are valid for `N` days; the authority's own for ten years")
	cliflag.Complete(cmd, "host", cliflag.Words())
	return cmd
}

// sidecarRecipe describes the created files, and how to use them.
func sidecarRecipe(dir, name string, hosts []string) string {
	daemon := sidecarDaemons[name]
	if daemon == "" {
		daemon = name
	}
	listen, address := "unix:///run/acphost/"+daemon+".sock", "unix:///run/acphost/"+daemon+".sock"
	if len(hosts) > 0 {
		host := strings.Trim(hosts[0], "[]")
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		listen, address = "tcp://0.0.0.0:7443", "tcp://"+host+":7443"
	}
	server, client := certs.ServerFiles("tls"), certs.ClientFiles("/etc/acphost/"+name)
	entry := fmt.Sprintf(`handlers:
      %s:
        address: %s
        tls: {ca: %s, cert: %s, key: %s}`, name, address, client.CA, client.Cert, client.Key)
	if name == "permission" {
		entry = fmt.Sprintf(`permission:
      - address: %s
        tls: {ca: %s, cert: %s, key: %s}`, address, client.CA, client.Cert, client.Key)
	}
	return fmt.Sprintf(`made %s

Take %s to where the sidecar runs, here as tls:

    %s

Take %s to where acphost runs,
here as %s; then, in the configuration there:

    %s

Whoever can read %s can call the sidecar past every
policy, and an agent of the same user can: run agents as another user (agent.user).
With %s anybody can be made a caller: put it away.
`, dir, filepath.Join(dir, certs.SidecarDir),
		shell.Quote([]string{daemon, "--listen", listen, "--tls-ca", server.CA, "--tls-cert", server.Cert, "--tls-key", server.Key}),
		filepath.Join(dir, certs.SupervisorDir), filepath.Dir(client.CA), entry,
		client.Key, filepath.Join(dir, certs.CAKeyFile))
}
