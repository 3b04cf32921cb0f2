//go:build unix

package agentcmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"syscall"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
)

// Exec is the Executor of a process: it becomes the command, with a whole environment, behind the walls that an agent has, and as another user if one is
// given. It returns only if it cannot, or if files that must be unreadable are not. Which other walls cannot be had here is for doctor to say.
func Exec(argv, env []string, as *proc.User, walls proc.Confinement) (status int, err error) {
	walls.ChangesUser = as != nil
	// The thread that executes a program is the process from then on, with its walls.
	err = proc.Confine(walls, func(applied proc.Restrictions) error {
		if err := applied.CheckUnreadable(walls); err != nil {
			return err
		}
		if as != nil {
			if err := as.Become(); err != nil {
				return err
			}
		}
		program, err := exec.LookPath(argv[0])
		if err != nil {
			return err
		}
		return syscall.Exec(program, argv, env)
	})
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return command.StatusNotFound, fmt.Errorf("%s: command not found", argv[0])
	}
	return command.StatusNotExecutable, fmt.Errorf("execute %s: %w", argv[0], err)
}
