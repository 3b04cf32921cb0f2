package admin_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
)

// TestSocket_RefusesOtherUsers relaxes the file modes of socket and folder, so that only the
// kernel's information about the caller is left.
func TestSocket_RefusesOtherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	dir := testkit.ShortDir(t)
	s := start(t, admin.Options{Env: runtimeDir(dir)})
	for path, mode := range map[string]os.FileMode{dir: 0o755, filepath.Dir(s.Path()): 0o755, s.Path(): 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		uid  int
		want bool
	}{{"ourselves", 0, true}, {"another user", 12345, false}} {
		t.Run(c.name, func(t *testing.T) {
			// The server sends first once it accepts a connection: its settings frame. It closes a rejected connection.
			n, err := readAs(c.uid, s.Path())
			if got := n > 0; got != c.want {
				t.Errorf("%d bytes and error %v; taken %v, want %v", n, err, got, c.want)
			}
		})
	}
}

// readAs connects as a user and reads until the end. The kernel records the user of the thread that connects; the
// thread is not reused.
func readAs(uid int, path string) (n int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		fd, e := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if e != nil {
			err = e
			return
		}
		defer unix.Close(fd)
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); e != 0 {
			err = e
			return
		}
		if err = unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
			return
		}
		if _, err = unix.Write(fd, []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
			return
		}
		buf := make([]byte, 64)
		n, err = unix.Read(fd, buf)
		n = max(n, 0)
	}()
	<-done
	return n, err
}
