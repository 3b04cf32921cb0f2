//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/testkit/profile"
)

// container ERRNO CALLS COMMAND... executes a command as a container does whose profile refuses the calls, of which
// commas separate the names.
func container(args []string) error {
	errno, ok := map[string]unix.Errno{"EPERM": unix.EPERM, "ENOSYS": unix.ENOSYS}[args[0]]
	if !ok {
		return fmt.Errorf("containers do not refuse calls with %s", args[0])
	}
	if err := profile.Enter(errno, strings.Split(args[1], ",")...); err != nil {
		return err
	}
	return unix.Exec(args[2], args[2:], os.Environ())
}
