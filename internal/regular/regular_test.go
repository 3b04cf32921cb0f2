//go:build unix

package regular_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/regular"
)

func TestRead_AcceptsShortRegularFiles(t *testing.T) {
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.WriteFile(file, []byte("four"), 0o600), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	if data, err := regular.Read(file, 4); string(data) != "four" || err != nil {
		t.Errorf("got %q, %v", data, err)
	}
	if _, err := regular.Read(filepath.Join(dir, "missing"), 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	for name, want := range map[string]string{
		file: "is longer than 3 bytes", pipe: "is not a regular file", dir: "is not a regular file", "/dev/zero": "is not a regular file",
	} {
		if _, err := regular.Read(name, 3); err == nil || err.Error() != name+" "+want {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused := errors.New("refused")
	if data, err := regular.ReadIf(file, 4, func(fs.FileInfo) error { return refused }); data != nil || !errors.Is(err, refused) {
		t.Errorf("got %q, %v", data, err)
	}
	if _, err := regular.ReadAll(strings.NewReader("four"), "-", 3); err == nil || err.Error() != "- is longer than 3 bytes" {
		t.Errorf("standard input: %v", err)
	}
}
