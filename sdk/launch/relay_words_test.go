package launch

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// TestRelay_QuotesLastLinesBeforeEnd: lines that a handler wrote long before its end are not the reason of the end.
func TestRelay_QuotesLastLinesBeforeEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &outputLogger{log: slog.New(slog.DiscardHandler)}
		check := func(want string) {
			t.Helper()
			if got := l.last(); got != want {
				t.Errorf("the reason is %q, want %q", got, want)
			}
		}
		check("")
		l.line([]byte("Traceback (most recent call last):\n"), "stderr", false)
		l.line([]byte("ValueError: of one call\n"), "stderr", false)
		check("ValueError: of one call")
		time.Sleep(finalOutputWindow + time.Second)
		check("")
		l.line([]byte("panic: out of ideas\n"), "stderr", false)
		l.line([]byte("goroutine 1 [running]:\n"), "stderr", false)
		check("panic: out of ideas")
		time.Sleep(finalOutputWindow + time.Second)
		l.line([]byte("cannot listen: address in use\n"), "stderr", false)
		check("cannot listen: address in use")
		l.line([]byte("SIGSEGV: segmentation violation\n"), "stderr", false)
		l.line([]byte("gs     0x0\n"), "stderr", false)
		check("SIGSEGV: segmentation violation")
	})
}
