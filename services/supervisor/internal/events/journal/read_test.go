package journal

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestReader_ReturnsLinesWrittenDuringRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.ndjson")
	line := func(n string) string { return `{"t":"2026-01-02T03:04:05.000000000Z","note":"` + n + `"}` + "\n" }
	if err := os.WriteFile(path, []byte(line("1")+line("2")), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReader(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	next := func(want string) {
		t.Helper()
		e, err := r.Next()
		if err != nil || e.Note != want {
			t.Fatalf("got %v, %v; want %s", e, err, want)
		}
	}
	next("1") // the file was read to its end by now
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(line("3")); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	next("2")
	next("3")
	if e, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, %v; want the end", e, err)
	}
}
