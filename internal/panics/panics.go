// Package panics recovers from panics, so that a defect in the handling of one request, session or connection does not
// end the process and everything else that it serves. A recovered panic is logged at ERROR with its stack, and becomes
// an *Error, which peers may read: it names the failed operation without the value of the panic, which may contain
// secrets.
//
// The caller decides what the panic ends: it answers the request with the error, or closes the session or connection,
// whose state may be inconsistent. A mutex that is held where a panic may happen is unlocked by defer.
//
// Runtime failures that no program can recover from (concurrent map writes, stack overflow, exhausted memory) still end
// the process. The package knows nothing about gRPC or JSON-RPC; packages grpcpanics and httppanics support servers.
package panics

import (
	"context"
	"log/slog"
	"runtime/debug"
)

// Error is a panic that was recovered, and logged.
type Error struct {
	// Doing is the operation that panicked, for example "reading the agent's messages".
	Doing string
}

// Error implements error.
func (e *Error) Error() string {
	return "internal error while " + e.Doing + ": this is a defect; the log of the process that reports it has the stack"
}

// Recover logs a panic of the deferring function and then calls each of then, in order, with the panic as an error.
// Without a panic it does nothing. It must be deferred itself:
//
//	defer panics.Recover(log, "serving the connection", func(err error) { conn.Close() })
//
// A nil logger is slog's default logger. A panic of one of then is recovered and logged too, and the others still run.
// Safe for concurrent use.
func Recover(log *slog.Logger, doing string, then ...func(error)) {
	if p := recover(); p != nil {
		Report(log, doing, p, then...)
	}
}

// Guard returns f with its panics recovered as by Recover. It is meant for functions that run in a goroutine or by a
// timer:
//
//	wg.Go(panics.Guard(log, "writing the journal", j.write, j.fail))
func Guard(log *slog.Logger, doing string, f func(), then ...func(error)) func() {
	return func() {
		defer Recover(log, doing, then...)
		f()
	}
}

// Catch calls f and returns its error, or an *Error if it panics.
func Catch(log *slog.Logger, doing string, f func() error) (err error) {
	defer Recover(log, doing, func(p error) { err = p })
	return f()
}

// Report does the same as Recover for a value that the caller has recovered. Call it in the deferred function that
// recovered it, where the stack is still that of the panic.
func Report(log *slog.Logger, doing string, value any, then ...func(error)) {
	if log == nil {
		log = slog.Default()
	}
	stack := string(debug.Stack())
	log.LogAttrs(context.Background(), slog.LevelError, "recovered from a panic; what was served by it ends",
		slog.String("doing", doing), slog.Any("panic", value), slog.String("stack", stack))
	err := &Error{Doing: doing}
	for _, f := range then {
		Guard(log, doing+", after a panic", func() { f(err) })()
	}
}
