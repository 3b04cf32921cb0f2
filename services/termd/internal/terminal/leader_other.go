//go:build !linux

package terminal

import (
	"errors"
	"os"
	"syscall"

	"github.com/acphost/acphost/internal/proc"
)

// leader is the command itself.
type leader struct{ pid int }

func newLeader(pid int, _ *os.File) *leader { return &leader{pid: pid} }

// started has nothing to wait for where there is no sandbox.
func (l *leader) started() error { return nil }

// wait waits for the end of the command, on a thread of its own.
func (l *leader) wait() proc.ExitStatus {
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(l.pid, &ws, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return proc.ExitStatus{Code: 255}
		case ws.Signaled():
			return proc.ExitStatus{Code: -1, Signal: proc.SignalName(ws.Signal()), Number: int(ws.Signal())}
		}
		return proc.ExitStatus{Code: ws.ExitStatus()}
	}
}

func (l *leader) reap() {}
