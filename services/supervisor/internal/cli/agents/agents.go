// Package agents implements "acphost agents": lists the known agents, logs in to them, and manages those that run in
// "acphost serve".
package agents

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/agentcmd"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/config/preset"
	"github.com/acphost/acphost/services/supervisor/internal/policy/secret"
)

// New returns the command "agents".
func New(call *command.Call, execute agentcmd.Executor) *cobra.Command {
	return command.Group("agents", "List agents, log in to them, and start and stop them in \"acphost serve\"",
		`List the known agents, log in to them, and start, stop and restart agents in a
running "acphost serve".

acphost has built-in entries for some agents. You can add entries in two files beside
your configuration (`+"~/.config/acphost"+`), in the format of the ACP registry:
registry.json, a copy of the registry, and agents.json, your own file. If several
entries have the same id, agents.json overrides registry.json, and registry.json
overrides the built-in entries.

    {"agents": [{"id": "mine", "distribution": {"npx": {"package": "my-agent@1.0.0"}}}]}

"acphost run --agent NAME" runs one.`,
		newList(call), newLogin(call, execute), newRunning(call), newStart(call), newStop(call), newRestart(call))
}

// listedAgent is a line of "agents list". The JSON names are stable, because scripts use them.
type listedAgent struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Version     string   `json:"version,omitempty"`
	Description string   `json:"description,omitempty"`
	Aliases     []string `json:"aliases,omitempty"`
	Source      string   `json:"source"`              // a file, or "built in"
	Installed   string   `json:"installed,omitempty"` // the place: "path", "npx cache", "uv tool", "folder"
	InstalledAs string   `json:"installed_version,omitempty"`
	Kind        string   `json:"kind,omitempty"`
	Command     []string `json:"command,omitempty"`
	Get         string   `json:"get,omitempty"`
	Error       string   `json:"error,omitempty"`
}

func newList(call *command.Call) *cobra.Command {
	var asJSON, installed bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the known agents, which are installed, and how to install the others",
		Example: `  acphost agents list
  acphost agents list --installed --json`,
		Args: command.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			catalog, err := preset.Load(call.Env)
			if err != nil {
				return err
			}
			list := []listedAgent{}
			for _, agent := range catalog.Agents() {
				if l := newListedAgent(catalog, agent); !installed || l.Installed != "" {
					list = append(list, l)
				}
			}
			return output.PrintList(call, asJSON, list, agentTable)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON lines")
	cmd.Flags().BoolVar(&installed, "installed", false, "only installed agents")
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
	l.Kind, l.Installed, l.InstalledAs, l.Command, l.Get = r.Kind, r.Found, r.Installed, secret.RedactedArgv(r.Command), r.Get
	return l
}

func agentTable(list []listedAgent) *output.Table {
	t := output.NewTable(`none of the agents that are known is installed; "acphost agents list" says how to get them`,
		// a command is meant to be copied
		"ID", "NAME", "VERSION", "INSTALLED", "COMMAND, OR HOW TO GET IT").Spare("VERSION", "NAME", "INSTALLED")
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
		t.Add(l.ID, l.Name, l.Version, where, how)
	}
	return t
}

// installedWhere describes the place for users.
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
