package handler

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
)

func TestCopy_IsAtomic(t *testing.T) {
	from := filepath.Join(t.TempDir(), "termd")
	folder := t.TempDir()
	for _, text := range []string{"first", "second, which replaces it"} {
		if err := os.WriteFile(from, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := copyProgram(from, folder); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(folder, "termd")
		got, err := os.ReadFile(to)
		if err != nil || string(got) != text {
			t.Errorf("copied %q, %v", got, err)
		}
		if info, err := os.Stat(to); err != nil || info.Mode() != 0o755 {
			t.Errorf("its mode is %v, %v", info.Mode(), err)
		}
	}
	if err := os.Mkdir(filepath.Join(folder, "fsd"), 0o700); err != nil {
		t.Fatal(err)
	}
	// A folder in the place of the program cannot be replaced.
	if err := os.Rename(from, filepath.Join(filepath.Dir(from), "fsd")); err != nil {
		t.Fatal(err)
	}
	if err := copyProgram(filepath.Join(filepath.Dir(from), "fsd"), folder); err == nil {
		t.Error("a folder was replaced")
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 2 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

func TestHandlerCopy_RejectsOtherPrograms(t *testing.T) {
	for _, args := range [][]string{{}, {"termd"}, {"../../bin/sh", "/tmp"}, {"sh", "/tmp"}, {"fsd", "/tmp", "x"}} {
		status, _, stderr := (&commandtest.Call{}).Run(t, New, append([]string{"handler", "copy"}, args...)...)
		if status != 2 || !strings.Contains(stderr, "(acphost, fsd, permd, termd)") {
			t.Errorf("%v: status %d, %q", args, status, stderr)
		}
	}
}
