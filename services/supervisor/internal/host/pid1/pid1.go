// Package pid1 performs the duties of the first process in a container: it reaps processes that have lost their parent,
// and forwards the signals that it gets.
//
// A child, the same program executed again, does the real work. One process could not do both: if it waited for children of
// its own and also reaped strangers, it could take one for the other. The package knows processes and signals, and nothing of
// acphost.
package pid1

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/acphost/acphost/internal/proc"
)

// variable tells the child that it is the child.
const variable = "ACPHOST_UNDER_INIT"

// reapEvery is how often strangers are looked for beside when a signal says so, since signals are merged.
const reapEvery = 5 * time.Second

// Needed reports whether this process is the first one of its container, and not yet looked after.
func Needed() bool { return os.Getpid() == 1 && os.Getenv(variable) == "" }

// Run executes the command with the streams that are given, passes signals on and reaps what is orphaned. It returns when
// the command has ended, with its exit status: 128 and the signal's number if one ended it. An error says that it could not
// be started.
func Run(command []string, stdin, stdout, stderr *os.File) (int, error) {
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	defer signal.Stop(signals)
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec // it executes itself again
	cmd.Env = append(os.Environ(), variable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("start %s: %w", command[0], err)
	}
	var child atomic.Int64
	child.Store(int64(cmd.Process.Pid))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the state says more
	}()

	tick := time.NewTicker(reapEvery)
	defer tick.Stop()
	reap := func() { _, _ = proc.ReapAdopted(func(pid int) bool { return int64(pid) == child.Load() }) }
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGCHLD {
				reap()
			} else if !ours(s) {
				_ = cmd.Process.Signal(s)
			}
		case <-tick.C:
			reap()
		case <-ended:
			reap()
			return statusOf(cmd.ProcessState), nil
		}
	}
}

// ours are signals that mean this process alone: the runtime's own, and those of a pipe or a terminal of ours.
func ours(s os.Signal) bool {
	return s == syscall.SIGURG || s == syscall.SIGPIPE
}

func statusOf(state *os.ProcessState) int {
	switch s := proc.StatusOf(state); {
	case state == nil: // it could not be waited for
		return 1
	case s.Number != 0:
		return 128 + s.Number
	default:
		return s.Code
	}
}
