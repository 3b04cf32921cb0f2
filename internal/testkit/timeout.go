package testkit

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// baseTimeout is the timeout of a test on an idle machine. It is generous: a test that passes does not wait for it.
const baseTimeout = 60 * time.Second

// maxTimeoutFactor limits how much load extends a timeout, so that a test that hangs still ends.
const maxTimeoutFactor = 10

// Timeout returns how long a test waits for an expected event: one minute on an idle machine, and proportionally more
// on a busy one, up to ten minutes. Every timeout of a test must be derived from it, because a fixed one fails by
// chance on a busy machine. It reads the load at each call. Safe for concurrent use.
func Timeout() time.Duration { return Scale(baseTimeout) }

// Scale returns a duration, extended by the machine's load like Timeout: unchanged on an idle machine, up to ten times
// as long on a busy one. It is for a limit that has to be shorter than a timeout of the product. Safe for concurrent
// use.
func Scale(d time.Duration) time.Duration { return scaleAt(d, loadAverage(), runtime.NumCPU()) }

// scaleAt returns the duration for a number of runnable processes on a number of processors.
func scaleAt(d time.Duration, load float64, cpus int) time.Duration {
	factor := min(1+load/float64(cpus), maxTimeoutFactor)
	return time.Duration(factor * float64(d))
}

// After returns a channel that receives when Timeout has passed, for a select beside the channel that the test waits
// for.
func After() <-chan time.Time { return time.After(Timeout()) }

// Context returns a context that ends with the test, or when Timeout has passed.
func Context(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), Timeout())
	tb.Cleanup(cancel)
	return ctx
}

// expired reports whether a wait that began at the given time has passed the timeout. The load is read only when the
// base timeout has passed, so that it can be called often.
func expired(begun time.Time) bool {
	waited := time.Since(begun)
	return waited > baseTimeout && waited > Timeout()
}

// loadFile has Linux's load averages, see proc_loadavg(5).
const loadFile = "/proc/loadavg"

// loadAverage returns the number of runnable processes, averaged over the last minute; 0 if the system does not have
// Linux's file.
func loadAverage() float64 {
	text, err := os.ReadFile(loadFile)
	if err != nil {
		return 0
	}
	return parseLoad(string(text))
}

// parseLoad parses the content of loadFile. It returns the larger of the average over one minute and the current number
// of runnable processes, which the average follows slowly; 0 for other text.
func parseLoad(text string) float64 {
	fields := strings.Fields(text)
	if len(fields) < 4 {
		return 0
	}
	average, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		return 0
	}
	runnable, _, _ := strings.Cut(fields[3], "/")
	now, err := strconv.ParseFloat(runnable, 64)
	if err != nil {
		return 0
	}
	return max(average, now)
}
