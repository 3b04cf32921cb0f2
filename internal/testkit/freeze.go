package testkit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// Freeze stops a process with SIGSTOP, and returns when all of its threads are stopped: each stops some time after the
// signal was sent, and may answer a call until then. Without /proc, Freeze does not wait. SIGCONT resumes the process.
func Freeze(tb testing.TB, pid int) {
	tb.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		tb.Fatalf("SIGSTOP to %d: %v", pid, err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	Eventually(tb, fmt.Sprintf("all threads of %d are stopped", pid), func() bool { return frozen(pid) })
}

// frozen reports whether all threads of a process are stopped.
func frozen(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, file := range threads {
		stat, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread has ended
		}
		_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
		if err != nil || !bytes.HasPrefix(state, []byte("T")) {
			return false
		}
	}
	return true
}
