package activation_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/activation"
)

// TestMain plays the process that receives a socket, if a test requests it.
func TestMain(m *testing.M) {
	if os.Getenv("ACTIVATION_TEST") == "" {
		os.Exit(m.Run())
	}
	l, err := activation.TCP()
	left := fmt.Sprint(os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES"))
	switch {
	case err != nil:
		fmt.Println("error:", err)
	case l == nil:
		fmt.Println("none" + left)
	default:
		conn, err := l.Accept()
		if err == nil {
			_, err = fmt.Fprint(conn, "served"+left)
			_ = conn.Close()
		}
		fmt.Println(err)
	}
	os.Exit(0)
}

type filer interface {
	net.Listener
	File() (*os.File, error)
}

// activated starts a process as a service manager does: the shell knows its own process id, which stays that of the
// program.
func activated(t *testing.T, l filer, fds string) (*exec.Cmd, io.Reader) {
	t.Helper()
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), "ACTIVATION_TEST=1", "LISTEN_FDS="+fds, "LISTEN_FDNAMES=acphost.socket")
	if l != nil {
		f, err := l.File()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cmd.ExtraFiles = []*os.File{f}
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

func output(t *testing.T, cmd *exec.Cmd, out io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(out)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func TestListener_UsesPassedSocket(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd, out := activated(t, l.(*net.TCPListener), "1")
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got, err := io.ReadAll(conn); err != nil || string(got) != "served" {
		t.Errorf("served %q (%v); what is left of the variables follows the word", got, err)
	}
	if s := output(t, cmd, out); s != "<nil>" {
		t.Error(s)
	}
}

func TestListener_RejectsOtherSockets(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, c := range map[string]struct {
		l    filer
		fds  string
		want string
	}{
		"a unix socket": {l.(*net.UnixListener), "1", "not of TCP"},
		"two sockets":   {l.(*net.UnixListener), "2", "passed 2 sockets"},
		"none":          {nil, "", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd, out := activated(t, c.l, c.fds)
			if s := output(t, cmd, out); !strings.Contains(s, c.want) {
				t.Errorf("got %q, want %q", s, c.want)
			}
		})
	}
	t.Run("of another process", func(t *testing.T) {
		t.Setenv("LISTEN_PID", "1")
		t.Setenv("LISTEN_FDS", "1")
		if l, err := activation.TCP(); l != nil || err != nil {
			t.Errorf("%v, %v", l, err)
		}
	})
}
