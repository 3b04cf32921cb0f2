// Package hosting provides the parts that commands with their own supervisor share: the flags, the parameters of a
// session, warnings about failed recordings, and the shutdown after a signal. Package host implements a supervisor.
package hosting

import (
	"context"
	"os"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/panics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/host"
)

// CloseGrace limits the time to close a supervisor if it is not ended by a signal.
const CloseGrace = 15 * time.Second

// Supervisor is a supervisor without an editor in this process. Close ends all agents and handlers, and waits for them.
type Supervisor interface {
	Conn() grpc.ClientConnInterface
	Close()
}

// Starter starts a supervisor without an editor. Outside of tests it is host.Start.
type Starter func(context.Context, host.Options) (*host.Supervisor, error)

// EndSignals returns the signals that end a command which has to restore a terminal.
func EndSignals() []os.Signal { return append(command.StopSignals(), syscall.SIGQUIT) }

// Shutdown calls before and then closes a supervisor, which may be nil then, and waits for both. When a signal for
// which hurries returns true arrives, or the time within is over, it calls kill, which kills the supervisor's processes
// (host.Options.Kill), and waits for killTime more. After that it removes the sockets of a supervisor that has not
// ended, because it will not answer any more; remaining processes end when this process has ended.
func Shutdown(sup func() Supervisor, before func(), within time.Duration, kill func(), signals <-chan os.Signal, hurries func(os.Signal) bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer panics.Recover(nil, "ending the supervisor")
		before()
		if s := sup(); s != nil {
			s.Close()
		}
	}()
	late := time.After(within)
	for killed := false; ; {
		select {
		case <-done:
			return
		case s := <-signals:
			if killed || !hurries(s) {
				continue
			}
		case <-late:
			if killed {
				removeSockets(sup())
				return
			}
		}
		kill()
		killed, late = true, time.After(killTime)
	}
}

func removeSockets(sup Supervisor) {
	at, ok := sup.(interface{ Addresses() []string })
	if !ok {
		return
	}
	for _, address := range at.Addresses() {
		address, _, _ = strings.Cut(address, " (")
		if path, ok := strings.CutPrefix(address, "unix://"); ok {
			_ = os.Remove(path)
		}
	}
}

// Status returns the exit status of a command for the kind of an agent's error.
func Status(kind supervisorv1.ErrorKind) int {
	switch kind {
	case supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED:
		return command.StatusLogin
	case supervisorv1.ErrorKind_ERROR_KIND_COMMAND_NOT_FOUND:
		return command.StatusNotFound
	case supervisorv1.ErrorKind_ERROR_KIND_SPAWN_FAILED:
		return command.StatusNotExecutable
	}
	return command.StatusFailed
}
