package chat

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/hosting"
)

// ending handles the signals for a command that has to restore a terminal and to stop processes. The first signal asks
// the command to end, and remaining processes are killed after grace. A second one, or SIGQUIT, kills them at once.
type ending struct {
	ctx    context.Context
	cancel context.CancelFunc
	first  chan os.Signal // has one element after a signal
	dump   []byte         // printed after the terminal is restored; set before first
	second chan os.Signal // closed by a second signal
	stop   chan struct{}
	done   chan struct{}
	kill   context.Context // ends when remaining processes are to be killed
	now    context.CancelFunc
}

func newEnding(ctx context.Context, grace time.Duration) *ending {
	e := &ending{first: make(chan os.Signal, 1), second: make(chan os.Signal), stop: make(chan struct{}), done: make(chan struct{})}
	e.ctx, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	e.kill, e.now = context.WithCancel(context.WithoutCancel(ctx))
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, hosting.EndSignals()...)
	// the signal arrived before
	if by, ok := errors.AsType[*command.SignalError](context.Cause(ctx)); ok && len(signals) == 0 {
		signals <- by.Signal
	}
	go func() {
		defer close(e.done)
		defer signal.Stop(signals)
		hurry := sync.OnceFunc(func() { close(e.second) })
		for n := 0; ; n++ {
			select {
			case <-e.stop:
				return
			case s := <-signals:
				if n > 0 {
					hurry()
					continue
				}
				if s == syscall.SIGQUIT {
					e.dump = command.Goroutines(os.Getenv)
					hurry()
				}
				defer time.AfterFunc(grace, hurry).Stop()
				e.first <- s
				e.cancel()
			}
		}
	}()
	return e
}

// signal returns the signal that asked for the end, or nil.
func (e *ending) signal() os.Signal {
	select {
	case s := <-e.first:
		return s
	default:
		return nil
	}
}

// await closes a supervisor, and kills its processes when the time is over.
func (e *ending) await(sup hosting.Supervisor, within time.Duration) {
	started := func() hosting.Supervisor { return sup }
	hosting.Shutdown(started, func() {}, within, e.now, e.second, func(os.Signal) bool { return true })
}

func (e *ending) close() {
	close(e.stop)
	<-e.done
	e.cancel()
	e.now()
}
