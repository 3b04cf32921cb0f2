package cliflag

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/config"
)

// Sandbox contains the flags --sandbox and --network of commands that run agents.
type Sandbox struct {
	mode    string // empty: the configuration's
	network string // the network of agents; empty: the configuration's
}

// Register adds the flags to a command.
func (f *Sandbox) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.mode, "sandbox", "",
		"the `MODE` of the sandbox: off, observe or enforce; overrides sandbox.mode")
	Complete(cmd, "sandbox", Words(config.SandboxModes()...))
	cmd.Flags().StringVar(&f.network, "network", "",
		"the `NETWORK` of agents in the sandbox: open, proxy (the policy decides machines by their names) or none; "+
			"overrides sandbox.network")
	Complete(cmd, "network", Words(config.Networks()...))
}

// Apply overrides the configuration by the flags.
func (f *Sandbox) Apply(cmd *cobra.Command, c *config.Config) error {
	if f.mode == "" && f.network == "" {
		return nil
	}
	if err := c.SetSandbox(f.mode, f.network); err != nil {
		return command.UsageErrorf(cmd, "%v", err)
	}
	return nil
}

// Sandboxed describes the sandbox of agents in a few words, or returns "" without one. missing is set if a configured
// sandbox is not available on this system.
func Sandboxed(c *config.Config) (in, missing string) {
	mode := c.Sandbox()
	if mode == config.SandboxOff {
		return "", ""
	}
	switch err := sandbox.Supported(); {
	case err == nil:
		return "in the sandbox (" + mode + ")", ""
	case c.Proto.GetSandbox().GetRequire():
		return "", "" // no agent starts, and the error states why
	default:
		return "", fmt.Sprintf("no sandbox (%s): %v: what the agent does by itself is not decided", mode, err)
	}
}
