package socket

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair returns two ends of a Unix domain socket: one as it is, and the other made quiet.
func pair(t *testing.T) (plain net.Conn, quiet *conn) {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	dialed, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if plain, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	quiet, ok := Quiet(dialed).(*conn)
	if !ok {
		t.Fatal("Quiet returned the connection as it was")
	}
	t.Cleanup(func() {
		_ = plain.Close()
		_ = quiet.Close()
	})
	return plain, quiet
}

func TestBytesPassInBothDirectionsThoughWritesHaveToWait(t *testing.T) {
	plain, quiet := pair(t)
	sent := make([]byte, 8<<20) // many times what the kernel takes
	_, _ = rand.Read(sent)
	for _, way := range []struct {
		name     string
		from, to net.Conn
	}{{"quiet to plain", quiet, plain}, {"plain to quiet", plain, quiet}} {
		written := make(chan error, 1)
		go func() {
			n, err := way.from.Write(sent)
			if err == nil && n != len(sent) {
				err = io.ErrShortWrite
			}
			written <- err
		}()
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(way.to, got); err != nil {
			t.Fatalf("%s: %v", way.name, err)
		}
		if err := <-written; err != nil {
			t.Fatalf("%s: %v", way.name, err)
		}
		if !bytes.Equal(got, sent) {
			t.Errorf("%s: other bytes arrived", way.name)
		}
	}
}

func TestNothingIsToldWhenThePeerHasRead(t *testing.T) {
	plain, quiet := pair(t)
	if _, err := quiet.Write([]byte("request")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(plain, make([]byte, len("request"))); err != nil {
		t.Fatal(err)
	}
	if told := events(t, quiet); told != 0 {
		t.Errorf("the peer has read, and %d watchers tell of it", told)
	}
	if _, err := plain.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	if told := events(t, quiet); told != 1 {
		t.Errorf("the peer has written, and %d watchers tell of it, not 1", told)
	}
}

// events returns how many watchers would wake somebody.
func events(t *testing.T, c *conn) int {
	t.Helper()
	polled := []unix.PollFd{{Fd: int32(c.in.fd), Events: unix.POLLIN}, {Fd: int32(c.out.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(polled, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAReadEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(plain net.Conn, quiet *conn)
		want error
	}{
		{"with EOF if the peer closes", func(plain net.Conn, _ *conn) { _ = plain.Close() }, io.EOF},
		{"with net.ErrClosed if its connection is closed", func(_ net.Conn, quiet *conn) { _ = quiet.Close() }, net.ErrClosed},
		{"at the deadline", func(_ net.Conn, quiet *conn) { _ = quiet.SetDeadline(time.Now()) }, os.ErrDeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			plain, quiet := pair(t)
			ended := make(chan error, 1)
			go func() {
				_, err := quiet.Read(make([]byte, 1))
				ended <- err
			}()
			c.end(plain, quiet)
			if err := <-ended; !errors.Is(err, c.want) {
				t.Errorf("it ended with %v, not %v", err, c.want)
			}
		})
	}
}

func TestAWriteThatWaitsEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(plain net.Conn, quiet *conn)
		want error
	}{
		{"with EPIPE if the peer closes", func(plain net.Conn, _ *conn) { _ = plain.Close() }, unix.EPIPE},
		{"with net.ErrClosed if its connection is closed", func(_ net.Conn, quiet *conn) { _ = quiet.Close() }, net.ErrClosed},
		{"at the deadline", func(_ net.Conn, quiet *conn) { _ = quiet.SetDeadline(time.Now()) }, os.ErrDeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			plain, quiet := pair(t)
			ended := make(chan error, 1)
			go func() {
				_, err := quiet.Write(make([]byte, 8<<20))
				ended <- err
			}()
			if _, err := io.ReadFull(plain, make([]byte, 1)); err != nil { // it has begun
				t.Fatal(err)
			}
			c.end(plain, quiet)
			if err := <-ended; !errors.Is(err, c.want) {
				t.Errorf("it ended with %v, not %v", err, c.want)
			}
		})
	}
}

func TestOtherConnectionsStayAsTheyAre(t *testing.T) {
	one, other := net.Pipe()
	defer func() { _, _ = one.Close(), other.Close() }()
	if Quiet(one) != one {
		t.Error("a pipe was taken for a Unix domain socket")
	}
}

func TestClosedTwiceFailsWithoutHarm(t *testing.T) {
	_, quiet := pair(t)
	if err := quiet.Close(); err != nil {
		t.Fatal(err)
	}
	if err := quiet.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the second Close returned %v", err)
	}
}
