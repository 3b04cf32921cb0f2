// Package cliflag provides the flags that several commands share: logging, the policy, and completion of flags.
package cliflag

import (
	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/config/preset"
)

// BuiltInAgents are the names of the agents that acphost knows, for --help. A test compares them with the presets,
// which are not read at each start of a command.
const BuiltInAgents = "claude, gemini, codex, opencode, qwen, cline, pi, kimi, copilot, droid, nanocoder"

// Agents completes the names of agents, for flags and arguments. env looks up environment variables.
func Agents(env func(string) string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		catalog, err := preset.Load(env)
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
}

// Words completes a flag with fixed words.
func Words(list ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)
}

// Complete sets the completion of a flag, which must exist.
func Complete(cmd *cobra.Command, flag string, how cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, how); err != nil {
		panic(err) // an error in the definition of the command
	}
}
