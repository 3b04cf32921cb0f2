// Package certs implements "acphost certs": creates the certificates that authenticate callers over the network.
package certs

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/shell"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
)

// New returns the command "certs".
func New(call *command.Call) *cobra.Command {
	cmd := command.Group("certs", "Create certificates for callers over the network",
		`Create certificates for callers over the network.

Over TCP, a supervisor and its callers authenticate each other by certificates of
your own authority (mutual TLS). The role in a caller's certificate determines its
rights:

  viewer     reads all state
  approver   also answers questions
  operator   makes all calls
  gateway    opens agents for clients of a gateway ("acphost certs gateway")
  metrics    only reads the metrics, for Prometheus

For a sidecar and its supervisor, "acphost certs sidecar" creates certificates of a
separate authority.`,
		newInit(call), newClient(call), newGateway(call), newSidecar(call), newRenew(call))
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return rejectAgents(cmd, call) }
	return cmd
}

// rejectAgents rejects calls by agents, because the keys allow all operations over the network. On systems that do
// not identify the caller, such as macOS, only the modes of the files protect the keys.
func rejectAgents(cmd *cobra.Command, call *command.Call) error {
	err := call.RejectAgents(cmd)
	if errors.Is(err, proc.ErrUnsupported) {
		return nil
	}
	return err
}

func newInit(call *command.Call) *cobra.Command {
	var hosts, clients []string
	var days int
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "Create an authority and certificates for a server and clients",
		Long: `Create an authority and certificates for a server and for clients, in a new folder:

  ca.crt ca.key   the authority; keep ca.key in a safe place
  server/         the supervisor's ca.crt, server.crt and server.key;
                  copy it to the machine of "acphost serve --tls-dir"
  NAME/           one for each client, with ca.crt, client.crt and client.key;
                  copy it to the machine of the client

Over TCP, only the certificate counts. An agent that can read a client's key, or
ca.key, can answer its own questions. Therefore acphost does not serve if agents can
read such keys beside the server's keys.

The server's certificate is valid for localhost, 127.0.0.1, ::1 and the hosts that
you name. No existing file is overwritten.`,
		Example: `  acphost certs init keys --host build.example.org
  scp -r keys/server build.example.org:tls                  then put keys away
  acphost serve --listen :7443 --tls-dir tls                on build.example.org
  acphost approvals list --address build.example.org:7443 --tls-dir keys/approver
  acphost certs init keys --client ci:viewer --client me:operator --days 90`,
		Args: command.OneArgument("the folder to make"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := certs.Options{Hosts: hosts, Days: days}
			for _, text := range clients {
				c, err := certs.ParseClient(text)
				if err != nil {
					return command.UsageErrorf(cmd, "--client: %v", err)
				}
				o.Clients = append(o.Clients, c)
			}
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			if err := certs.Init(dir, o); err != nil {
				return err
			}
			if o.Clients == nil {
				o.Clients = certs.DefaultClients()
			}
			return printAuthority(call, dir, o.Clients)
		},
	}
	cmd.Flags().StringArrayVar(&hosts, "host", nil, "a `NAME` or address by which callers reach the supervisor; may be repeated")
	cmd.Flags().StringArrayVar(&clients, "client", nil, "a caller, as `NAME:ROLE`; may be repeated (default: one of each role)")
	registerDays(cmd, &days, "the certificates are valid for `N` days; the authority's own for ten years")
	cliflag.Complete(cmd, "client", completeClient)
	cliflag.Complete(cmd, "host", cliflag.Words())
	return cmd
}

func newClient(call *command.Call) *cobra.Command {
	var days int
	cmd := &cobra.Command{
		Use:   "client DIR NAME:ROLE",
		Short: "Create a certificate for a further client",
		Long: `Create a certificate for a further client, of the authority that "certs init" has
created in DIR.`,
		Example: `  acphost certs client ~/.config/acphost/tls dashboard:viewer --days 30`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return command.UsageErrorf(cmd, "expected an authority's folder and NAME:ROLE, got %d arguments", len(args))
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return completeClient(cmd, args, text)
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := certs.ParseClient(args[1])
			if err != nil {
				return command.UsageErrorf(cmd, "%v", err)
			}
			return addClient(call, args[0], c, days, clientRecipe)
		},
	}
	registerDays(cmd, &days, "the certificate is valid for `N` days")
	return cmd
}

