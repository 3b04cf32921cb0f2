// Package handler implements "acphost handler": lists and replaces the handlers of running supervisors.
package handler

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/acphost/acphost/internal/yamlproto"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/handlers"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/reach"
)

// New returns the command "handler".
func New(call *command.Call) *cobra.Command {
	return command.Group("handler", "List, restart and swap the handlers of running supervisors", `List, restart and swap the handlers of running supervisors.

A handler is a program that answers the requests of an agent to its client: for
files, terminals, permissions, or extension methods. It can be replaced while agents
run. Agents, handlers and processes that they have started cannot restart or swap
handlers.`,
		newList(call), newRestart(call), newSwap(call), newCopy(call))
}

func newList(call *command.Call) *cobra.Command {
	var which reach.Flags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the handlers of your running supervisors",
		Long: `List the handlers of your running supervisors.

SINCE is the time at which the state began; of a ready handler, the time since which
this process or connection serves. RESTARTS counts starts after an unexpected end,
not "handler restart" or "handler swap". acphost does not start a sidecar: RECONNECTS
counts the new connections to a sidecar after a connection was lost.`,
		Example: `  acphost handler list
  acphost handler list --pid 4711 --json`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return reach.With(cmd, call, &which, func(all []*reach.Supervisor) error {
				ask := func(ctx context.Context, at *reach.Supervisor) ([]*supervisorv1.HandlerStatus, error) {
					res, err := at.State.ListHandlers(ctx, &supervisorv1.ListHandlersRequest{})
					return res.GetHandlers(), err
				}
				list := []handlers.Listed{}
				for _, h := range reach.List(cmd.Context(), call, all, "handlers", ask) {
					list = append(list, handlers.New(h.At.PID, h.Of))
				}
				return output.PrintList(call, asJSON, list, handlers.Table)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON lines")
	which.Register(cmd)
	return cmd
}

func newRestart(call *command.Call) *cobra.Command {
	var which reach.Flags
	var force bool
	cmd := &cobra.Command{
		Use:   "restart NAME",
		Short: "Restart a handler while the agent continues",
		Long: `Restart a handler while the agent continues.

acphost starts a new process of the same program before it stops the old process,
which has 10 seconds to finish its calls. If the program's file was replaced
meanwhile, acphost does not start it: use "handler swap".`,
		Example: `  acphost handler restart permission
  acphost handler restart terminal --force    its terminals end with it`,
		Args: command.OneArgument("one handler's name", `"acphost handler list" shows the names`),
		RunE: func(cmd *cobra.Command, args []string) error {
			return reach.Perform(cmd, call, &which, "supervisor", nil, func(ctx context.Context, at *reach.Supervisor) error {
				res, err := at.Control.RestartHandler(ctx, &supervisorv1.RestartHandlerRequest{Name: args[0], Force: force})
				if err != nil {
					return err
				}
				return handlers.Print(call, res.GetHandler(), 0)
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "even if it has terminals, which end with it")
	which.Register(cmd)
	return cmd
}

const handlerSwapLong = `Replace a handler by another program or sidecar while the agent continues.

acphost starts, describes and configures the new handler first; if that fails, the
old handler stays. Then the old handler has 10 seconds to finish its calls. The swap
applies until acphost ends, or until the next swap. The configuration is not
changed.

COMMAND is the path of a program, or fsd, termd or permd for acphost's own. The
environment, the keys and "paths" in the handler's configuration entry apply to the
new handler, too. The settings of the entry apply only to the program or sidecar
that the entry names; any other handler gets none, or those of --settings.

--address is the address of the sidecar, --supervisor the address of the supervisor.`

func newSwap(call *command.Call) *cobra.Command {
	var which reach.Flags
	req := &supervisorv1.SwapHandlerRequest{}
	var settings string
	var uid uint32
	cmd := &cobra.Command{
		Use:   "swap NAME {--address ADDRESS | -- COMMAND [ARGUMENT…]}",
		Short: "Replace a handler while the agent continues",
		Long:  handlerSwapLong,
		Example: `  acphost handler swap permission -- ./my-permd
  acphost handler swap permission --sha256 "$(sha256sum my-permd | cut -c1-64)" -- ./my-permd
  acphost handler swap permission -- ./policy-node/main.js
  acphost handler swap permission --address unix:///run/acphost/permd.sock --secret-file /etc/acphost/permd.secret
  acphost handler swap fs --address unix:///run/acphost/fsd2.sock --uid 1000 --settings fsd.yaml
  acphost handler swap permission -- permd       back to acphost's own`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("uid") {
				req.Uid = &uid
			}
			return swapArguments(cmd, args, req)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if settings != "" {
				text, err := os.ReadFile(settings)
				if err != nil {
					return fmt.Errorf("--settings: %w", err)
				}
				req.Settings = &structpb.Struct{}
				if err := yamlproto.Unmarshal(settings, text, req.Settings); err != nil {
					return err
				}
			}
			return reach.Perform(cmd, call, &which, "supervisor", nil, func(ctx context.Context, at *reach.Supervisor) error {
				res, err := at.Control.SwapHandler(ctx, req)
				if status.Code(err) == codes.FailedPrecondition {
					return notSwapped(err, req.GetCommand())
				}
				if err != nil {
					return err
				}
				return handlers.Print(call, res.GetHandler(), res.GetForced())
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&req.Address, "address", "", "a sidecar's `ADDRESS`: unix:///PATH or tcp://HOST:PORT")
	flags.StringVar(&req.Sha256, "sha256", "", "start the program only if it has this SHA-256 `DIGEST`")
	flags.StringVar(&req.SecretFile, "secret-file", "", "the `FILE` with the secret of a sidecar on a unix socket")
	flags.Uint32Var(&uid, "uid", 0,
		"for a sidecar on a unix socket: the `ID` of the user that must run it; default: that of the configuration")
	flags.StringVar(&settings, "settings", "",
		"a `FILE` with the new handler's settings, as in \"settings\" of the configuration")
	flags.BoolVar(&req.NoTls, "no-tls", false,
		"the program cannot do mutual TLS, so your other programs can call it; needs --agent-may-call")
	flags.BoolVar(&req.AgentMayCall, "agent-may-call", false,
		"accept that agents can call it directly, without the policy")
	flags.BoolVar(&req.Force, "force", false, "even if the old handler has terminals, which end with it")
	which.RegisterAs(cmd, "supervisor") // the flag --address is the sidecar's address
	return cmd
}

// swapArguments reads the handler's name and the command.
func swapArguments(cmd *cobra.Command, args []string, req *supervisorv1.SwapHandlerRequest) error {
	before := cmd.ArgsLenAtDash() // number of arguments before "--"; -1: there is no "--"
	if before < 0 {
		before = min(1, len(args))
		if len(args) > 1 {
			return command.UsageErrorf(cmd, "put \"--\" before the command: acphost handler swap %s -- %s", args[0], strings.Join(args[1:], " "))
		}
	}
	if before != 1 {
		return command.UsageErrorf(cmd, "expected one handler's name, got %d; \"acphost handler list\" shows the names", before)
	}
	req.Name, req.Command = args[0], slices.Clone(args[1:])
	if (len(req.Command) == 0) == (req.Address == "") {
		return command.UsageErrorf(cmd, "expected either a command after \"--\" or --address")
	}
	if req.SecretFile != "" {
		path, err := filepath.Abs(req.SecretFile)
		if err != nil {
			return fmt.Errorf("find %s: %w", req.SecretFile, err)
		}
		req.SecretFile = path
	}
	if len(req.Command) == 0 {
		return nil
	}
	program := req.Command[0]
	switch {
	case strings.ContainsRune(program, filepath.Separator):
		path, err := filepath.Abs(program) // relative to the user's working directory, not the supervisor's
		if err != nil {
			return fmt.Errorf("find %s: %w", program, err)
		}
		req.Command[0] = path
	case !slices.Contains([]string{"fsd", "termd", "permd"}, program):
		return command.UsageErrorf(cmd, "%q is neither a path nor one of acphost's own programs (fsd, termd, permd); write ./%s for a file that is here", program, program)
	}
	return nil
}

// notSwapped returns the error for a program that did not replace a handler. It explains causes that can be determined
// here better than the supervisor's error.
func notSwapped(err error, argv []string) error {
	if len(argv) == 0 || !filepath.IsAbs(argv[0]) {
		return err
	}
	switch info, failed := os.Stat(argv[0]); {
	case errors.Is(failed, fs.ErrNotExist):
		return fmt.Errorf("there is no program %s; the old handler stays in place and serves", argv[0])
	case failed == nil && (info.IsDir() || info.Mode().Perm()&0o111 == 0):
		return fmt.Errorf("%s cannot be executed; the old handler stays in place and serves (chmod +x %s, if it is a program)", argv[0], argv[0])
	}
	return err
}
