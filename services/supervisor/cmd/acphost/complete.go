package main

import (
	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/preset"
)

// completeAgents completes the names of agents, for flags and arguments that take one.
func (a *app) completeAgents(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	catalog, err := preset.Load(a.env)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for _, agent := range catalog.Agents() {
		names = append(names, cobra.CompletionWithDesc(agent.ID, agent.Name))
		for _, alias := range agent.Own.Aliases {
			names = append(names, cobra.CompletionWithDesc(alias, agent.Name))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// words completes a flag with a few words.
func words(list ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)
}

// complete sets how a flag is completed. The flag must be there.
func complete(cmd *cobra.Command, flag string, how cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, how); err != nil {
		panic(err) // a mistake in the command's definition
	}
}
