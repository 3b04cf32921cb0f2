//go:build !linux

package terminal

import (
	"errors"
	"os"
	"syscall"

	"github.com/acphost/acphost/internal/proc"
)

// leader is the process of the command.
type leader struct{ pid int }

func newLeader(pid int, _ *os.File) *leader { return &leader{pid: pid} }

// started returns at once: there is no sandbox here.
func (l *leader) started() error { return nil }

// wait waits for the end of the command, which blocks a thread.
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
