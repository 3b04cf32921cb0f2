//go:build unix

package audit

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fillAsChild writes until there is no room, and then makes sure that what did not fit left nothing behind, and that
// writing goes on once there is room.
func fillAsChild(file string) error {
	signal.Ignore(syscall.SIGXFSZ)
	failing := 0
	l, err := Open(Options{File: file, Failing: func(error) { failing++ }})
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.Write(record("fits")); err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	high := limit.Cur
	limit.Cur = uint64(info.Size()) + 100 // a part of a line fits
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	for range 3 {
		err := l.Write(record("does not fit"))
		if !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), "permission.audit.file") {
			return fmt.Errorf("where there is no room: got %w", err)
		}
		if now, err := os.Stat(file); err != nil || now.Size() != info.Size() {
			return fmt.Errorf("%d bytes were left behind (%w)", now.Size()-info.Size(), err)
		}
	}
	limit.Cur = high
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if failing != 3 {
		return fmt.Errorf("it was told %d times, want 3", failing)
	}
	return l.Write(record("fits again"))
}

func TestWrite_FullDiskLeavesNoTornLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	if out, err := asChild(t, "fill", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := ids(readAll(t, file, Filter{})); got != "fits fits again" {
		t.Errorf("got %q", got)
	}
}
