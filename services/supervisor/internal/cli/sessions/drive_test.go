package sessions

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestCancelNotice_MentionsCtrlCAfterSIGINTOnly(t *testing.T) {
	for signal, want := range map[os.Signal]bool{syscall.SIGINT: true, syscall.SIGTERM: false, syscall.SIGHUP: false} {
		if got := cancelNotice(signal); strings.Contains(got, "Ctrl-C") != want {
			t.Errorf("%v: %q, want a hint at Ctrl-C: %v", signal, got, want)
		}
	}
}
