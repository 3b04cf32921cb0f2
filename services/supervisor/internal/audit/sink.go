package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/acphost/acphost/internal/panics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

const (
	// sinkQueue is how many lines wait for a sink at most.
	sinkQueue = 1024
	// sinkGrace is how long a sink is waited for in the end.
	sinkGrace = time.Second
)

// sink hands lines to somewhere that may be slow. Nobody waits for it: what does not fit its queue is dropped, and the
// number of those is said once there is room.
type sink struct {
	name    string
	logger  *slog.Logger
	limit   int // a record that is longer is shortened
	lines   chan []byte
	done    chan struct{}
	dropped atomic.Uint64
}

// newSink begins to hand lines to a writer, one in each call of Write, without its end: a record, or what is to be said in
// place of those that were dropped.
func newSink(name string, logger *slog.Logger, to io.WriteCloser, limit int) *sink {
	s := &sink{name: name, logger: logger, limit: limit, lines: make(chan []byte, sinkQueue), done: make(chan struct{})}
	go s.run(to)
	return s
}

// offer never waits. It must not be called after close.
func (s *sink) offer(line []byte) {
	select {
	case s.lines <- line:
	default:
		s.dropped.Add(1)
	}
}

func (s *sink) run(to io.WriteCloser) {
	defer close(s.done)
	defer to.Close()
	failing := false
	write := func(line []byte, err error) {
		if err == nil {
			err = panics.Catch(s.logger, "sending an audit record to "+s.name, func() error {
				_, err := to.Write(line)
				return err
			})
		}
		switch {
		case err != nil && !failing: // once, not for every record
			s.logger.Warn("records do not reach one of their places; the audit's file has them", "place", s.name, "error", err)
		case err == nil && failing:
			s.logger.Info("records are sent again", "place", s.name)
		}
		failing = err != nil
	}
	for line := range s.lines {
		if n := s.dropped.Swap(0); n > 0 {
			s.logger.Warn("records were dropped, since their place was too slow; the audit's file has them", "place", s.name, "dropped", n)
			write(fmt.Appendf(nil, "acphost: %d audit records were dropped here; the audit's file has them", n), nil)
		}
		write(s.short(line))
	}
}

// short returns a line without its end, shortened to the limit.
func (s *sink) short(line []byte) ([]byte, error) {
	var err error
	if len(line) > s.limit {
		r, wrong := parse(line)
		if wrong != nil {
			r = &supervisorv1.AuditRecord{}
		}
		line, err = fit(r, s.limit)
	}
	return bytes.TrimSpace(line), err
}

// close waits for what is queued, up to sinkGrace. What cannot be ended then, a write to a pipe that nobody reads, ends
// with the process.
func (s *sink) close() {
	close(s.lines)
	timer := time.NewTimer(sinkGrace)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
		s.logger.Warn("records were not taken in time; the audit's file has them", "place", s.name, "waiting", len(s.lines))
	}
}

// plainSink ends the lines that it writes.
type plainSink struct{ w io.Writer }

func (p plainSink) Write(line []byte) (int, error) {
	return p.w.Write(append(slices.Clip(line), '\n'))
}

func (p plainSink) Close() error { return nil }

const (
	// syslogTimeout is how long the system's log may take for one message.
	syslogTimeout = time.Second
	// syslogLimit is what every syslog daemon takes as one message, in bytes.
	syslogLimit = 8 << 10
	// syslogNotice is facility "user" (1), severity "notice" (5).
	syslogNotice = 1<<3 | 5
)

// syslogAddresses are the sockets at which systems listen: Linux, and macOS.
var syslogAddresses = []string{"/dev/log", "/var/run/syslog", "/var/run/log"}

// syslogSink sends lines to the system's log in the form that libc's syslog(3) has. It has deadlines, which log/syslog
// has not.
type syslogSink struct {
	addresses []string
	conn      net.Conn
}

func (s *syslogSink) Write(line []byte) (int, error) {
	message := fmt.Appendf(nil, "<%d>%s acphost[%d]: %s", syslogNotice, time.Now().Format(time.Stamp), os.Getpid(), line)
	if s.conn != nil { // the daemon may have been started anew since
		if s.send(message) == nil {
			return len(line), nil
		}
		_ = s.Close()
	}
	if err := s.dial(); err != nil {
		return 0, err
	}
	return len(line), s.send(message)
}

func (s *syslogSink) send(message []byte) error {
	if err := s.conn.SetWriteDeadline(time.Now().Add(syslogTimeout)); err != nil {
		return err
	}
	_, err := s.conn.Write(message)
	return err
}

func (s *syslogSink) dial() error {
	var errs error
	for _, address := range s.addresses {
		conn, err := net.DialTimeout("unixgram", address, syslogTimeout)
		if err == nil {
			s.conn = conn
			return nil
		}
		errs = errors.Join(errs, err)
	}
	return fmt.Errorf("no log of the system listens here: %w", errs)
}

func (s *syslogSink) Close() error {
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	s.conn = nil
	return err
}
