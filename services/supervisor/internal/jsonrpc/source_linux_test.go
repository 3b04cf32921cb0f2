package jsonrpc

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestASourceReadsEveryKindOfFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	piped := func(block bool) *os.File {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if block {
			_ = r.Fd() // has Go's poller forget it
		}
		go func() {
			_, _ = w.WriteString("text")
			_ = w.Close()
		}()
		return r
	}
	regular, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*os.File{"a pipe": piped(false), "a blocking pipe": piped(true), "a regular file": regular} {
		got, err := io.ReadAll(newSource(f))
		if err != nil || string(got) != "text" {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		_ = f.Close()
	}
}

func TestASourceEndsAtItsDeadlineAndWhenItIsClosed(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(f *os.File) error
		want error
	}{
		{"deadline", func(f *os.File) error { return f.SetReadDeadline(time.Now()) }, os.ErrDeadlineExceeded},
		{"closed", (*os.File).Close, os.ErrClosed},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := newSource(r).Read(make([]byte, 1))
			ended <- err
		}()
		if err := c.end(r); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, c.want) {
			t.Errorf("%s: the read ended with %v", c.name, err)
		}
		_, _ = r.Close(), w.Close()
	}
}
