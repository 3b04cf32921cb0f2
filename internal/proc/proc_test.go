package proc_test

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/proc"
)

func TestSignalName_OfSignals(t *testing.T) {
	for sig, want := range map[syscall.Signal]string{
		syscall.SIGTERM: "SIGTERM", syscall.SIGKILL: "SIGKILL", syscall.SIGHUP: "SIGHUP", syscall.Signal(64): "SIG64",
	} {
		if got := proc.SignalName(sig); got != want {
			t.Errorf("SignalName(%d) = %q, want %q", sig, got, want)
		}
	}
}

func TestStatusOf_DescribesEnd(t *testing.T) {
	for script, want := range map[string]struct {
		code, signal int
		words        string
	}{
		"exit 0":      {0, 0, "exited with status 0"},
		"exit 3":      {3, 0, "exited with status 3"},
		"exit 255":    {255, 0, "exited with status 255"},
		"kill -9 $$":  {-1, 9, "was ended by SIGKILL"},
		"kill -15 $$": {-1, 15, "was ended by SIGTERM"},
	} {
		cmd := exec.Command("sh", "-c", script)
		_ = cmd.Run()
		got := proc.StatusOf(cmd.ProcessState)
		if got.Code != want.code || got.Number != want.signal || got.String() != want.words {
			t.Errorf("%s: code %d, signal %d, %q, want %d, %d, %q", script, got.Code, got.Number, got, want.code, want.signal, want.words)
		}
	}
}
