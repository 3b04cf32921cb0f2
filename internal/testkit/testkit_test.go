package testkit

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// recorder is a test that notes how it failed.
type recorder struct {
	testing.TB
	text string
}

func (r *recorder) Helper()                   {}
func (r *recorder) Errorf(f string, a ...any) { r.text += fmt.Sprintf(f, a...) }
func (r *recorder) Fatalf(f string, a ...any) { r.text += fmt.Sprintf(f, a...) }
func (r *recorder) Fatal(a ...any)            { r.text += fmt.Sprint(a...) }

func TestGolden_WritesOnlyWithUpdateFlag(t *testing.T) {
	t.Chdir(t.TempDir())
	file := filepath.Join("testdata", "a", "b.txt")
	golden := func(got string) string {
		r := &recorder{TB: t}
		Golden(r, "a/b.txt", got)
		return r.text
	}
	if failure := golden("one"); !strings.Contains(failure, file) {
		t.Errorf("without a file got %q, want the file's name", failure)
	}
	*update = true
	failure := golden("one")
	*update = false
	if content, err := os.ReadFile(file); failure != "" || err != nil || string(content) != "one" {
		t.Fatalf("with -update: got %q, and the file holds %q (%v)", failure, content, err)
	}
	if failure := golden("one"); failure != "" {
		t.Errorf("the same content fails: %s", failure)
	}
	if failure := golden("two"); !strings.Contains(failure, "one") || !strings.Contains(failure, "two") {
		t.Errorf("other content: got %q, want both contents", failure)
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "one" {
		t.Errorf("the file holds %q (%v) after comparisons, want \"one\"", content, err)
	}
}

func TestPoll_EndsWithStateOrTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, looks := time.Now(), 0
		if !Poll(func() bool { looks++; return looks == 3 }) || time.Since(began) != 2*pause {
			t.Errorf("the third look arrived after %v, want %v", time.Since(began), 2*pause)
		}
		began = time.Now()
		if Poll(func() bool { return false }) || time.Since(began) < baseTimeout {
			t.Errorf("Poll ended after %v, want false after %v", time.Since(began), baseTimeout)
		}
		r := &recorder{TB: t}
		if Eventually(r, "the sun rises", func() bool { return true }); r.text != "" {
			t.Errorf("a state that holds fails: %s", r.text)
		}
		if Eventually(r, "the sun rises", func() bool { return false }); !strings.Contains(r.text, "the sun rises") {
			t.Errorf("got %q, want the state's name", r.text)
		}
	})
}

func TestShortDir_FitsSocketAndIsRemoved(t *testing.T) {
	var dir string
	t.Run(strings.Repeat("long", 30), func(t *testing.T) {
		dir = ShortDir(t)
		l, err := net.Listen("unix", filepath.Join(dir, "acphost", "1234567-123456789.sock"))
		if !errors.Is(err, os.ErrNotExist) { // the folder is missing, and the name is not too long
			t.Errorf("listen: %v, %v", l, err)
		}
	})
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder %q is left behind: %v", dir, err)
	}
}

func TestListens_WaitsForListenNotForFile(t *testing.T) {
	socket := filepath.Join(ShortDir(t), "a.sock")
	if Listens(socket) {
		t.Error("a socket without a file listens")
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(fd) }()
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: socket}); err != nil {
		t.Fatal(err)
	}
	if Listens(socket) {
		t.Error("a bound socket that does not listen yet listens")
	}
	if err := syscall.Listen(fd, 1); err != nil {
		t.Fatal(err)
	}
	if !Listens(socket) {
		t.Error("a listening socket does not listen")
	}
}
