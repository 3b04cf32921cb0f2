package proc_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
)

func TestEnd_LeavesNoProcess(t *testing.T) {
	for name, script := range map[string]string{
		"a process that ignores SIGTERM": `trap '' TERM; echo ready; while :; do sleep 1000; done`,
		"a stopped process":              `sh -c 'kill -STOP $$; sleep 1000' & until grep -q 'State:.T' /proc/$!/status; do :; done; echo ready; wait`,
		"one that forks on SIGTERM":      `trap 'setsid sleep 1000 & setsid sleep 1000 &' TERM; echo ready; while :; do sleep 1000 & wait; done`,
		"sessions within sessions":       `setsid sh -c 'setsid sh -c "setsid sleep 1000 & sleep 1000" & sleep 1000' & echo ready; exec sleep 1000`,
		"forty children":                 `for i in 1 2 3 4 5 6 7 8; do (sleep 1000 & sleep 1000 & sleep 1000 & sleep 1000 & sleep 1000) & done; echo ready; wait`,
	} {
		t.Run(name, func(t *testing.T) {
			root := under(t, script)
			list := func() ([]int, error) { return proc.Descendants(root) }
			ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout())
			defer cancel()
			if err := proc.End(ctx, list, 100*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			if left, err := list(); err != nil || len(left) != 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

func TestEnd_WaitsForGracefulExit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "said")
	root := under(t, `trap 'echo goodbye >`+file+`; exit 0' TERM; echo ready; while :; do sleep 1000 & wait; done`)
	if err := proc.End(t.Context(), func() ([]int, error) { return proc.Descendants(root) }, time.Minute); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(content)) != "goodbye" {
		t.Errorf("the process printed %q, %v, want goodbye", content, err)
	}
}

func TestEnd_ReportsRemainingProcessesOnTimeout(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStillThere)
	err := proc.End(ctx, func() ([]int, error) { return []int{cmd.Process.Pid}, nil }, time.Hour)
	if !errors.Is(err, errStillThere) {
		t.Errorf("error = %v, want the context's cause", err)
	}
}

func TestEnd_SparesInitAndItself(t *testing.T) {
	for _, pid := range []int{1, 0, -1, os.Getpid()} {
		if err := proc.End(t.Context(), func() ([]int, error) { return []int{pid}, nil }, 0); err == nil {
			t.Errorf("End of process %d: no error", pid)
		}
	}
}

func TestEnd_SparesReusedPID(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	calls := 0
	// The pid was listed for a process that has ended since, and belongs to an unrelated process now.
	err := proc.End(t.Context(), func() ([]int, error) {
		if calls++; calls == 1 {
			return []int{cmd.Process.Pid}, nil
		}
		return nil, nil
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the stranger was hit: %v", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
