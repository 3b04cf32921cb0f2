package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes of acphost's own. What runs under it has its own: "run" mirrors its agent's.
const (
	statusFailed = 1 // it did not work
	statusUsage  = 2 // it was called wrongly
)

// app is one call of the program.
type app struct {
	stdin, stdout, stderr *os.File
	env                   func(string) string
	programs              programs
	status                int // of a command that ran
}

// run parses the arguments, runs the command and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if usage, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintf(a.stderr, "acphost: %v\nSee \"%s --help\".\n", usage, usage.command)
		return statusUsage
	}
	if a.unread(err) {
		return statusUnread
	}
	if err != nil {
		fmt.Fprintf(a.stderr, "acphost: %v\n", err)
		return statusFailed
	}
	return a.status
}

// unread tells whether a command ended since nobody reads what it prints, as behind "| head": that is no failure of its.
func (a *app) unread(err error) bool {
	at, ok := errors.AsType[*fs.PathError](err)
	return ok && at.Path == a.stdout.Name() && errors.Is(at, syscall.EPIPE)
}

// usageError is a mistake in how the program was called, not in what it then did.
type usageError struct {
	command string // the command's path: "acphost run"
	message string
}

func (e *usageError) Error() string { return e.message }

func wrongUse(cmd *cobra.Command, format string, args ...any) error {
	return &usageError{command: cmd.CommandPath(), message: fmt.Sprintf(format, args...)}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "acphost",
		Short: "Host coding agents that speak the Agent Client Protocol",
		Long: `acphost hosts coding agents that speak the Agent Client Protocol (ACP) and stands
between an agent and everything that it can touch: each file it reads or writes,
each command it runs and each permission it asks for is answered by a separate
handler, a program that you can replace.

In an editor's settings, put "acphost run --" in front of the agent's command:

    gemini --acp    becomes    acphost run -- gemini --acp

Without an editor, "acphost prompt" gives an agent one prompt, "acphost chat" holds a
session on this terminal, and "acphost serve" runs agents for programs, over gRPC.

"acphost demo" plays one turn of a scripted agent and shows what happens.`,
		Args:          commandNeeded,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Version:       buildVersion(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("acphost {{.Version}}\n")
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return wrongUse(cmd, "%v", err) })
	root.AddCommand(a.promptCommand(), a.chatCommand())
	root.AddCommand(a.runCommand(), a.demoCommand(), a.configCommand(), a.psCommand(), a.handlerCommand(), a.policyCommand(), a.versionCommand(), a.guardCommand())
	root.AddCommand(a.grantsCommand(), a.auditCommand(), a.sessionsCommand(), a.serveCommand())
	root.AddCommand(a.agentsCommand(), a.doctorCommand(), a.manCommand())
	root.AddCommand(a.approvalsCommand(), a.terminalsCommand(), a.healthCommand(), a.certsCommand())
	return root
}

// commandNeeded is for a command that only holds others: it takes no arguments of its own.
func commandNeeded(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return wrongUse(cmd, "there is no command %q", args[0])
	}
	return nil
}

// noArguments is for a command that takes flags only.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return wrongUse(cmd, "%s takes no argument, got %q", cmd.Name(), args[0])
	}
	return nil
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(a.stdout, "acphost %s %s %s/%s\n", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// guardCommand is how acphost runs itself between supervisor and agent. Nobody else calls it, so its arguments are not
// parsed here.
func (a *app) guardCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "guard",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			a.status = a.programs.guard(args)
			return nil
		},
	}
}

// version is set by the build: -ldflags "-X main.version=…".
var version string

// buildVersion is the version that the build set, else what the Go command noted when it built the program: the
// module's version, or the commit.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	commit, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = "+" + s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = ".changed"
		}
	}
	return "devel" + commit + changed
}

// executable returns the program's own file, symbolic links resolved: handlers stand next to it.
func executable() (string, error) {
	exe, err := os.Executable()
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	if err != nil {
		return "", fmt.Errorf("find acphost's own program: %w", err)
	}
	return exe, nil
}
