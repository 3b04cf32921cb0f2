package proc

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestSlurp_ReadsWholeFile(t *testing.T) {
	for _, size := range []int{0, 1, pageSize - leastRead, pageSize, 3*pageSize + 1} {
		file, want := filepath.Join(t.TempDir(), "f"), bytes.Repeat([]byte("0123456"), size/7+1)[:size]
		if err := os.WriteFile(file, want, 0o600); err != nil {
			t.Fatal(err)
		}
		for name, read := range map[string]func() ([]byte, error){
			"all":     func() ([]byte, error) { return Slurp(file, nil) },
			"at once": func() ([]byte, error) { return slurp(file, make([]byte, 0, 512), math.MaxInt, true) },
			"behind b": func() ([]byte, error) {
				b, err := Slurp(file, []byte("b"))
				return bytes.TrimPrefix(b, []byte("b")), err
			},
		} {
			if got, err := read(); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: of %d bytes come %d, %v", name, size, len(got), err)
			}
		}
	}
	if _, err := Slurp(filepath.Join(t.TempDir(), "none"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := Slurp(t.TempDir(), nil); err == nil {
		t.Error("a folder was read")
	}
}

func TestSlurpMost_RejectsLongFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, make([]byte, 10_000), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := SlurpMost(file, nil, 9_999); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("got %v", err)
	}
	if b, err := SlurpMost(file, nil, 10_000); err != nil || len(b) != 10_000 {
		t.Errorf("got %d bytes, %v", len(b), err)
	}
}
