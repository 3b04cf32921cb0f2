//go:build !unix

package chat

import (
	"os"
	"os/exec"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func apart(*exec.Cmd) {}

func endGroup(cmd *exec.Cmd, _ bool) { _ = cmd.Process.Kill() }

func endOf(state *os.ProcessState) *supervisorv1.WatchOutputResponse {
	end := &supervisorv1.WatchOutputResponse{Ended: true}
	if state != nil {
		code := uint32(state.ExitCode())
		end.ExitCode = &code
	}
	return end
}
