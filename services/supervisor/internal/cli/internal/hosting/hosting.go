// Package hosting is what the commands share that run a supervisor in this process: the flags that say how, what a session
// with an agent is opened with, what the user is told of recordings that fail, and how the supervisor ends when a signal
// comes. What a supervisor is, host knows.
package hosting

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/host"
)

// How long the end of a supervisor may take.
const (
	CloseGrace = 15 * time.Second
	QuitGrace  = 3 * time.Second // after a second signal
)

// Supervisor is a supervisor without an editor in this process. Close ends all that it runs and waits.
type Supervisor interface {
	Conn() grpc.ClientConnInterface
	Close()
}

// Starter starts a supervisor without an editor. It is host.Start, but in tests.
type Starter func(context.Context, host.Options) (*host.Supervisor, error)

// maxDump bounds a dump of goroutines, in bytes.
const maxDump = 16 << 20

// EndSignals are what ends a command that has a terminal to give back.
func EndSignals() []os.Signal { return append(command.StopSignals(), syscall.SIGQUIT) }

// RemoveSockets removes the sockets of a supervisor that is left before it has ended: nobody answers at them any more.
func RemoveSockets(sup Supervisor) {
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

// Goroutines is what a Go program prints for SIGQUIT: where each goroutine is. Most who press Ctrl-\ want it to end and
// no more; it is for those who have set GOTRACEBACK.
func Goroutines(env func(string) string) []byte {
	if level := env("GOTRACEBACK"); level == "" || level == "none" || level == "0" {
		return nil
	}
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) || len(buf) >= maxDump {
			return append(append([]byte("SIGQUIT: quit\n\n"), buf[:n]...), '\n')
		}
		buf = make([]byte, 2*len(buf))
	}
}

// Folder is the absolute path of a folder that is there; "": the current one.
func Folder(name string) (string, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s: %w", path, syscall.ENOTDIR)
	}
	return path, nil
}
