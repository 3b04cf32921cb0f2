package cliflag

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/config"
)

// Policy contains the flag --policy of commands that run agents.
type Policy struct {
	Name string // name of a ready policy, or a rule file; empty: not set
}

// Register adds the flag to a command.
func (f *Policy) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Name, "policy", "",
		"decide by the ready-made policy or the rule file with this `NAME|FILE`: "+
			"ask, workspace, readonly, headless or a file; overrides permission.policy")
	Complete(cmd, "policy", completePolicies)
}

// completePolicies completes the names of ready policies, and files.
func completePolicies(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return config.ReadyPolicies(), cobra.ShellCompDirectiveDefault
}

// Apply overrides the configuration by the flag.
func (f *Policy) Apply(cmd *cobra.Command, c *config.Config) error {
	if !cmd.Flags().Changed("policy") {
		return nil
	}
	if err := c.SetPolicy(f.Name); err != nil {
		return command.UsageErrorf(cmd, "--policy: %v", err)
	}
	return nil
}

// NoRulesNotice returns a text for users that describes what happens without rules, or "" if there are rules. dir is
// the working folder of agents, or empty if unknown. asks reports whether a user can answer questions.
func NoRulesNotice(c *config.Config, dir string, asks bool) string {
	if c.HasRules(dir) {
		return ""
	}
	what := "the agent's commands run without a check"
	if dir == "" && c.WorkspaceRules() {
		what += ", except in a workspace that has its own rules (" + config.WorkspacePolicy + ")"
	}
	if mode := c.Sandbox(); mode != config.SandboxOff {
		what += "; the sandbox (" + mode + ") has no rules to decide by"
	}
	does := "rules decide"
	if asks {
		does = "you are asked first"
	}
	return fmt.Sprintf("no policy is set: %s. With --policy workspace, %s", what, does)
}
