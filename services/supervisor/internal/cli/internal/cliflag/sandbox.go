package cliflag

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/config"
)

// Sandbox is --sandbox and --network of the commands that run agents.
type Sandbox struct {
	mode    string // empty: the configuration's
	network string // what agents connect to; empty: the configuration's
}

// Register gives a command the flags.
func (f *Sandbox) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.mode, "sandbox", "", "decide at the kernel about what agents do by themselves, in this `MODE`: off, observe or enforce; before sandbox.mode")
	Complete(cmd, "sandbox", Words(config.SandboxModes()...))
	cmd.Flags().StringVar(&f.network, "network", "", "what agents in the sandbox connect to, `NETWORK`: open, proxy (the policy decides about machines by their names) or none; before sandbox.network")
	Complete(cmd, "network", Words(config.Networks()...))
}

// Apply puts the flags over what the configuration says.
func (f *Sandbox) Apply(cmd *cobra.Command, c *config.Config) error {
	if f.mode == "" && f.network == "" {
		return nil
	}
	if err := c.SetSandbox(f.mode, f.network); err != nil {
		return command.WrongUse(cmd, "%v", err)
	}
	return nil
}

// Sandboxed says in a few words in which sandbox agents will run; empty: in none. missing says that one is
// configured, and can not be had on this system.
func Sandboxed(c *config.Config) (in, missing string) {
	mode := c.Sandbox()
	if mode == config.SandboxOff {
		return "", ""
	}
	switch err := sandbox.Supported(); {
	case err == nil:
		return "in the sandbox (" + mode + ")", ""
	case c.Proto.GetSandbox().GetRequire():
		return "", "" // no agent starts, and it is said why
	default:
		return "", fmt.Sprintf("no sandbox (%s): %v: what the agent does by itself is not decided", mode, err)
	}
}
