// Package command represents one call of the program: its input and output, its environment, its exit status, and the
// behaviour that all commands share, such as the difference between wrong usage and a failure.
//
// It must not know the single commands.
package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/ownhandler"
)

// Exit statuses of acphost itself. Some commands return the status of a program: "run" returns its agent's.
const (
	StatusFailed = 1 // failure
	StatusUsage  = 2 // wrong usage
	StatusLogin  = 7 // the agent requires a login

	// Exit statuses for commands that cannot be executed, as in shells.
	StatusNotExecutable = 126
	StatusNotFound      = 127

	StatusInterrupted = 130
	StatusUnread      = 141 // as after SIGPIPE
)

// turnStatus maps stop reasons to exit statuses.
var turnStatus = map[string]int{StopEnd: 0, "refusal": 3, "max_tokens": 4, "max_turn_requests": 5, StopCancelled: 6}

// Stop reasons of a turn: the agent has finished; the turn was cancelled.
const (
	StopEnd       = "end_turn"
	StopCancelled = "cancelled"
)

// TurnStatus returns the exit status of a command for the stop reason of its turn.
func TurnStatus(stopReason string) int {
	if status, known := turnStatus[stopReason]; known {
		return status
	}
	return StatusFailed
}

// Call is one call of the program. It is not safe for concurrent use, except for reads of fields other than Status.
type Call struct {
	Stdin, Stdout, Stderr *os.File
	Env                   func(name string) string
	Version               string // version of this program
	BundlesHandlers       bool   // this program contains acphost's own handlers, as commands with their names
	Status                int    // exit status of a command that has ended without an error

	// Terminal reports whether a file is a terminal.
	Terminal func(*os.File) bool
	// Sockets returns the folders for the sockets of this user's supervisors, by an environment.
	Sockets func(env func(string) string) []string
	// FromAgent reports whether a process is controlled by an agent or a handler.
	FromAgent func(pid int) (bool, error)

	handlesSignals *atomic.Bool // see HandleSignals; created by Execute, and shared by copies of a Call
	statusFixed    *atomic.Bool // see FixStatus; created by Execute, and shared by copies of a Call
	quits          chan os.Signal
}

// Execute parses the arguments, runs the selected command below root, and returns the exit status. It prints the error
// of a command on standard error. If a signal ended the command, the status is StatusOfSignal, unless the command
// called HandleSignals or FixStatus, or has its own status above StatusFailed.
func Execute(ctx context.Context, call *Call, root *cobra.Command, args []string) int {
	call.handlesSignals, call.statusFixed, call.quits = &atomic.Bool{}, &atomic.Bool{}, make(chan os.Signal, 1)
	ctx, stop := call.withQuit(ctx)
	defer stop()
	root.SetArgs(args)
	root.SetOut(call.Stdout)
	root.SetErr(call.Stderr)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.PersistentPreRunE = rejectEmptyConfig
	root.SetUsageTemplate(root.UsageTemplate() + `{{index .Annotations "` + Sections + `"}}`)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return UsageErrorf(cmd, "%v%s", err, nearFlag(cmd, err)) })
	cmd, err, ended := call.execute(ctx, root)
	if !ended {
		return StatusOfSignal(ctx)
	}
	if usage, ok := errors.AsType[*UsageError](err); ok {
		call.Notice("%v\nSee \"%s --help\".", usage, usage.Command)
		return StatusUsage
	}
	if call.unread(err) {
		return StatusUnread
	}
	if _, ok := errors.AsType[*RejectedError](err); ok {
		if own := call.RejectAgents(cmd); own != nil && !errors.Is(own, proc.ErrUnsupported) {
			err = own // instead of the socket's text for agents
		}
	}
	status := call.Status
	if err != nil {
		call.PrintError(err)
		status = StatusFailed
	}
	if ctx.Err() != nil && (status == 0 || status == StatusFailed) && !call.handlesSignals.Load() && !call.statusFixed.Load() {
		return StatusOfSignal(ctx)
	}
	return status
}

// rejectEmptyConfig rejects an empty name of a configuration: from an unset shell variable, it would mean the defaults,
// without a policy.
func rejectEmptyConfig(cmd *cobra.Command, _ []string) error {
	if f := cmd.Flags().Lookup("config"); f != nil && f.Changed && f.Value.String() == "" {
		return UsageErrorf(cmd, "--config is empty: name a file, or leave the flag out for the default")
	}
	return nil
}

// signalGrace limits the time between a signal and the return of a command, unless HandleSignals was called.
const signalGrace = 800 * time.Millisecond

// HandleSignals declares that the command itself limits the time of its end after a signal, because it has to stop
// processes or to restore a terminal. Other commands are abandoned after signalGrace, for example if a peer does not
// answer, or if their output is not read. From then on the command handles SIGQUIT itself, or the signal has its
// default effect: a dump of goroutines. HandleSignals is safe for concurrent use.
func (c *Call) HandleSignals() {
	if c.handlesSignals != nil {
		c.handlesSignals.Store(true)
		signal.Stop(c.quits)
	}
}

// FixStatus sets the exit status of a command whose work is complete, so that a later signal does not change it. It is
// safe for concurrent use with HandleSignals.
func (c *Call) FixStatus(status int) {
	c.Status = status
	if c.statusFixed != nil {
		c.statusFixed.Store(true)
	}
}

// execute runs the command. ended is false if the context ended and the command did not return within signalGrace. It
// is still running then, and the process has to exit.
func (c *Call) execute(ctx context.Context, root *cobra.Command) (cmd *cobra.Command, err error, ended bool) {
	type result struct {
		cmd *cobra.Command
		err error
	}
	done := make(chan result, 1)
	go func() {
		cmd, err := root.ExecuteContextC(ctx)
		done <- result{cmd, err}
	}()
	select {
	case r := <-done:
		return r.cmd, r.err, true
	case <-ctx.Done():
	}
	late := time.NewTimer(signalGrace)
	defer late.Stop()
	select {
	case r := <-done:
		return r.cmd, r.err, true
	case <-late.C:
	}
	if !c.handlesSignals.Load() {
		return nil, nil, false
	}
	r := <-done
	return r.cmd, r.err, true
}

// unread reports whether a command ended because its output is not read any more, as with "| head", which is not a
// failure.
func (c *Call) unread(err error) bool {
	at, ok := errors.AsType[*fs.PathError](err)
	return ok && at.Path == c.Stdout.Name() && errors.Is(at, syscall.EPIPE)
}

// PrintError prints an error, and does not end the command.
func (c *Call) PrintError(err error) { c.Notice("%v", err) }

// RejectAgents returns an error if an agent runs the command. It is for operations that only users may perform.
func (c *Call) RejectAgents(cmd *cobra.Command) error {
	switch from, err := c.FromAgent(os.Getpid()); {
	case err != nil:
		return fmt.Errorf("%s is for people, and the caller cannot be identified: %w", cmd.CommandPath(), err)
	case from:
		return fmt.Errorf("%s is for people: run it in a terminal of your own, not through an agent or a handler", cmd.CommandPath())
	}
	return nil
}

// Executable returns the path of this program without symbolic links. Handlers are in the same folder.
func Executable() (string, error) {
	exe, err := os.Executable()
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	if err != nil {
		return "", fmt.Errorf("find acphost's own program: %w", err)
	}
	return exe, nil
}

// Programs locates acphost's own handlers: beside this program, or in it.
func (c *Call) Programs() (ownhandler.Programs, error) {
	exe, err := Executable()
	p := ownhandler.Programs{Dir: filepath.Dir(exe)}
	if c.BundlesHandlers {
		p.Self = exe
	}
	return p, err
}
