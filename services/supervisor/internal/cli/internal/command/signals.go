package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/acphost/acphost/internal/panics"
)

// SignalError is the cause of a context that a signal ended.
type SignalError struct{ Signal syscall.Signal }

func (e *SignalError) Error() string { return fmt.Sprintf("%v (signal %d)", e.Signal, int(e.Signal)) }

// StopSignals returns the signals that end acphost in order. SIGHUP remains ignored under nohup.
func StopSignals() []os.Signal {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// WithStopSignals returns a context that the first of the StopSignals ends, with a *SignalError as the cause.
// Afterwards signals have their previous effect: by default, a second one ends the process. The caller must call stop.
func WithStopSignals(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, StopSignals()...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer signal.Stop(signals)
		defer panics.Recover(nil, "waiting for a signal", cancel)
		select {
		case s := <-signals:
			number, _ := s.(syscall.Signal)
			cancel(&SignalError{number})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

// StatusOfSignal returns the exit status of a command whose context has ended: 128 and the number of the signal, or
// StatusInterrupted if the cause was not a signal.
func StatusOfSignal(ctx context.Context) int {
	if by, ok := errors.AsType[*SignalError](context.Cause(ctx)); ok {
		return 128 + int(by.Signal)
	}
	return StatusInterrupted
}

// maxDump limits the bytes of a dump of goroutines.
const maxDump = 16 << 20

// Goroutines returns the dump that a Go program prints for SIGQUIT. Most users who press Ctrl-\ only want to end the
// program, so it returns nil unless GOTRACEBACK is set.
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

// withQuit returns a context that SIGQUIT also ends, with a *SignalError as the cause, until the command calls
// HandleSignals, so that Ctrl-\ prints no dump of goroutines. The caller must call stop.
func (c *Call) withQuit(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signal.Notify(c.quits, syscall.SIGQUIT)
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer panics.Recover(nil, "waiting for SIGQUIT", cancel)
		select {
		case <-c.quits:
			_, _ = c.Stderr.Write(Goroutines(c.Env))
			cancel(&SignalError{syscall.SIGQUIT})
		case <-over:
		}
	}()
	return ctx, func() { signal.Stop(c.quits); close(over); <-done; cancel(nil) }
}
