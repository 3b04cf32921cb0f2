// Package testkit provides helpers for the tests of every module: golden files, polling for a state that sends no
// signal, folders for sockets, and the path of the test binary.
//
// It imports only the standard library, so that every module's tests can use it. To find goroutines that a test leaves
// behind, use goleak.
package testkit

import (
	"flag"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files of the tests that run")

// Golden fails the test if got is not the content of the named file below the package's folder testdata. With the flag
// -update it writes the file instead.
func Golden(tb testing.TB, name, got string) {
	tb.Helper()
	file := filepath.Join("testdata", filepath.FromSlash(name))
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			tb.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	if got != string(want) {
		tb.Errorf("%s differs; -update rewrites it\ngot:\n%s\nwant:\n%s", file, got, want)
	}
}

// pause is the interval of polling.
const pause = 5 * time.Millisecond

// Poll polls until the state holds, and reports whether it did within Timeout. It is for states that send no signal,
// such as another process's. If there is a channel, a test should wait for the channel.
func Poll(state func() bool) bool {
	for begun := time.Now(); !state(); time.Sleep(pause) {
		if expired(begun) {
			return false
		}
	}
	return true
}

// Eventually is Poll for a test that cannot continue without the state. what names the state in the failure.
func Eventually(tb testing.TB, what string, state func() bool) {
	tb.Helper()
	if !Poll(state) {
		tb.Fatalf("not within %v: %s", Timeout(), what)
	}
}

// Listens reports whether a unix socket accepts connections. Its file exists a moment earlier.
func Listens(socket string) bool {
	c, err := net.Dial("unix", socket)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// ShortDir returns a folder whose path leaves room for a unix socket's name, which TB.TempDir's may not: a socket's
// path has about 100 bytes. It is below /tmp, contains no links, and is removed when the test ends.
func ShortDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/tmp", "acp") //nolint:usetesting // TB.TempDir may return a path that is too long
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}

// Self returns the path of the test binary, which many tests run again in another role.
func Self(tb testing.TB) string {
	tb.Helper()
	path, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}
