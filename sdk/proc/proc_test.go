package proc_test

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/acphost/acphost/sdk/proc"
)

func TestSignalNames(t *testing.T) {
	for sig, want := range map[syscall.Signal]string{
		syscall.SIGTERM: "SIGTERM", syscall.SIGKILL: "SIGKILL", syscall.SIGHUP: "SIGHUP", syscall.Signal(64): "SIG64",
	} {
		if got := proc.SignalName(sig); got != want {
			t.Errorf("SignalName(%d) = %q, want %q", sig, got, want)
		}
	}
}

func TestExitStatusMirrorsAShell(t *testing.T) {
	for script, want := range map[string]struct {
		mirror int
		words  string
	}{
		"exit 0":      {0, "exited with status 0"},
		"exit 3":      {3, "exited with status 3"},
		"exit 255":    {255, "exited with status 255"},
		"kill -9 $$":  {137, "was ended by SIGKILL"},
		"kill -15 $$": {143, "was ended by SIGTERM"},
	} {
		cmd := exec.Command("sh", "-c", script)
		_ = cmd.Run()
		got := proc.StatusOf(cmd.ProcessState)
		if got.Mirror() != want.mirror || got.String() != want.words {
			t.Errorf("%s: %d %q, want %d %q", script, got.Mirror(), got, want.mirror, want.words)
		}
	}
}
