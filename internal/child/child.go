// Package child starts commands and waits for them in a process that also reaps adopted processes (proc.ReapAdopted).
//
// It imports os/exec, which package proc must not import: guard processes use proc and have to stay small.
package child

import (
	"os/exec"

	"github.com/acphost/acphost/internal/proc"
)

// Start starts a command, like exec.Cmd.Start, and registers it as a child that Wait will reap; see proc.Started. The
// caller must call Wait.
func Start(cmd *exec.Cmd) error {
	return proc.EnterChild(func() (int, error) {
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		return cmd.Process.Pid, nil
	})
}

// Wait waits for a command that Start started, like exec.Cmd.Wait.
func Wait(cmd *exec.Cmd) error {
	defer proc.LeaveChild(cmd.Process.Pid)
	return cmd.Wait()
}
