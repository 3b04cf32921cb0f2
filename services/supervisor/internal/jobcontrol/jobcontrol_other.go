//go:build !linux && !darwin

package jobcontrol

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/acphost/acphost/internal/child"
)

// Signals are none: there are no jobs here.
func Signals() []os.Signal { return nil }

// Asks is false here.
func Asks(os.Signal) bool { return false }

// Continues is false here.
func Continues(os.Signal) bool { return false }

// Suspend does nothing here.
func Suspend() {}

// Quit does nothing here.
func Quit() {}

// Stop is false here.
func Stop() bool { return false }

// Foreground is true here.
func Foreground(*os.File) bool { return true }

// Await returns at once here.
func Await(context.Context, *os.File) error { return nil }

// Borrower is a command that has the terminal while it runs.
type Borrower struct{}

// Run runs a command to its end. If the context ends, the command is killed.
func (*Borrower) Run(ctx context.Context, _ *os.File, cmd *exec.Cmd, _ func() bool) (Ended, error) {
	if err := child.Start(cmd); err != nil {
		return Ended{}, err
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	err := child.Wait(cmd)
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return Ended{Code: exit.ExitCode()}, nil
	}
	return Ended{}, err
}

// Suspend does nothing here.
func (*Borrower) Suspend() {}
