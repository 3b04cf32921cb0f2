//go:build unix

package preset

import (
	"os/exec"
	"syscall"
)

// ownGroup has a command end with everything that it started, when it is given up.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
