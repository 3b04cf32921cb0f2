package hosting

import (
	"io"

	"github.com/spf13/cobra"

	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/agentcmd"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/events/filefeed"
	"github.com/acphost/acphost/services/supervisor/internal/host"
)

// Flags contains the flags of every command that runs a supervisor: the configuration, the policy, and the log.
type Flags struct {
	Config string // a file; empty: the default one
	Policy cliflag.Policy
	Log    cliflag.Log

	sandbox  cliflag.Sandbox
	activity string // address of the feed of file activity; empty: the configuration's
}

// Register adds the flags to a command.
func (f *Flags) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Config, "config", "", "the configuration `FILE`")
	f.Policy.Register(cmd)
	f.sandbox.Register(cmd)
	f.Log.Register(cmd)
}

// RegisterActivity adds the flag for the feed of file activity to a command.
func (f *Flags) RegisterActivity(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.activity, "activity", "",
		"report the files of agents to programs on this machine, with the protocol of eisen-core, at this loopback "+
			"`ADDRESS`: 127.0.0.1:17320, or port 0 for a free port")
}

// Options reads the configuration and returns the supervisor's options for it and for the program. override applies
// further flags to the configuration; nil means none. Logs are written to w.
func (f *Flags) Options(cmd *cobra.Command, call *command.Call, w io.Writer, override func(*configv1.Config) error) (host.Options, error) {
	c, err := config.Load(f.Config, call.Env)
	if err == nil && override != nil {
		err = override(c.Proto)
	}
	if given := cmd.Flags().Lookup("activity"); err == nil && given != nil && given.Changed {
		if err := filefeed.CheckAddress(f.activity); err != nil {
			return host.Options{}, command.UsageErrorf(cmd, "--activity: %v", err)
		}
		c.Proto.Activity = &configv1.Activity{Listen: f.activity}
	}
	if err == nil {
		err = f.Policy.Apply(cmd, c)
	}
	if err == nil {
		err = f.sandbox.Apply(cmd, c)
	}
	if err != nil {
		return host.Options{}, err
	}
	logger, err := f.Log.Logger(cmd, call.Env, w, c)
	if err != nil {
		return host.Options{}, err
	}
	programs, err := call.Programs()
	return host.Options{
		Adopt: true, Config: c, Logger: logger, Version: call.Version, Programs: programs, Admin: !c.Proto.GetAdmin().GetDisabled(),
		Dialects: agentcmd.Dialects(call, logger), Machines: agentcmd.Machines(call, logger),
		Files: agentcmd.Files(call, logger), Modes: agentcmd.Modes(call, logger), Tested: agentcmd.Tested(call, logger),
		TerminalTools: agentcmd.TerminalTools(call, logger),
	}, err
}
