//go:build unix

package chat

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// apart starts a command in a new session, so that it cannot access the terminal.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// endGroup sends a signal to the process group of a command that was not reaped yet.
func endGroup(cmd *exec.Cmd, atOnce bool) {
	s := syscall.SIGTERM
	if atOnce {
		s = syscall.SIGKILL
	}
	_ = syscall.Kill(-cmd.Process.Pid, s)
}

// endOf returns the event for the end of a command.
func endOf(state *os.ProcessState) *supervisorv1.WatchOutputResponse {
	end := &supervisorv1.WatchOutputResponse{Ended: true}
	if state == nil {
		return end
	}
	if s, ok := state.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		end.Signal = unix.SignalName(s.Signal())
		return end
	}
	code := uint32(state.ExitCode())
	end.ExitCode = &code
	return end
}
