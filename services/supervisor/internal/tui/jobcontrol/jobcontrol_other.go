//go:build !linux && !darwin

package jobcontrol

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/acphost/acphost/internal/child"
)

// Signals returns nil, because this system has no job control.
func Signals() []os.Signal { return nil }

// Asks returns false.
func Asks(os.Signal) bool { return false }

// Continues returns false.
func Continues(os.Signal) bool { return false }

// Suspend does nothing.
func Suspend() {}

// Quit does nothing.
func Quit() {}

// Stop returns false.
func Stop() bool { return false }

// Foreground returns true.
func Foreground(*os.File) bool { return true }

// Await returns nil at once.
func Await(context.Context, *os.File) error { return nil }

// Borrower runs a command that uses the terminal.
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

// Suspend does nothing.
func (*Borrower) Suspend() {}
