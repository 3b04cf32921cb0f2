package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/config"
)

// listed is a supervisor as "ps" shows it. The JSON names are for scripts and stay.
type listed struct {
	PID     int        `json:"pid"`
	Agent   string     `json:"agent"`
	State   string     `json:"state"`
	Since   *time.Time `json:"since"`
	Socket  string     `json:"socket"`
	Mode    string     `json:"mode,omitempty"`
	Version string     `json:"version,omitempty"`
	Error   string     `json:"error,omitempty"`
}

func (a *app) psCommand() *cobra.Command {
	var asJSON bool
	var file string
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the running supervisors",
		Long: `List your running supervisors, with the state of the agent of each and the path
of its admin socket. Ask a socket for more with any gRPC client, for example

    grpcurl -plaintext -unix SOCKET acphost.supervisor.v1.SupervisorStateService/GetStatus

and for what there is with

    grpcurl -plaintext -unix SOCKET list`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var further []string
			if c, err := config.Load(file, a.env); err != nil {
				a.complain(err) // the supervisors with sockets of their own can be listed all the same
			} else if socket := c.Proto.GetAdmin().GetSocket(); socket != "" {
				further = []string{socket}
			}
			list := []listed{}
			for _, s := range admin.Running(cmd.Context(), a.programs.sockets(a.env), further...) {
				list = append(list, newListed(s))
			}
			if asJSON {
				enc := json.NewEncoder(a.stdout)
				enc.SetIndent("", "  ")
				return enc.Encode(list)
			}
			return a.printTable(list)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	cmd.Flags().StringVar(&file, "config", "", "the configuration `FILE`, which may name a socket")
	return cmd
}

func newListed(s admin.Supervisor) listed {
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
		Mode:    s.Status.GetMode(),
		Version: s.Status.GetVersion(),
	}
}

func (a *app) printTable(list []listed) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.stderr, "no supervisor is running")
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PID\tAGENT\tSTATE\tSINCE\tSOCKET")
	for _, s := range list {
		since := "-"
		if s.Since != nil {
			since = s.Since.Format(time.DateTime)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", s.PID, cell(s.Agent), cell(s.State), since, cell(s.Socket))
	}
	return w.Flush()
}

// cell keeps what another process says of itself from moving the cursor or shifting columns.
func cell(s string) string {
	return cmp.Or(strings.Map(func(c rune) rune {
		if isControl(c) {
			return '?'
		}
		return c
	}, s), "-")
}
