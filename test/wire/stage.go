package wire

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
)

// Stage is a listener for processes that a test plays: each connects, and sends its pid first.
type Stage struct {
	// Path is the socket.
	Path string

	listener *net.UnixListener
}

// NewStage makes a stage in a place.
func (p *Place) NewStage(t testing.TB) *Stage {
	t.Helper()
	path := filepath.Join(p.Home, "tmp", "stage"+strconv.FormatInt(time.Now().UnixNano(), 36)+".sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	if err := os.Chmod(path, 0o777); err != nil { // every process that can access the place may connect, as any user
		t.Fatal(err)
	}
	return &Stage{Path: path, listener: listener}
}

// Accept waits for a process and returns its connection, what reads from it, and its pid.
func (s *Stage) Accept(t testing.TB) (*net.UnixConn, *bufio.Reader, int) {
	t.Helper()
	conn, in, pid := s.AcceptOr(t, nil)
	if conn == nil {
		t.Fatal("the process that the test plays was not started")
	}
	return conn, in, pid
}

// AcceptOr is Accept that returns when done is closed; the connection is nil then.
func (s *Stage) AcceptOr(t testing.TB, done <-chan struct{}) (*net.UnixConn, *bufio.Reader, int) {
	t.Helper()
	if err := s.listener.SetDeadline(time.Now().Add(testkit.Timeout())); err != nil {
		t.Fatal(err)
	}
	accepted := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-done:
			_ = s.listener.SetDeadline(time.Now())
		case <-accepted:
		}
	}()
	conn, err := s.listener.AcceptUnix()
	close(accepted)
	<-watched
	if err != nil {
		return nil, nil, 0
	}
	t.Cleanup(func() { _ = conn.Close() })
	in := bufio.NewReaderSize(conn, 1<<20)
	line, err := in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return conn, in, pid
}

// Enter connects the calling process to a test's stage.
func Enter(socket string) (*net.UnixConn, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "%d\n", os.Getpid()); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// Puppet joins the standard input and output of the calling process to a test's stage, where the test plays it. It
// returns when either side ends; stubborn: never.
func Puppet(socket string, stubborn bool) error {
	conn, err := Enter(socket)
	if err != nil {
		return err
	}
	ended := make(chan struct{}, 2)
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		_ = conn.CloseWrite()
		if !stubborn {
			ended <- struct{}{}
		}
	}()
	go func() {
		_, _ = io.Copy(os.Stdout, conn)
		if stubborn {
			select {}
		}
		ended <- struct{}{}
	}()
	<-ended
	return nil
}
