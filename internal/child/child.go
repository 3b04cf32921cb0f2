// Package child starts commands beside somebody who reaps adopted processes (proc.ReapAdopted), and waits for them.
//
// It knows os/exec, which package proc does not: a guard is to be small, and so are the packages that it imports.
package child

import (
	"os/exec"

	"github.com/acphost/acphost/internal/proc"
)

// Start starts a command, as its Start does, and enters it among the children that somebody waits for; see proc.Started. Wait
// must follow.
func Start(cmd *exec.Cmd) error {
	return proc.EnterChild(func() (int, error) {
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		return cmd.Process.Pid, nil
	})
}

// Wait waits for a command that Start has started, as its Wait does.
func Wait(cmd *exec.Cmd) error {
	defer proc.LeaveChild(cmd.Process.Pid)
	return cmd.Wait()
}
