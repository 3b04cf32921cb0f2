// Package command represents one call of the program: its input and output, its environment, its exit status, and the
// behaviour that all commands share, such as the difference between wrong use and a failure.
//
// It knows no command.
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
	"github.com/acphost/acphost/services/supervisor/internal/ownhandler"
)

// Exit codes of acphost's own. What runs under it has its own: "run" mirrors its agent's.
const (
	StatusFailed = 1 // it did not work
	StatusUsage  = 2 // it was called wrongly
	StatusLogin  = 7 // somebody has to log in to the agent first

	// Of a command that cannot be executed, as shells have them.
	StatusNotExecutable = 126
	StatusNotFound      = 127

	StatusInterrupted = 130
	StatusUnread      = 141 // as of those that SIGPIPE ends
)

// turnStatus is the exit status of a turn, by why it ended.
var turnStatus = map[string]int{StopEnd: 0, "refusal": 3, "max_tokens": 4, "max_turn_requests": 5, StopCancelled: 6}

// Why a turn ended: the agent had nothing more to do; it was cancelled.
const (
	StopEnd       = "end_turn"
	StopCancelled = "cancelled"
)

// TurnStatus is the exit status of a command that gave an agent a turn, by why that ended.
func TurnStatus(stopReason string) int {
	if status, known := turnStatus[stopReason]; known {
		return status
	}
	return StatusFailed
}

// Call is one call of the program. It is not safe for concurrent use, but for reading what is not Status.
type Call struct {
	Stdin, Stdout, Stderr *os.File
	Env                   func(name string) string
	Version               string // of this program
	Carries               bool   // this program has acphost's own handlers in it, as commands of their names
	Status                int    // of a command that ran; a command that returns an error has none

	// Terminal reports whether a file is a terminal.
	Terminal func(*os.File) bool
	// Sockets are the folders in which supervisors of this user may have their sockets, by an environment.
	Sockets func(env func(string) string) []string
	// FromAgent reports whether a process does what an agent or a handler says.
	FromAgent func(pid int) (bool, error)

	endsItself *atomic.Bool // see EndsItself; made by Execute, and shared by copies of a Call
	settled    *atomic.Bool // see Settle; made by Execute, and shared by copies of a Call
	quits      chan os.Signal
}

// Execute parses the arguments, runs the command of the tree below root that they name, and returns the exit status. It
// says on standard error why a command failed. The status of a command that a signal ended is StatusOfSignal, unless the command
// called EndsItself or Settle, or has a status of its own above StatusFailed.
func Execute(ctx context.Context, call *Call, root *cobra.Command, args []string) int {
	call.endsItself, call.settled, call.quits = &atomic.Bool{}, &atomic.Bool{}, make(chan os.Signal, 1)
	ctx, stop := call.withQuit(ctx)
	defer stop()
	root.SetArgs(args)
	root.SetOut(call.Stdout)
	root.SetErr(call.Stderr)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.PersistentPreRunE = refuseEmptyConfig
	root.SetUsageTemplate(root.UsageTemplate() + `{{index .Annotations "` + Sections + `"}}`)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return WrongUse(cmd, "%v%s", err, nearFlag(cmd, err)) })
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
	if _, ok := errors.AsType[*RefusedError](err); ok {
		if own := call.RefuseAgents(cmd); own != nil && !errors.Is(own, proc.ErrUnsupported) {
			err = own // rather than what the socket says that agents are left
		}
	}
	status := call.Status
	if err != nil {
		call.Complain(err)
		status = StatusFailed
	}
	if ctx.Err() != nil && (status == 0 || status == StatusFailed) && !call.endsItself.Load() && !call.settled.Load() {
		return StatusOfSignal(ctx)
	}
	return status
}

// refuseEmptyConfig refuses an empty name of a configuration: from a variable of a shell that is not set, it would mean the defaults,
// without a policy.
func refuseEmptyConfig(cmd *cobra.Command, _ []string) error {
	if f := cmd.Flags().Lookup("config"); f != nil && f.Changed && f.Value.String() == "" {
		return WrongUse(cmd, "--config is empty: name a file, or leave the flag out for the default")
	}
	return nil
}

// signalGrace is how long a command may take to return after a signal, unless EndsItself was called.
const signalGrace = 800 * time.Millisecond

// EndsItself says that the command bounds its own end after a signal, since it has processes to stop or a terminal to restore.
// Other commands are left after signalGrace, whatever they wait for: a peer that does not answer, or output that nothing reads.
// From then on SIGQUIT is the command's, too, or has its usual effect: a dump of goroutines. It is safe for concurrent use.
func (c *Call) EndsItself() {
	if c.endsItself != nil {
		c.endsItself.Store(true)
		signal.Stop(c.quits)
	}
}

// Settle sets the exit status to that of an end which a signal does not change: what was asked for is done. It is safe for
// concurrent use with EndsItself.
func (c *Call) Settle(status int) {
	c.Status = status
	if c.settled != nil {
		c.settled.Store(true)
	}
}

// execute runs the command. ended is false if the context ended and the command did not return within signalGrace: it still
// runs then, and the process has to exit.
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
	if !c.endsItself.Load() {
		return nil, nil, false
	}
	r := <-done
	return r.cmd, r.err, true
}

// unread reports whether a command ended since nobody reads what it prints, as behind "| head": that is no failure of its.
func (c *Call) unread(err error) bool {
	at, ok := errors.AsType[*fs.PathError](err)
	return ok && at.Path == c.Stdout.Name() && errors.Is(at, syscall.EPIPE)
}

// Complain prints an error that does not end the command the usual way.
func (c *Call) Complain(err error) { c.Notice("%v", err) }

// RefuseAgents is for what only a person may do: an agent that runs acphost is told no.
func (c *Call) RefuseAgents(cmd *cobra.Command) error {
	switch from, err := c.FromAgent(os.Getpid()); {
	case err != nil:
		return fmt.Errorf("%s is for people, and who asks cannot be told: %w", cmd.CommandPath(), err)
	case from:
		return fmt.Errorf("%s is for people: run it in a terminal of your own, not through an agent or a handler", cmd.CommandPath())
	}
	return nil
}

// Executable returns the program's own file, symbolic links resolved: handlers stand next to it.
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

// Programs says where acphost's own handlers are: next to this program, or in it.
func (c *Call) Programs() (ownhandler.Programs, error) {
	exe, err := Executable()
	p := ownhandler.Programs{Dir: filepath.Dir(exe)}
	if c.Carries {
		p.Self = exe
	}
	return p, err
}
