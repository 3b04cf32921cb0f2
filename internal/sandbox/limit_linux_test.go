//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/proc"
)

// sleepers is a shell command that starts n processes and waits for them.
func sleepers(n int) string {
	return fmt.Sprintf("i=0; while [ $i -lt %d ]; do sleep 300 & i=$((i+1)); done; wait", n)
}

func TestMaxProcesses_EndsMoreProcesses(t *testing.T) {
	y := newYard(t)
	mark := fmt.Sprintf("SANDBOX_TEST_LIMIT=%d", os.Getpid())
	y.flags = []string{"--max-processes", "40"}
	cmd := y.confined(t, "sh", "-c", sleepers(150))
	cmd.Env = append(cmd.Env, mark)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if err == nil || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Errorf("got %v, want a sandbox that ends as its command was ended, by SIGKILL", err)
	}
	if want := "more than 40 processes at the same time"; !strings.Contains(stderr.String(), want) {
		t.Errorf("got %q on standard error, want %q", &stderr, want)
	}
	if left, err := proc.WithEnviron(mark); err != nil || len(left) > 0 {
		t.Errorf("got processes %v, %v left, want none", left, err)
	}
}

func TestMaxProcesses_AllowsFewer(t *testing.T) {
	y := newYard(t)
	y.flags = []string{"--max-processes", "40"}
	// Longer than the time between two counts.
	out := run(t, y.confined(t, "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 2.5 & done; wait; echo done"))
	if out != "done" {
		t.Errorf("got %q, want a command that runs to its end", out)
	}
}

func TestForbidCoreFiles(t *testing.T) {
	y := newYard(t)
	if got := run(t, y.confined(t, "sh", "-c", "ulimit -Hc")); got != "0" {
		t.Errorf("got a maximum size of core files of %s, want 0", got)
	}
	want := run(t, exec.Command("sh", "-c", "ulimit -Hc"))
	y.flags = []string{"--observe"}
	if got := run(t, y.confined(t, "sh", "-c", "ulimit -Hc")); got != want {
		t.Errorf("with --observe: got a maximum size of core files of %s, want the unchanged %s", got, want)
	}
}
