package audit

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
)

func TestSink_WritesToStderr(t *testing.T) {
	r, w := io.Pipe()
	all := make(chan []byte)
	go func() {
		data, _ := io.ReadAll(r)
		all <- data
	}()
	l := open(t, Options{Stderr: w})
	write(t, l, record("a"), record("b"))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	want, err := os.ReadFile(l.opts.File)
	if err != nil {
		t.Fatal(err)
	}
	if got := <-all; !bytes.Equal(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// stuck is a place that takes nothing until it is let go.
type stuck struct {
	entered chan struct{} // one for each write that began
	let     chan struct{} // closed to let go
	got     bytes.Buffer  // read it after the sink has ended
}

func (s *stuck) Write(p []byte) (int, error) {
	select {
	case s.entered <- struct{}{}:
	default:
	}
	<-s.let
	return s.got.Write(p)
}

func TestSink_SlowWriterGetsLossCount(t *testing.T) {
	place := &stuck{entered: make(chan struct{}, 1), let: make(chan struct{})}
	var log bytes.Buffer
	l := open(t, Options{Stderr: place, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	write(t, l, record("first"))
	<-place.entered
	for range sinkQueue + 7 {
		write(t, l, record("x"))
	}
	if got := len(readAll(t, l.opts.File, Filter{})); got != sinkQueue+8 {
		t.Errorf("the file has %d records", got)
	}
	close(place.let)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	<-l.sinks[0].done
	got := place.got.String()
	if n := strings.Count(got, "\n{") + 1; n != sinkQueue+1 || !strings.Contains(got, "7 audit records were dropped") {
		t.Errorf("it got %d records, and %q of the rest", n, got[:min(len(got), 2000)])
	}
	if !strings.Contains(log.String(), "dropped=7") {
		t.Errorf("the log says %s", &log)
	}
}

func TestSyslog_GetsRecords(t *testing.T) {
	dir := testkit.ShortDir(t)
	socket := filepath.Join(dir, "log")
	listen := func() *net.UnixConn {
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	receive := func(c *net.UnixConn) string {
		t.Helper()
		if err := c.SetReadDeadline(time.Now().Add(testkit.Timeout())); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 64<<10)
		n, err := c.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
	daemon := listen()
	s := newSink("the system's log", slog.New(slog.DiscardHandler), &syslogSink{addresses: []string{filepath.Join(dir, "none"), socket}}, syslogLimit)
	line := func(id, text string) []byte {
		r := record(id)
		r.Action.Command.Text = text
		data, err := fit(r, MaxLine)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	s.offer(line("a", "ls"))
	head := fmt.Sprintf(" acphost[%d]: {", os.Getpid())
	if got := receive(daemon); !strings.HasPrefix(got, "<13>") || !strings.Contains(got, head) || !strings.HasSuffix(got, "}") || !strings.Contains(got, `"id":"a"`) {
		t.Errorf("got %s", got)
	}
	s.offer(line("b", strings.Repeat("x", 30<<10)))
	if got := receive(daemon); len(got) > syslogLimit+200 || !strings.Contains(got, shortened) {
		t.Errorf("got %d bytes", len(got))
	}
	// A daemon that is started anew has another socket.
	_ = daemon.Close()
	_ = os.Remove(socket)
	daemon = listen()
	defer daemon.Close()
	s.offer(line("c", "ls"))
	if got := receive(daemon); !strings.Contains(got, `"id":"c"`) {
		t.Errorf("got %s", got)
	}
	s.close()
}

func TestSyslog_MissingWarnsOnce(t *testing.T) {
	var log bytes.Buffer
	s := newSink("the system's log", slog.New(slog.NewTextHandler(&log, nil)), &syslogSink{addresses: []string{"/nonexistent/log"}}, syslogLimit)
	for range 5 {
		s.offer([]byte("{}\n"))
	}
	s.close()
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings: %s", n, &log)
	}
}
