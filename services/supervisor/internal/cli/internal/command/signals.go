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

// StopSignals are what ends acphost in order. SIGHUP stays ignored where nohup has it ignored.
func StopSignals() []os.Signal {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// WithStopSignals returns a context that the first of the StopSignals ends, with a *SignalError as the cause. After
// that, signals have their former effect again: by default, a second one ends the process. stop must be called.
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

// StatusOfSignal is the exit status of a command that the end of its context ended: 128 and the number of the signal, or
// StatusInterrupted if it was not a signal.
func StatusOfSignal(ctx context.Context) int {
	if by, ok := errors.AsType[*SignalError](context.Cause(ctx)); ok {
		return 128 + int(by.Signal)
	}
	return StatusInterrupted
}

// maxDump bounds a dump of goroutines, in bytes.
const maxDump = 16 << 20

// Goroutines is what a Go program prints for SIGQUIT: where each goroutine is. Most who press Ctrl-\ want it to end and
// no more; it is for those who have set GOTRACEBACK, and nil for others.
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

// withQuit returns a context that SIGQUIT ends, too, with a *SignalError as the cause, until the command calls EndsItself: a person
// who presses Ctrl-\ gets no dump of goroutines. stop must be called.
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
