package admin

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
)

func TestServer_RecreatesRemovedSocket(t *testing.T) {
	s, err := Start(Options{State: noState{}, Socket: filepath.Join(t.TempDir(), "d", "s.sock")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if err := os.Remove(s.Path()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the socket is made again", func() bool {
		conn, err := net.Dial("unix", s.Path())
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

func TestRenewedListener_RecreatesRemovedSocket(t *testing.T) {
	for _, own := range []bool{true, false} {
		dir := filepath.Join(t.TempDir(), "d")
		path := filepath.Join(dir, "s.sock")
		first, _, err := listen(Options{Socket: path})
		if err != nil {
			t.Fatal(err)
		}
		l := newRenewedListener(first, path, own)
		accepted := make(chan net.Conn)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				accepted <- conn
			}
		}()
		check := func(want bool) {
			t.Helper()
			if err := l.check(); (err == nil) != want {
				t.Fatalf("own: %v: %v", own, err)
			}
		}
		reaches := func() {
			t.Helper()
			conn, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.Close()
			_ = (<-accepted).Close()
		}
		check(true)
		reaches()
		if now, _ := l.current(); now != first {
			t.Error("it was made again though it was there")
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		check(true)
		reaches()
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("it is %v, %v", info, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		other, err := net.Listen("unix", path) // which poses as this one, or is another supervisor's
		if err != nil {
			t.Fatal(err)
		}
		other.(*net.UnixListener).SetUnlinkOnClose(false)
		check(own)
		if own {
			reaches()
		}
		_ = other.Close()
		check(true)
		reaches()
		_ = l.Close()
		<-ended
	}
}
