package testkit

import (
	"syscall"
	"testing"
	"time"
)

// TakesAtMost fails the test if f takes more than a limit of processor time. Unlike the elapsed time, this does not
// depend on the load of the machine; it includes parallel tests of the same process.
func TakesAtMost(tb testing.TB, bound time.Duration, what string, f func()) {
	tb.Helper()
	before := processorTime(tb)
	f()
	if took := processorTime(tb) - before; took > bound {
		tb.Errorf("%s takes %v of processor time, more than %v", what, took, bound)
	}
}

// processorTime returns the processor time of this process so far, in user mode and in the kernel.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		tb.Fatalf("read the processor time: %v", err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