// addClient creates a certificate for another client, and prints how to use it.
func addClient(call *command.Call, authority string, c certs.Client, days int, recipe func(dir string) string) error {
	dir, err := filepath.Abs(authority)
	if err != nil {
		return err
	}
	if err := certs.AddClient(dir, c, certs.Options{Days: days}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(call.Stdout, "%s\n\n%s", madeLine(dir, c), recipe(filepath.Join(dir, c.Name)))
	return err
}

func newRenew(call *command.Call) *cobra.Command {
	var days int
	cmd := &cobra.Command{
		Use:   "renew DIR",
		Short: "Renew the keys and certificates",
		Long: `Replace the keys and certificates in DIR by new ones with the same names and roles:
for the server or the sidecar, and for the clients whose folders are in DIR. The old
certificates stay valid until they expire. A running supervisor or sidecar reads the
new files by itself. Open connections stay open.`,
		Example: `  acphost certs renew ~/.config/acphost/tls --days 90`,
		Args:    command.OneArgument("an authority's folder"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			renewed, err := certs.Renew(dir, certs.Options{Days: days})
			for _, name := range renewed {
				if _, err := fmt.Fprintf(call.Stdout, "renewed %s\n", name); err != nil {
					return err
				}
			}
			return err
		},
	}
	registerDays(cmd, &days, "the certificates are valid for `N` days")
	return cmd
}

// completeClient completes the role after a name.
func completeClient(_ *cobra.Command, _ []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
	name, _, named := strings.Cut(text, ":")
	if !named || name == "" {
		return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	var list []cobra.Completion
	for _, role := range certs.RoleNames() {
		list = append(list, name+":"+role)
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// printAuthority prints the created files, and how to use them.
func printAuthority(call *command.Call, dir string, clients []certs.Client) error {
	files := certs.ServerFiles("/etc/acphost/tls")
	var b strings.Builder
	fmt.Fprintf(&b, "made %s\n", dir)
	for _, c := range clients {
		fmt.Fprintln(&b, madeLine(dir, c))
	}
	fmt.Fprintf(&b, `
Take %s to where acphost runs, without the rest of
%s; then, in the configuration there:

    admin:
      listen: 127.0.0.1:7443
      tls:
        ca: %q
        cert: %q
        key: %q

`, filepath.Join(dir, certs.ServerDir), dir, files.CA, files.Cert, files.Key)
	b.WriteString(clientRecipe(filepath.Join(dir, clients[len(clients)-1].Name)))
	fmt.Fprintf(&b, `
Whoever can read a caller's folder may do what its role allows, and an agent of the
same user can: take the folders to where the callers are. With %s
anybody can be made a caller: put it away. Neither belongs to where agents run.
`, filepath.Join(dir, certs.CAKeyFile))
	_, err := fmt.Fprint(call.Stdout, b.String())
	return err
}

func madeLine(dir string, c certs.Client) string {
	line := fmt.Sprintf("made %s for a caller with the role %s", filepath.Join(dir, c.Name), c.Role)
	if c.ActsAs != certs.NoRole {
		line += fmt.Sprintf(", which may call for people up to the role %s", c.ActsAs)
	}
	return line
}

// clientRecipe describes how a client connects.
func clientRecipe(dir string) string {
	f := certs.ClientFiles(dir)
	word := func(text string) string { return shell.Quote([]string{text}) }
	return fmt.Sprintf(`Then, as this client:

    acphost agents running --address 127.0.0.1:7443 --tls-dir %s
    grpcurl -cacert %s -cert %s -key %s 127.0.0.1:7443 \
        acphost.supervisor.v1.SupervisorStateService/GetStatus
`, word(dir), word(f.CA), word(f.Cert), word(f.Key))
}

// registerDays adds the flag --days to a command.
func registerDays(cmd *cobra.Command, to *int, usage string) {
	*to = certs.DefaultDays
	cmd.Flags().Var((*days)(to), "days", usage)
}

// days is the value of --days.
type days int

// String implements pflag.Value.
func (d *days) String() string { return strconv.Itoa(int(*d)) }

// Type implements pflag.Value.
func (*days) Type() string { return "int" }

// Set implements pflag.Value.
func (d *days) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > certs.MaxDays {
		return fmt.Errorf("expected a number of days from 1 to %d; leave --days out for %d", certs.MaxDays, certs.DefaultDays)
	}
	*d = days(n)
	return nil
}
