package files

import (
	"testing"

	"golang.org/x/sys/unix"
)

func closeFile(t testing.TB, fd int) {
	t.Helper()
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
}

func fifo(t testing.TB, path string) string {
	t.Helper()
	if err := unix.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}
