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

// Exec is the Executor of a process: it replaces the process by the command, with a whole environment, confined as an
// agent, and as another user if as is not nil. It returns only if that fails, or if files that must be unreadable are
// readable. It ignores other confinements that this system does not support, which doctor reports.
func Exec(argv, env []string, as *proc.User, walls proc.Confinement) (status int, err error) {
	walls.ChangesUser = as != nil
	// The thread that calls execve becomes the process, with its confinement.
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
