package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/preset"
)

func (a *app) agentsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "List agents, log in to them, and start and stop them in \"acphost serve\"",
		Long: `List the agents that are known by name, log in to them, and start, stop and restart
agents in a running "acphost serve".

acphost knows a few agents. More come from two files beside your configuration
(` + "~/.config/acphost" + `), both in the format of the ACP registry: registry.json, which
you download from the registry as it is, and agents.json, which you write. Of the
same id, agents.json counts before registry.json, and that before what is built in.

    {"agents": [{"id": "mine", "distribution": {"npx": {"package": "my-agent@1.0.0"}}}]}

"acphost run --agent NAME" runs one.`,
		Args: commandNeeded,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.agentsListCommand(), a.agentsLoginCommand())
	cmd.AddCommand(a.agentsRunningCommand(), a.agentsStartCommand(), a.agentsStopCommand(), a.agentsRestartCommand())
	return cmd
}

// preset returns the agent of a name, fetched if need be.
func (a *app) preset(ctx context.Context, name string) (*preset.Resolved, error) {
	catalog, err := preset.Load(a.env)
	if err != nil {
		return nil, err
	}
	r, err := catalog.Resolve(name)
	if err != nil {
		return nil, err
	}
	if len(r.Command) == 0 && r.Fetches() {
		fmt.Fprintf(a.stderr, "acphost: %s is not installed; npx fetches it\n", r.Agent.ID)
	}
	return r.Fetch(ctx, a.stderr)
}

// listedAgent is an agent as "agents list" shows it. The JSON names are for scripts and stay.
type listedAgent struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Version     string   `json:"version,omitempty"`
	Description string   `json:"description,omitempty"`
	Aliases     []string `json:"aliases,omitempty"`
	Source      string   `json:"source"`              // a file, or "built in"
	Installed   string   `json:"installed,omitempty"` // where: "path", "npx cache", "uv tool", "folder"
	InstalledAs string   `json:"installed_version,omitempty"`
	Kind        string   `json:"kind,omitempty"`
	Command     []string `json:"command,omitempty"`
	Get         string   `json:"get,omitempty"`
	Error       string   `json:"error,omitempty"`
}

func (a *app) agentsListCommand() *cobra.Command {
	var asJSON, installed bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the agents that are known, which are installed, and how to get the others",
		Example: `  acphost agents list
  acphost agents list --installed --json`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			catalog, err := preset.Load(a.env)
			if err != nil {
				return err
			}
			list := []listedAgent{}
			for _, agent := range catalog.Agents() {
				if l := newListedAgent(catalog, agent); !installed || l.Installed != "" {
					list = append(list, l)
				}
			}
			if asJSON {
				enc := json.NewEncoder(a.stdout)
				enc.SetIndent("", "  ")
				return enc.Encode(list)
			}
			return a.printAgents(list)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	cmd.Flags().BoolVar(&installed, "installed", false, "leave out what is not installed")
	return cmd
}

func newListedAgent(catalog *preset.Catalog, agent preset.Agent) listedAgent {
	l := listedAgent{
		ID: agent.ID, Name: agent.Name, Version: agent.Version, Description: agent.Description, Aliases: agent.Own.Aliases,
		Source: cmp.Or(agent.Source, "built in"),
	}
	r, err := catalog.Resolve(agent.ID)
	if err != nil {
		l.Error = err.Error()
		return l
	}
	l.Kind, l.Installed, l.InstalledAs, l.Command, l.Get = r.Kind, r.Found, r.Installed, r.Command, r.Get
	return l
}

func (a *app) printAgents(list []listedAgent) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.stderr, "none of the agents that are known is installed; \"acphost agents list\" says how to get them")
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tVERSION\tINSTALLED\tCOMMAND, OR HOW TO GET IT")
	for _, l := range list {
		where, how := "no", l.Get
		switch {
		case l.Error != "":
			where, how = "no", "-"
		case l.Installed != "":
			where, how = strings.TrimSpace(installedWhere(l.Installed)+" "+l.InstalledAs), strings.Join(l.Command, " ")
		case len(l.Command) > 0:
			where, how = "when run", strings.Join(l.Command, " ")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", cell(l.ID), cell(l.Name), cell(l.Version), cell(where), cell(how))
	}
	return w.Flush()
}

// installedWhere says it for people.
func installedWhere(found string) string {
	switch found {
	case preset.FoundOnPath:
		return "PATH"
	case preset.FoundInCache:
		return "npx"
	case preset.FoundAsTool:
		return "uv"
	}
	return found
}

// overlaid returns an environment with variables set in it, "NAME=VALUE" each. It may change env.
func overlaid(env, set []string) []string {
	for _, variable := range set {
		name, _, _ := strings.Cut(variable, "=")
		env = append(slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") }), variable)
	}
	return env
}
