package jsonrpc

import (
	"bytes"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A standard stream that was blocking at start, and that another process has made non-blocking since, is not watched by
// Go's poller and returns EAGAIN.
func TestWriter_HandlesNonBlockingDescriptor(t *testing.T) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	r, out := os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	if err := unix.SetNonblock(fds[1], true); err != nil {
		t.Fatal(err)
	}
	w := NewWriter(out, 0)
	want := bytes.Repeat([]byte("0123456789abcde\n"), 1<<17)
	sent := make(chan error, 1)
	go func() {
		err := w.Send(want[:len(want)/2], want[len(want)/2:])
		_ = out.Close()
		sent <- err
	}()
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes (%v), want %d", len(got), err, len(want))
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	_ = r.Close()
}

func TestTrySend_DoesNotWaitForFullPipe(t *testing.T) {
	r, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close(); _ = out.Close() }()
	w := NewWriter(out, 0)
	frame := bytes.Repeat([]byte("x"), 4096)
	sent := 0
	for w.TrySend(frame) {
		if sent++; sent > 10000 {
			t.Fatal("the pipe takes everything")
		}
	}
	if sent == 0 {
		t.Error("an empty pipe took nothing")
	}
}
