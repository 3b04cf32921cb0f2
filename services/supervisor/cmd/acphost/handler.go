package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/config"
)

// A verb may take as long as the start of a new handler and the end of an old one, and reading none of that.
const (
	verbTimeout = 2 * time.Minute
	listTimeout = 5 * time.Second
)

func (a *app) handlerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "handler",
		Short: "List, restart and swap the handlers of running supervisors",
		Long: `List, restart and swap the handlers of running supervisors.

A handler is a program that answers what an agent asks of its client: files,
terminals, permissions, or methods of its own. It can be replaced while agents go
on. What changes something is refused to agents and handlers, and to whatever
they have started.`,
		Args: commandNeeded,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.handlerListCommand(), a.handlerRestartCommand(), a.handlerSwapCommand())
	return cmd
}

func (a *app) handlerListCommand() *cobra.Command {
	var which supervisorFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the handlers of your running supervisors",
		Example: `  acphost handler list
  acphost handler list --pid 4711 --json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := a.supervisors(cmd.Context(), &which)
			if err != nil {
				return err
			}
			list := []listedHandler{}
			for _, s := range found {
				handlers, err := handlersOf(cmd.Context(), s)
				if err != nil {
					a.complain(fmt.Errorf("supervisor %d does not say which handlers it has: %w", s.PID, err))
					a.status = statusFailed
				}
				list = append(list, handlers...)
			}
			if asJSON {
				enc := json.NewEncoder(a.stdout)
				enc.SetIndent("", "  ")
				return enc.Encode(list)
			}
			return a.printHandlers(list)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	which.register(cmd)
	return cmd
}

func (a *app) handlerRestartCommand() *cobra.Command {
	var which supervisorFlags
	var force bool
	cmd := &cobra.Command{
		Use:   "restart NAME",
		Short: "Start a handler again while the agent goes on",
		Long: `Start a handler again while the agent goes on.

A new process of the same program is started before the old one is stopped, which
has 10 seconds for the calls that it works on. A program whose file was replaced
meanwhile is not started: that is a swap.`,
		Example: `  acphost handler restart permission
  acphost handler restart terminal --force    its terminals end with it`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return wrongUse(cmd, "expected one handler's name, got %d arguments; \"acphost handler list\" shows the names", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.order(cmd.Context(), &which, func(ctx context.Context, c supervisorv1.SupervisorControlServiceClient) error {
				res, err := c.RestartHandler(ctx, &supervisorv1.RestartHandlerRequest{Name: args[0], Force: force})
				if err != nil {
					return err
				}
				return a.printHandler(res.GetHandler(), 0)
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "even if it holds terminals, which end with it")
	which.register(cmd)
	return cmd
}

const handlerSwapLong = `Put another program or sidecar in a handler's place while the agent goes on.

The new one is started, described and configured first; if that fails, the old
one stays. Then the old one has 10 seconds for the calls that it works on. The
swap counts until acphost ends, or until the next one: the configuration is not
changed.

COMMAND is the path of a program, or fsd, termd or permd for acphost's own. The
environment, keys and settings that the configuration gives the handler count for
the new one too, but for the settings of acphost's own programs, which are theirs.`

func (a *app) handlerSwapCommand() *cobra.Command {
	var which supervisorFlags
	req := &supervisorv1.SwapHandlerRequest{}
	cmd := &cobra.Command{
		Use:   "swap NAME {--address ADDRESS | -- COMMAND [ARGUMENT…]}",
		Short: "Put another program in a handler's place while the agent goes on",
		Long:  handlerSwapLong,
		Example: `  acphost handler swap permission -- ./my-permd
  acphost handler swap permission --sha256 "$(sha256sum my-permd | cut -c1-64)" -- ./my-permd
  acphost handler swap permission -- ./policy-node/main.js
  acphost handler swap permission --address unix:///run/acphost/permd.sock
  acphost handler swap permission -- permd       back to acphost's own`,
		Args: func(cmd *cobra.Command, args []string) error { return swapArguments(cmd, args, req) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.order(cmd.Context(), &which, func(ctx context.Context, c supervisorv1.SupervisorControlServiceClient) error {
				res, err := c.SwapHandler(ctx, req)
				if err != nil {
					return err
				}
				return a.printHandler(res.GetHandler(), res.GetForced())
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&req.Address, "address", "", "a sidecar's `ADDRESS`: unix:///PATH or tcp://HOST:PORT")
	flags.StringVar(&req.Sha256, "sha256", "", "start the program only if it has this SHA-256 `DIGEST`")
	flags.BoolVar(&req.NoTls, "no-tls", false, "the program cannot do mutual TLS: other programs of yours can then call it")
	flags.BoolVar(&req.Force, "force", false, "even if the old one holds terminals, which end with it")
	which.register(cmd)
	return cmd
}

// swapArguments reads the handler's name and the command.
func swapArguments(cmd *cobra.Command, args []string, req *supervisorv1.SwapHandlerRequest) error {
	before := cmd.ArgsLenAtDash() // of the arguments; -1: no dashes
	if before < 0 {
		before = min(1, len(args))
		if len(args) > 1 {
			return wrongUse(cmd, "put \"--\" before the command: acphost handler swap %s -- %s", args[0], strings.Join(args[1:], " "))
		}
	}
	if before != 1 {
		return wrongUse(cmd, "expected one handler's name, got %d; \"acphost handler list\" shows the names", before)
	}
	req.Name, req.Command = args[0], slices.Clone(args[1:])
	if (len(req.Command) == 0) == (req.Address == "") {
		return wrongUse(cmd, "expected either a command after \"--\" or --address")
	}
	if len(req.Command) == 0 {
		return nil
	}
	program := req.Command[0]
	switch {
	case strings.ContainsRune(program, filepath.Separator):
		path, err := filepath.Abs(program) // relative to where the person is, not to the supervisor
		if err != nil {
			return fmt.Errorf("find %s: %w", program, err)
		}
		req.Command[0] = path
	case !slices.Contains([]string{"fsd", "termd", "permd"}, program):
		return wrongUse(cmd, "%q is neither a path nor one of acphost's own programs (fsd, termd, permd); write ./%s for a file that is here", program, program)
	}
	return nil
}

// policyReloadCommand is "policy reload".
func (a *app) policyReloadCommand() *cobra.Command {
	var which supervisorFlags
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have a running supervisor load its rules again",
		Long: `Have a running supervisor load its rules again.

A rule file that changes counts at once as far as it tightens. What it loosens
counts from the next reload on, so that an agent cannot loosen it for itself. A
file that cannot be loaded changes nothing; the error says what is wrong.`,
		Example: `  acphost policy reload
  acphost policy reload --pid 4711`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.order(cmd.Context(), &which, func(ctx context.Context, c supervisorv1.SupervisorControlServiceClient) error {
				res, err := c.ReloadPolicy(ctx, &supervisorv1.ReloadPolicyRequest{})
				if err != nil {
					return err
				}
				for _, h := range res.GetHandlers() {
					if err := a.printHandler(h, 0); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	which.register(cmd)
	return cmd
}

// supervisorFlags say which running supervisors are meant.
type supervisorFlags struct {
	pid    int
	config string
}

func (f *supervisorFlags) register(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.pid, "pid", 0, "the supervisor's process id, `PID`, where several run")
	cmd.Flags().StringVar(&f.config, "config", "", "the configuration `FILE`, which may name a socket")
}

// supervisors returns the running supervisors that are meant; none is an error, unless all are meant.
func (a *app) supervisors(ctx context.Context, f *supervisorFlags) ([]admin.Supervisor, error) {
	var further []string
	if c, err := config.Load(f.config, a.env); err != nil {
		a.complain(err) // the supervisors with sockets of their own can be found all the same
	} else if socket := c.Proto.GetAdmin().GetSocket(); socket != "" {
		further = []string{socket}
	}
	found := admin.Running(ctx, a.programs.sockets(a.env), further...)
	if f.pid == 0 {
		return found, nil
	}
	for _, s := range found {
		if s.PID == f.pid {
			return []admin.Supervisor{s}, nil
		}
	}
	return nil, fmt.Errorf("no supervisor runs as process %d; \"acphost ps\" lists those that run", f.pid)
}

// order connects to the one supervisor that is meant and has it do something.
func (a *app) order(ctx context.Context, f *supervisorFlags, do func(context.Context, supervisorv1.SupervisorControlServiceClient) error) error {
	found, err := a.supervisors(ctx, f)
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return errors.New("no supervisor is running")
	case len(found) > 1:
		var text strings.Builder
		for _, s := range found {
			row := newListed(s)
			fmt.Fprintf(&text, "\n  --pid %d  %s, %s", row.PID, cell(row.Agent), cell(row.State))
		}
		return fmt.Errorf("%d supervisors are running: say which one is meant%s", len(found), text.String())
	}
	ctx, cancel := context.WithTimeout(ctx, verbTimeout)
	defer cancel()
	conn, err := admin.Dial(found[0].Socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	return plainly(do(ctx, supervisorv1.NewSupervisorControlServiceClient(conn)))
}

// plainly drops gRPC's words around what a supervisor says.
func plainly(err error) error {
	if s, ok := status.FromError(err); err != nil && ok {
		return errors.New(cell(strings.ReplaceAll(s.Message(), "\n", "; ")))
	}
	return err
}

// listedHandler is a handler as "handler list" shows it. The JSON names are for scripts and stay.
type listedHandler struct {
	Supervisor  int        `json:"supervisor"`
	Name        string     `json:"name"`
	State       string     `json:"state"`
	Description string     `json:"description,omitempty"`
	PID         int64      `json:"pid,omitempty"`
	Command     []string   `json:"command,omitempty"`
	Address     string     `json:"address,omitempty"`
	SHA256      string     `json:"sha256,omitempty"`
	MutualTLS   bool       `json:"mutual_tls"`
	Restarts    uint64     `json:"restarts"`
	Since       *time.Time `json:"since,omitempty"`
	Error       string     `json:"error,omitempty"`
	Methods     []string   `json:"methods,omitempty"`
	Notes       []string   `json:"notes,omitempty"`
}

func handlersOf(ctx context.Context, s admin.Supervisor) ([]listedHandler, error) {
	if s.Err != nil {
		return nil, plainly(s.Err)
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	conn, err := admin.Dial(s.Socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return listHandlers(ctx, s.PID, conn)
}

func listHandlers(ctx context.Context, pid int, conn grpc.ClientConnInterface) ([]listedHandler, error) {
	res, err := supervisorv1.NewSupervisorStateServiceClient(conn).ListHandlers(ctx, &supervisorv1.ListHandlersRequest{})
	if err != nil {
		return nil, plainly(err)
	}
	var list []listedHandler
	for _, h := range res.GetHandlers() {
		l := listedHandler{
			Supervisor: pid, Name: h.GetName(), State: stateWord(h.GetState()), Description: h.GetDescription(), PID: h.GetPid(),
			Command: h.GetCommand(), Address: h.GetAddress(), SHA256: h.GetSha256(), MutualTLS: h.GetMutualTls(),
			Restarts: h.GetRestarts(), Error: h.GetError(), Methods: h.GetMethods(), Notes: h.GetNotes(),
		}
		if h.GetSince().IsValid() {
			since := h.GetSince().AsTime().Local()
			l.Since = &since
		}
		list = append(list, l)
	}
	return list, nil
}

// stateWord is a state as people write it: "ready".
func stateWord(s supervisorv1.HandlerState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "HANDLER_STATE_"))
}

func (a *app) printHandlers(list []listedHandler) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.stderr, "there are no handlers: no supervisor is running, or it only watches")
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SUPERVISOR\tNAME\tSTATE\tDESCRIPTION\tPID\tRESTARTS\tSINCE\tRUNS\tERROR")
	for _, h := range list {
		since, pid := "-", "-"
		if h.Since != nil {
			since = h.Since.Format(time.DateTime)
		}
		if h.PID != 0 {
			pid = fmt.Sprint(h.PID)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", h.Supervisor, cell(h.Name), h.State, cell(h.Description), pid,
			h.Restarts, since, cell(cmp.Or(h.Address, strings.Join(h.Command, " "))), cell(h.Error))
	}
	return w.Flush()
}

// printHandler says what became of a handler.
func (a *app) printHandler(h *supervisorv1.HandlerStatus, forced uint32) error {
	where := h.GetAddress()
	if where == "" {
		where = fmt.Sprintf("process %d", h.GetPid())
	}
	lines := []string{fmt.Sprintf("%s: %s, %s, %s", cell(h.GetName()), stateWord(h.GetState()), cell(h.GetDescription()), cell(where))}
	for _, note := range h.GetNotes() {
		lines = append(lines, "  "+cell(note))
	}
	switch forced {
	case 0:
	case 1:
		lines = append(lines, "  one call was not answered by the one before within its time, and failed")
	default:
		lines = append(lines, fmt.Sprintf("  %d calls were not answered by the one before within its time, and failed", forced))
	}
	_, err := fmt.Fprintln(a.stdout, strings.Join(lines, "\n"))
	return err
}
