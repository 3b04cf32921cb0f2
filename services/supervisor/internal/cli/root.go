// Package cli builds the tree of acphost's commands. Each command is a package with the command's name. Shared code is
// in internal, with a package for each subject.
package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/buildinfo"
	"github.com/acphost/acphost/internal/peer"
	"github.com/acphost/acphost/internal/rundir"
	"github.com/acphost/acphost/services/supervisor/internal/cli/agents"
	"github.com/acphost/acphost/services/supervisor/internal/cli/approvals"
	"github.com/acphost/acphost/services/supervisor/internal/cli/audit"
	"github.com/acphost/acphost/services/supervisor/internal/cli/certs"
	"github.com/acphost/acphost/services/supervisor/internal/cli/chat"
	"github.com/acphost/acphost/services/supervisor/internal/cli/config"
	"github.com/acphost/acphost/services/supervisor/internal/cli/connect"
	"github.com/acphost/acphost/services/supervisor/internal/cli/console"
	"github.com/acphost/acphost/services/supervisor/internal/cli/demo"
	"github.com/acphost/acphost/services/supervisor/internal/cli/dial"
	"github.com/acphost/acphost/services/supervisor/internal/cli/doctor"
	"github.com/acphost/acphost/services/supervisor/internal/cli/files"
	"github.com/acphost/acphost/services/supervisor/internal/cli/grants"
	"github.com/acphost/acphost/services/supervisor/internal/cli/handler"
	"github.com/acphost/acphost/services/supervisor/internal/cli/health"
	initial "github.com/acphost/acphost/services/supervisor/internal/cli/init"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/agentcmd"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	played "github.com/acphost/acphost/services/supervisor/internal/cli/internal/demo"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/hosting"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/permd"
	"github.com/acphost/acphost/services/supervisor/internal/cli/man"
	"github.com/acphost/acphost/services/supervisor/internal/cli/policy"
	"github.com/acphost/acphost/services/supervisor/internal/cli/prompt"
	"github.com/acphost/acphost/services/supervisor/internal/cli/ps"
	"github.com/acphost/acphost/services/supervisor/internal/cli/run"
	"github.com/acphost/acphost/services/supervisor/internal/cli/serve"
	"github.com/acphost/acphost/services/supervisor/internal/cli/sessions"
	"github.com/acphost/acphost/services/supervisor/internal/cli/setup"
	"github.com/acphost/acphost/services/supervisor/internal/cli/terminals"
	"github.com/acphost/acphost/services/supervisor/internal/cli/tokens"
	"github.com/acphost/acphost/services/supervisor/internal/cli/top"
	"github.com/acphost/acphost/services/supervisor/internal/cli/version"
	"github.com/acphost/acphost/services/supervisor/internal/host"
)

// programs are the functions that commands call. Tests replace them.
type programs struct {
	Host      func(context.Context, host.Options) int // "run": a supervisor between an agent and an editor
	Supervise hosting.Starter                         // a supervisor without an editor
	Demo      func(context.Context, played.Options) int
	Permd     permd.Starter
	Exec      agentcmd.Executor
}

// Run parses the arguments, runs the selected command and returns the exit status. build is the build's description of
// this program, or empty. carries reports that the program contains acphost's own handlers, as commands with their
// names.
func Run(ctx context.Context, stdin, stdout, stderr *os.File, build string, carries bool, args []string) int {
	call := &command.Call{
		Stdin: stdin, Stdout: stdout, Stderr: stderr, Env: os.Getenv, Version: buildinfo.Read(build).Version, BundlesHandlers: carries,
		Terminal: output.IsTerminal, Sockets: rundir.Dirs, FromAgent: peer.FromAgent,
	}
	return command.Execute(ctx, call, newRoot(call, programs{
		Host: host.Run, Supervise: host.Start, Demo: played.Run, Permd: permd.Own(call), Exec: agentcmd.Exec,
	}), args)
}

// newRoot returns the tree of commands.
func newRoot(call *command.Call, p programs) *cobra.Command {
	root := command.Group("acphost", "Host coding agents that speak the Agent Client Protocol",
		`acphost runs coding agents that speak the Agent Client Protocol (ACP), between an
agent and its client. A handler, a separate program that you can replace, answers
each request of the agent to read or write a file, to run a command, or for a
permission.

In an editor's settings, put "acphost run --" in front of the agent's command:

    gemini --acp    becomes    acphost run -- gemini --acp

Without an editor, "acphost prompt" sends one prompt to an agent, "acphost chat" is
a session on this terminal, and "acphost serve" runs agents for programs, over gRPC.

"acphost demo" shows one turn of a scripted agent.`,
		prompt.New(call, p.Supervise), chat.New(call, p.Supervise, sessions.Export),
		run.New(call, p.Host, p.Exec), demo.New(call, p.Demo), config.New(call), ps.New(call), handler.New(call), policy.New(call, p.Permd),
		version.New(call), setup.New(call), initial.New(call, p.Permd),
		grants.New(call), audit.New(call), sessions.New(call), serve.New(call, p.Supervise),
		agents.New(call, p.Exec), doctor.New(call, p.Permd), man.New(call),
		approvals.New(call), terminals.New(call), top.New(call), files.New(call), health.New(call), certs.New(call), dial.New(call), tokens.New(call), connect.New(call), console.New(call))
	command.AddExitStatus(root)
	root.Version = call.Version
	root.SetVersionTemplate(version.Text(call.Version))
	return root
}

// WithStopSignals returns a context that ends with the first signal that ends acphost in order. A second one ends the
// process.
func WithStopSignals(ctx context.Context) (context.Context, func()) {
	return command.WithStopSignals(ctx)
}
