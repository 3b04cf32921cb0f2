//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"syscall"
)

// Exit codes of a command that cannot be executed, as shells have them.
const (
	statusNotFound      = 127
	statusNotExecutable = 126
)

// execInPlace becomes the command, with an environment. It returns only if it cannot.
func execInPlace(command, env []string) (status int, err error) {
	program, err := exec.LookPath(command[0])
	if err == nil {
		err = syscall.Exec(program, command, env)
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return statusNotFound, fmt.Errorf("%s: command not found", command[0])
	}
	return statusNotExecutable, fmt.Errorf("execute %s: %w", command[0], err)
}
