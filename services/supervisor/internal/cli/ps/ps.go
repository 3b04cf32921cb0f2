// Package ps implements "acphost ps": lists the running supervisors.
package ps

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/reach"
)

// listed is a line of "ps". The JSON names are stable, because scripts use them.
type listed struct {
	PID     int        `json:"pid"`
	Agent   string     `json:"agent"`
	State   string     `json:"state"`
	Since   *time.Time `json:"since"`
	Socket  string     `json:"socket"`
	Control string     `json:"control,omitempty"`
	Mode    string     `json:"mode,omitempty"`
	Version string     `json:"version,omitempty"`
	Error   string     `json:"error,omitempty"`
}

// New returns the command "ps".
func New(call *command.Call) *cobra.Command {
	var asJSON, everywhere bool
	var only cliflag.ListFilter
	var file string
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the running supervisors",
		Long: `List your running supervisors, with the state of their agents and the path of the
admin socket, which is read-only. Call it with any gRPC client, for example

    grpcurl -plaintext -unix SOCKET acphost.supervisor.v1.SupervisorStateService/GetStatus

and list its services with

    grpcurl -plaintext -unix SOCKET list

Calls that change state use another address, to which agents cannot connect; --json
shows it as "control":

    grpcurl -plaintext CONTROL acphost.supervisor.v1.SupervisorControlService/ReloadPolicy

The command lists the supervisors in the runtime folder of this environment. --all
adds those in your other runtime folders: an editor on a desktop and a shell over
ssh have different ones.`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, where := []listed{}, *call
			if !everywhere {
				where.Sockets = func(env func(string) string) []string {
					dirs := call.Sockets(env)
					return dirs[:min(1, len(dirs))]
				}
			}
			for _, s := range reach.Running(cmd.Context(), &where, file) {
				list = append(list, newListed(s))
				reach.MayBeAgents(call, s)
			}
			list = cliflag.Filter(&only, list, func(l listed) cliflag.Listed {
				at := cliflag.Listed{Agents: []string{l.Agent}}
				if l.Since != nil {
					at.Time = *l.Since
				}
				return at
			})
			return output.PrintList(call, asJSON, list, supervisorTable)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON lines")
	only.Register(cmd, call.Env, cliflag.AgentFlag, cliflag.SinceFlag, cliflag.LimitFlag)
	cmd.Flags().BoolVar(&everywhere, "all", false, "also supervisors with other runtime folders")
	cmd.Flags().StringVar(&file, "config", "", "the configuration `FILE`, which may name a socket")
	return cmd
}

func newListed(s client.Supervisor) listed {
	if errors.As(s.Err, new(*client.DoubtError)) {
		return listed{PID: s.PID, State: "not trusted", Socket: s.Socket, Error: s.Err.Error()}
	}
	if s.Err != nil {
		return listed{PID: s.PID, State: "not answering", Socket: s.Socket, Error: s.Err.Error()}
	}
	since := s.Status.GetStartTime().AsTime().Local()
	name, state := s.Status.GetAgent().GetName(), cmp.Or(s.Status.GetAgent().GetState(), "no agent")
	if n := s.Status.GetAgents(); n > 1 {
		name, state = fmt.Sprintf("%s and %d more", name, n-1), "serving"
	} else if s.Status.GetMode() == "serve" && n == 0 {
		state = "serving"
	}
	return listed{
		PID:     s.PID,
		Agent:   name,
		State:   state,
		Since:   &since,
		Socket:  s.Socket,
		Control: controlAddress(s.Status.GetControlSocket()),
		Mode:    s.Status.GetMode(),
		Version: s.Status.GetVersion(),
	}
}

// controlAddress returns the address of a control socket in the format of grpcurl and grpc-go.
func controlAddress(socket string) string {
	if socket == "" {
		return ""
	}
	return "unix:" + socket
}

func stateWord(state string) output.Word {
	switch state {
	case "ready", "serving", "running":
		return output.Good(state)
	case "no agent":
		return output.Faint(state)
	case "not trusted", "not answering", "failed":
		return output.Bad(state)
	}
	return output.Warn(state)
}

func supervisorTable(list []listed) *output.Table {
	t := output.NewTable(`no supervisor is running; "acphost ps --all" also looks in other runtime folders`, "PID", "AGENT", "STATE", "SINCE", "SOCKET").Long("AGENT").Spare("SOCKET")
	for _, s := range list {
		t.Add(s.PID, s.Agent, stateWord(s.State), s.Since, s.Socket)
	}
	return t
}
