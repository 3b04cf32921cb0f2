package hosting

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/agentcmd"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/host"
)

// SessionFlags contains the flags of commands that run a session with an agent in their own supervisor.
type SessionFlags struct {
	Flags
	Agent, Session, Cwd, Mode, Model, Meta string
}

// Register adds the flags to a command.
func (f *SessionFlags) Register(cmd *cobra.Command, env func(string) string) {
	flags := cmd.Flags()
	flags.StringVar(&f.Agent, "agent", "", "the agent of this `NAME`: "+cliflag.BuiltInAgents+" or one of your own")
	flags.StringVar(&f.Session, "session", "", "continue the session with this `ID` that the agent has stored")
	cliflag.Cwd(cmd, &f.Cwd)
	flags.StringVar(&f.Mode, "mode", "", "the `MODE` that the agent works in")
	flags.StringVar(&f.Model, "model", "", "the `MODEL` that the agent uses")
	flags.StringVar(&f.Meta, "meta", "", "options of the agent's own for the session: a `JSON` object that is sent as _meta; \"@FILE\" reads it from a file")
	cliflag.Complete(cmd, "meta", completeAtFile)
	f.Flags.Register(cmd)
	cliflag.Complete(cmd, "agent", cliflag.Agents(env))
}

// Read returns the agent, and the _meta of its session. argv is the command of the agent, or further arguments for an
// agent with a name.
func (f *SessionFlags) Read(cmd *cobra.Command, argv []string) (*supervisorv1.StartAgentRequest, string, error) {
	cwd, err := cliflag.Folder(f.Cwd)
	if err != nil {
		return nil, "", command.UsageErrorf(cmd, "--cwd: %v", err)
	}
	meta, err := readMeta(cmd, f.Meta)
	if err != nil {
		return nil, "", err
	}
	if f.Agent != "" {
		return &supervisorv1.StartAgentRequest{Cwd: cwd, Preset: f.Agent, Args: argv}, meta, nil
	}
	return &supervisorv1.StartAgentRequest{Cwd: cwd, Command: argv}, meta, nil
}

// StartSupervisor starts a supervisor that only this process uses. records reports failures of recordings.
func StartSupervisor(ctx context.Context, call *command.Call, start Starter, o host.Options, records *RecordingWarnings) (Supervisor, error) {
	o.Env, o.Presets, o.Private = os.Environ(), agentcmd.Presets(call), true
	records.Watch(&o)
	sup, err := start(ctx, o)
	if err != nil {
		return nil, err
	}
	records.Begun()
	return sup, nil
}
